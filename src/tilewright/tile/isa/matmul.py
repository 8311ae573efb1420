"""The Tensor engine: nc_matmul."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.small_floats import is_zero
from tilewright.target import Target
from tilewright.tile.attrs import enum, flag, integers, matmul_perf_mode
from tilewright.tile.cost import matmul_cost
from tilewright.tile.indirect import index_of
from tilewright.tile.isa.transpose import float8_elements
from tilewright.tile.memory import PSUM, SBUF
from tilewright.tile.record import Call, Verdict, check, f32, instr, result, source
from tilewright.tile.view import View

WIDE = ("float32", "tfloat32")
FLOAT8 = ("float8_e4m3", "float8_e5m2")


def doubled(call: Call) -> bool:
    """Two rows of K per partition."""
    return call.perf_mode == "double_row"


def columns(view: View, call: Call) -> int:
    """The free size of an input: without the dim that holds the two rows of a partition."""
    return prod(view.sizes[2:]) if doubled(call) else view.free


def float8_types(call: Call) -> tuple[str, ...]:
    return (*FLOAT8, "float8_e4m3fn") if call.target["features.matmul_float8_e4m3fn"] else FLOAT8


def inputs(call: Call) -> tuple[tuple[str, View], ...]:
    return ("stationary", call.stationary), ("moving", call.moving)


@check("R-nc_matmul-02")
def input_types(call: Call) -> Verdict:
    allowed = (*float8_types(call), "bfloat16", "float16", *WIDE)
    for name, view in inputs(call):
        if view.dtype not in allowed:
            return (
                f"{name} is {view.dtype}; on {call.target.name} the Tensor engine takes {', '.join(allowed)}",
                "cast it with tensor_copy to a tile of one of these types",
            )
    return None


@check("R-nc_matmul-03")
def both_wide(call: Call) -> Verdict:
    a, b = call.stationary.dtype, call.moving.dtype
    if (a in WIDE) != (b in WIDE):
        return (
            f"stationary is {a} and moving {b}; float32 and tfloat32 go only with each other",
            "cast one with tensor_copy",
        )
    return None


@check("R-nc_matmul-04")
def one_float8(call: Call) -> Verdict:
    if {call.stationary.dtype, call.moving.dtype} == {"float8_e4m3", "float8_e4m3fn"}:
        return "float8_e4m3 and float8_e4m3fn are mixed"
    return None


@check("R-nc_matmul-05")
def destination_type(call: Call) -> Verdict:
    """float32, later also bfloat16; transpose mode passes 16-bit (and float8) elements through as they are."""
    target, allowed = call.target, ["float32"]
    if target["features.matmul_bfloat16_psum"]:
        allowed.append("bfloat16")
    if call.is_transpose and target["features.transpose_16bit_psum"]:
        allowed.append(call.stationary.dtype)
    if call.dst.dtype not in allowed:
        return f"dst is {call.dst.dtype}; on {target.name} it must be {' or '.join(dict.fromkeys(allowed))}"
    return None


@check("R-nc_matmul-06")
def equal_contraction(call: Call) -> Verdict:
    k, other = call.stationary.partitions, call.moving.partitions
    return None if k == other else f"stationary has {k} partitions, but moving has {other}"


@check("R-nc_matmul-07")
def contraction_size(call: Call) -> Verdict:
    limit = call.tile_size[0] if call.tile_size else call.target["limits.matmul_contraction_max"]
    k = max(call.stationary.partitions, call.moving.partitions)
    return None if k <= limit else (f"{k} rows to contract; at most {limit}", f"tile K by {limit} and accumulate")


@check("R-nc_matmul-08")
def stationary_size(call: Call) -> Verdict:
    m, limit = columns(call.stationary, call), call.target["limits.matmul_stationary_free_max"]
    if m > limit and not call.tile_size:
        message, hint = (
            f"stationary has {m} columns; at most {limit}",
            f"tile M by {limit} (nl.tile_size.gemm_stationary_fmax)",
        )
        return message, EXCHANGED if exchanged(call) else hint
    return None


EXCHANGED = "exchange stationary and moving: dst has the shape of moving.T @ stationary"


def exchanged(call: Call) -> bool:
    """Whether the destination fits the product with the operands the other way round, and that one alone."""
    m, n = columns(call.stationary, call), columns(call.moving, call)
    return m != n and (call.dst.partitions, call.dst.free) == (n, m)


@check("R-nc_matmul-09")
def moving_size(call: Call) -> Verdict:
    kind = "float32" if call.dst.dtype.itemsize == 4 else "bfloat16" if call.dst.dtype == "bfloat16" else "float16"
    n, limit = columns(call.moving, call), call.target[f"limits.matmul_moving_free_max.{kind}"]
    return None if n <= limit else (f"moving has {n} columns; at most {limit}", f"tile N by {limit}")


@check("R-nc_matmul-10")
def destination_shape(call: Call) -> Verdict:
    m, n = columns(call.stationary, call), columns(call.moving, call)
    if (call.dst.partitions, call.dst.free) != (m, n):
        message = f"dst is [{call.dst.partitions}, {call.dst.free}]; stationary.T @ moving is [{m}, {n}]"
        return (message, EXCHANGED) if exchanged(call) else message
    return None


@check("R-nc_matmul-11")
def one_bank(call: Call) -> Verdict:
    """What a partition of dst spans: PSUM tensors start at a bank, so that a span of a bank stays in it."""
    dst, target = call.dst, call.target
    dst = dst if index_of(dst) is None else dst.choices()
    span = 1 + sum((size - 1) * abs(stride) for size, stride in zip(dst.sizes[1:], dst.strides[1:], strict=True))
    limit = target["limits.matmul_dst_banks_max"] * target["memory.psum_bank_bytes"]
    if span * dst.dtype.itemsize > limit:
        return f"dst spans {span * dst.dtype.itemsize} bytes per partition; a matmul writes at most {limit} of psum"
    return None


@check("R-nc_matmul-12")
def double_row_generation(call: Call) -> Verdict:
    return "double_row needs NeuronCore-v3" if doubled(call) and not call.target["features.double_row"] else None


@check("R-nc_matmul-13")
def double_row_types(call: Call) -> Verdict:
    allowed = float8_types(call)
    for name, view in inputs(call):
        if doubled(call) and view.dtype not in allowed:
            return f"{name} is {view.dtype}; double_row takes {', '.join(allowed)}"
    return None


@check("R-nc_matmul-14")
def double_row_shape(call: Call) -> Verdict:
    rows = call.target["limits.matmul_double_row"]
    for name, view in inputs(call):
        if doubled(call) and (view.ndim < 3 or view.sizes[1] != rows):
            return f"{name} is {list(view.sizes)}; with double_row it is [K, {rows}, columns], K of {rows} * K rows"
    return None


@check("R-nc_matmul-15")
def double_row_alone(call: Call) -> Verdict:
    if not doubled(call):
        return None
    if call.is_transpose:
        return "double_row and is_transpose exclude each other"
    if call.tile_size and call.tile_size[-1] != call.target["limits.pe_columns"]:
        return "double_row and column tiling exclude each other"
    return None


@check("R-nc_matmul-16")
def tile_pair(call: Call) -> Verdict:
    if bool(call.tile_position) != bool(call.tile_size):
        return "tile_position and tile_size must be given together"
    if call.tile_size and (len(call.tile_size) != 2 or len(call.tile_position) != 2):
        return "tile_position is (start_row, start_column) and tile_size (row_size, column_size)"
    return None


def tiled(test: Callable[[Call], Verdict]) -> Callable[[Call], Verdict]:
    """The test of calls with a complete tile_position and tile_size."""
    return lambda call: test(call) if len(call.tile_size) == len(call.tile_position) == 2 else None


@check("R-nc_matmul-17")
@tiled
def tile_sizes(call: Call) -> Verdict:
    allowed = call.target["limits.pe_tile_sizes"]
    if any(size not in allowed for size in call.tile_size):
        return f"tile_size {call.tile_size}; on {call.target.name} both are {', '.join(map(str, allowed))}"
    return None


@check("R-nc_matmul-18")
@tiled
def tile_starts(call: Call) -> Verdict:
    ends = call.target["limits.pe_rows"], call.target["limits.pe_columns"]
    for what, start, size, end in zip(("row", "column"), call.tile_position, call.tile_size, ends, strict=True):
        if size < 1 or start < 0 or start % size or start + size > end:
            return f"start_{what} is {start}; it must be a multiple of {what}_size {size} inside {end} {what}s"
    return None


@check("R-nc_matmul-19")
@tiled
def tile_holds_stationary(call: Call) -> Verdict:
    m, width = columns(call.stationary, call), call.tile_size[1]
    return None if m <= width else f"stationary has {m} columns, but column_size is {width}"


@check("R-nc_matmul-24")
def indirect_operands(call: Call) -> Verdict:
    """The types are those of the inputs; what is scattered to psum has the types of any other destination."""
    names = [name for name, view in call.tensors() if index_of(view) is not None]
    if not names:
        return None
    if not call.target["features.indirection"]:
        return f"{names[0]} is an indirect view; tensor indirection needs NeuronCore-v4"
    if call.is_transpose and "moving" in names:
        return "moving is an indirect view, but is_transpose moves an identity", "gather stationary instead"
    if call.tile_position not in ((), (0, 0)):
        return f"{names[0]} is an indirect view, but tile_position is {call.tile_position}", "leave the tile out"
    allowed = (*float8_types(call), "bfloat16", "float16")
    for name, view in inputs(call):
        if name in names and view.dtype not in allowed:
            return f"{name} is an indirect view of {view.dtype}; it must be {', '.join(allowed)}"
    return None


def contracted(arrays: Sequence[Any], codes: Sequence[Any], extra: Mapping[str, Any]) -> Any:
    """Undefined elements of a transpose move along; in a contraction each spoils its row or its column."""
    stationary, moving = (None if each is None else each.reshape(each.shape[0], -1) for each in codes)
    if extra["is_transpose"] and extra["target"]["features.transpose_bit_exact"] and stationary is not None:
        row = _chosen_rows(arrays[1].reshape(len(arrays[1]), -1))
        return None if row is None else stationary[row].T
    rows, columns = arrays[0].reshape(len(arrays[0]), -1).shape[1], arrays[1].reshape(len(arrays[1]), -1).shape[1]
    found = np.zeros((rows, columns), np.int32)
    if moving is not None:
        found = np.maximum(found, moving.max(axis=0)[None, :])
    if stationary is not None:
        found = np.maximum(found, stationary.max(axis=0)[:, None])
    return found


@instr(
    nki="dst stationary moving is_stationary_onezero is_moving_onezero is_transpose accumulate tile_position tile_size "
    "perf_mode name",
    # R-engine-02 follows from these memories.
    operands={
        "dst": result("R-nc_matmul-01", (PSUM,), indirect=True),
        # A transpose moves what it does not know; a contraction would mix it into everything.
        "stationary": source(
            "R-nc_matmul-01", (SBUF,), layout="full", defined=lambda attrs: not attrs["is_transpose"], indirect=True
        ),
        "moving": source("R-nc_matmul-01", (SBUF,), layout="full", defined=True, indirect=True),
    },
    attrs={
        "is_stationary_onezero": flag(),
        "is_moving_onezero": flag(),
        "is_transpose": flag(purpose=("transpose", "dst = stationary, turned by a product with the identity")),
        "accumulate": flag(None),
        "tile_position": integers(()),
        "tile_size": integers(()),
        "perf_mode": enum(matmul_perf_mode, "none"),
    },
    engines=("tensor",),
    engine=lambda call: "tensor",
    since=2,
    rules=(
        input_types,
        both_wide,
        one_float8,
        destination_type,
        double_row_generation,
        double_row_types,
        double_row_shape,
        double_row_alone,
        tile_pair,
        tile_sizes,
        tile_starts,
        tile_holds_stationary,
        equal_contraction,
        contraction_size,
        stationary_size,
        moving_size,
        destination_shape,
        one_bank,
        float8_elements("stationary"),
        indirect_operands,
    ),
    flow=lambda arrays, codes, extra: contracted(arrays, codes, extra),
    cost=matmul_cost,
    coincides={"dst": ()},
    accumulates=True,
    # -20 to -22 are the machine's: it knows which elements of PSUM a matmul has written.
    dynamic_rules=("R-nc_matmul-20", "R-nc_matmul-21", "R-nc_matmul-22", "R-nc_matmul-23"),
    removed={
        "psumAccumulateFlag": ("R-nc_matmul-25", "drop it; accumulate= chooses between overwriting and adding"),
        "is_moving_zero": ("R-nc_matmul-25", "it is called is_moving_onezero"),
    },
)
def nc_matmul(
    stationary: np.ndarray,
    moving: np.ndarray,
    is_transpose: bool,
    perf_mode: str,
    target: Target,
    report: Callable[..., None],
) -> np.ndarray:
    """dst[m, n] (+)= sum over k of stationary[k, m] * moving[k, n], in float32

    Free dims are flattened (R-nc_matmul-26). With double_row k also runs over the first free dim. From NeuronCore-v3 on
    is_transpose passes elements through, so that NaN and infinity stay where they are; before, it changes nothing
    (R-nc_matmul-23).
    """
    k = stationary.shape[0]
    if is_transpose and target["features.transpose_bit_exact"]:
        row = _chosen_rows(moving.reshape(k, -1))
        if row is not None:
            return stationary.reshape(k, -1)[row].T
        report(
            "R-nc_matmul-23",
            "is_transpose needs an identity as moving, but a column of it has more or less than a single one",
            hint="pass nl.shared_identity_matrix, or leave is_transpose out",
        )
    if perf_mode == "double_row":
        k *= target["limits.matmul_double_row"]
    return _matrix(stationary, k).T @ _matrix(moving, k)


def _matrix(array: np.ndarray, rows: int) -> np.ndarray:
    """An operand in float32 with so many rows, its free dims flattened."""
    wide = f32(array)
    return wide if wide.ndim == 2 and len(wide) == rows else wide.reshape(rows, -1)


def _chosen_rows(moving: np.ndarray) -> np.ndarray | None:
    """For each column the one row that holds 1, where all others hold 0."""
    chosen = ~is_zero(moving)
    single = (np.count_nonzero(chosen, axis=0) == 1).all() and (moving[chosen] == 1).all()
    return chosen.argmax(axis=0) if single else None
