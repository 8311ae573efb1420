"""Rules that hold for every instruction, and small factories for rules that many instructions share."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tilewright.dtypes import DType
from tilewright.target import Target
from tilewright.tile.alu import ALU
from tilewright.tile.indirect import INDIRECTION
from tilewright.tile.memory import PSUM
from tilewright.tile.record import Call, Check, Verdict, check
from tilewright.tile.view import View

COMPUTE_ENGINES = ("vector", "scalar", "gpsimd", "tensor")
INT32 = ("int32", "uint32")


@check("R-tensor-03")
def view_rank(call: Call) -> Verdict:
    """An on-chip view has at most five dims; of a transfer's side in HBM what counts are the merged ones."""
    limit = call.target["limits.max_view_dims"]
    for name, view in call.tensors():
        if view.ndim > limit and (view.on_chip or len(collapsed(view)) + 1 > limit):
            return f"{name} has {view.ndim} dims; an access pattern has at most {limit}", "merge or loop over dims"
    return None


@check("R-tensor.dtype-01")
def known_dtype(call: Call) -> Verdict:
    """The generation has the element type of every operand."""
    for name, view in call.tensors():
        if view.dtype in call.target["dtypes.missing"]:
            return missing_dtype(name, view.dtype, call.target)
    return None


def missing_dtype(what: str, dtype: DType, target: Target) -> tuple[str, str]:
    """Message and hint for something of an element type that a target does not have."""
    return f"{what} is {dtype}, which {target.name} does not have", _INSTEAD


_INSTEAD = "convert the data to another type, such as float8_e4m3 or bfloat16"


@check("R-tensor.index-04")
def consecutive_partitions(call: Call) -> Verdict:
    """An access takes consecutive partitions (read back from text, a view may say otherwise)."""
    for name, view in call.tensors():
        if view.on_chip and view.steps_over_partitions:
            return f"{name} steps over partitions; an access takes consecutive ones"
    return None


@check("R-engine-01", general=True)
def gpsimd_reaches_no_psum(call: Call) -> Verdict:
    if call.engine != "gpsimd":
        return None
    for name, view in call.tensors():
        if view.memory is PSUM:
            return f"{name} is in psum, which GpSimd cannot access", "copy it to sbuf, or run on another engine"
    return None


@check("R-engine-04", general=True)
def partition_count(call: Call) -> Verdict:
    limit = call.target["limits.partitions"]
    for name, view in call.tensors():
        if view.on_chip and view.partitions > limit:
            return f"{name} partition dimension {view.partitions} exceeds maximum {limit}", f"tile dim 0 by {limit}"
    return None


@check("R-engine-06")
def cross_partition(call: Call) -> Verdict:
    """Only halves and quadrants move across partitions: larger accesses have no second place to go to."""
    first: tuple[str, View] | None = None
    for name, view in call.tensors():
        if not view.on_chip or not call.spec(name).start or len(allowed_starts(view.partitions, call)) > 1:
            continue
        if first is None:
            first = name, view
        elif view.start_partition != first[1].start_partition:
            return (
                f"{first[0]} starts at partition {first[1].start_partition} and {name} at {view.start_partition}: "
                f"{view.partitions} partitions cannot move",
                "move at most half of the partitions at a time, or all of them with dma_copy",
            )
    return None


@check("R-tensor.address-03")
def start_partition(call: Call) -> Verdict:
    """65..128 partitions start at 0; 33..64 at 0 or 64; up to 32 at 0, 32, 64 or 96."""
    for name, view in call.tensors():
        if not view.on_chip or not call.spec(name).start:
            continue
        allowed = allowed_starts(view.partitions, call)
        if view.start_partition not in allowed:
            starts = ", ".join(map(str, allowed))
            return (
                f"{name} takes {view.partitions} partitions from partition {view.start_partition}; "
                f"it may start at {starts}",
                "copy across partitions with dma_copy or nc_stream_shuffle, or place the data on another quadrant",
            )
    return None


def allowed_starts(partitions: int, call: Call) -> tuple[int, ...]:
    """First partitions that an access of this many partitions may have."""
    for limit, starts in call.target["memory.partition_starts"]:
        if partitions <= limit:
            return starts
    return (0,)


@check("R-engine-07")
def free_size(call: Call) -> Verdict:
    """64K elements per partition; 4K in PSUM, where elements that are read again (step 0) do not count."""
    if call.engine not in ("vector", "scalar"):
        return None
    for name, view in call.tensors():
        if not view.on_chip:
            continue
        most, psum_most = call.target["limits.vector_free_max_sbuf"], call.target["limits.vector_free_max_psum"]
        held = prod(size for size, stride in zip(view.sizes[1:], view.strides[1:], strict=True) if stride)
        if view.memory is PSUM and held > psum_most:
            return f"{name} has {held} elements per partition; the {call.engine} engine takes {psum_most} in psum"
        if view.free > most:
            return f"{name} has {view.free} elements per partition; the {call.engine} engine takes {most}"
    return None


@check("R-engine-08")
def access_pattern(call: Call) -> Verdict:
    """What remains of an access after merging dims fits the fields of an instruction."""
    target = call.target
    if call.engine not in COMPUTE_ENGINES:
        return None
    for name, view in call.tensors():
        if not view.on_chip:
            continue
        dims = collapsed(view)
        # A dim too long for its field is cut in two.
        needed = sum(1 if size <= target["limits.access_size_max"] else 2 for size, _ in dims)
        if needed > target["limits.max_free_dims"]:
            return f"{name} is accessed over {needed} free dims; an instruction takes {target['limits.max_free_dims']}"
        for _, stride in dims:
            if not target["limits.access_stride_min"] <= stride <= target["limits.access_stride_max"]:
                return (
                    f"{name} steps {stride} elements along a free dim; a step fits "
                    f"{target['limits.access_stride_min']}..{target['limits.access_stride_max']}",
                    "loop over that dim",
                )
    return None


def collapsed(view: View) -> list[tuple[int, int]]:
    """(size, stride) of an access's free dims without those of size 1, neighbours merged where they continue."""
    dims: list[tuple[int, int]] = []
    for size, stride in zip(view.sizes[1:], view.strides[1:], strict=True):
        if size == 1:
            continue
        if dims and dims[-1][1] == size * stride:
            dims[-1] = (dims[-1][0] * size, stride)
        else:
            dims.append((size, stride))
    return dims


@check("R-engine-13")
def operator_generation(call: Call) -> Verdict:
    for value in call.attrs.values():
        row = ALU.get(value) if isinstance(value, str) else None
        if row is not None and row.since > call.target.generation:
            return f"{row.name} needs NeuronCore-v{row.since}; {call.target.name} is v{call.target.generation}"
    return None


@check("R-engine-15")
def computes_outside_psum(call: Call) -> Verdict:
    """An older API level: PSUM is only drained (one tensor in, one out), nothing else is computed on it."""
    tensors = [name for name, view in call.tensors() if call.spec(name).reads]
    if call.engine == "tensor" or len(tensors) < 2:
        return None
    for name, view in call.tensors():
        if view.memory is PSUM and call.spec(name).reads:
            return f"{name} is in psum, which the simulator of NKI 0.3.0 refuses here", "copy it to sbuf first"
    return None


COMMON = (
    computes_outside_psum,
    known_dtype,
    view_rank,
    consecutive_partitions,
    gpsimd_reaches_no_psum,
    partition_count,
    cross_partition,
    start_partition,
    free_size,
    access_pattern,
    operator_generation,
    *INDIRECTION,
)


# Factories.


def same_layout(rule: str, *names: str) -> Check:
    """The named operands have equal partitions and equal elements per partition (ranks may differ)."""

    def test(call: Call) -> Verdict:
        views = [(name, call.operands[name]) for name in names if isinstance(call.operands.get(name), View)]
        first_name, first = views[0]
        for name, view in views[1:]:
            if view.partitions != first.partitions:
                return _other_partitions(name, view, first_name, first)
            if view.free != first.free:
                message = f"{name} has {view.free} elements per partition, but {first_name} has {first.free}"
                column = 1 in (view.free, first.free) and name != "dst"
                return message, COLUMN_HINT if column else f"slice both to {min(view.free, first.free)} elements"
        return None

    return Check(rule, test)


COLUMN_HINT = "nisa.tensor_scalar takes a (P, 1) column as operand0 and combines it with every element of its partition"


ROW_HINT = (
    "engines repeat no row: copy it to all partitions with nl.broadcast_to(row, tile.shape), by nc_matmul with "
    "a row of ones, or load it with .ap and a step of 0"
)


def same_partitions(rule: str, *names: str) -> Check:
    """The named operands have equal partitions."""

    def test(call: Call) -> Verdict:
        views = [(name, call.operands[name]) for name in names if isinstance(call.operands.get(name), View)]
        first_name, first = views[0]
        for name, view in views[1:]:
            if view.partitions != first.partitions:
                return _other_partitions(name, view, first_name, first)
        return None

    return Check(rule, test)


def _other_partitions(name: str, view: View, other: str, first: View) -> tuple[str, str]:
    few = min(view.partitions, first.partitions)
    row = few == 1 and "dst" not in (name, other)
    return (
        f"{name} has {view.partitions} partitions, but {other} has {first.partitions}",
        ROW_HINT if row else f"slice both to {few} partitions: [0:{few}]",
    )


def column(rule: str, name: str, like: str) -> Check:
    """The named operand, when a tensor, is a (P, 1) vector with the partitions of `like`."""

    def test(call: Call) -> Verdict:
        view = call.operands.get(name)
        if not isinstance(view, View):
            return None
        wanted = call.operands[like].partitions
        if view.partitions != wanted or view.free != 1:
            message = f"{name} is {list(view.sizes)}; it must be a number or a ({wanted}, 1) vector"
            return message, f"slice it to the partitions of {like} and one element of each: [0:{wanted}, 0:1]"
        return None

    return Check(rule, test)


def not_both_psum(rule: str, first: str, second: str) -> Check:
    """Two inputs may not both be in PSUM."""

    def test(call: Call) -> Verdict:
        a, b = call.operands[first], call.operands[second]
        both = isinstance(a, View) and isinstance(b, View) and a.memory is PSUM and b.memory is PSUM
        return (f"{first} and {second} are both in psum", "copy one of them to sbuf with tensor_copy") if both else None

    return Check(rule, test, apart=(first, second))


def dtype_in(rule: str, name: str, allowed: tuple[str, ...] | Callable[[Call], tuple[str, ...]]) -> Check:
    """The named operand, when a tensor, has one of these dtypes."""

    def test(call: Call) -> Verdict:
        view = call.operands.get(name)
        choice = allowed(call) if callable(allowed) else allowed
        if isinstance(view, View) and view.dtype not in choice:
            message = f"{name} is {view.dtype}; it must be {' or '.join(choice)}"
            return message, f"allocate it as {choice[0]}, or convert it with tensor_copy first"
        return None

    return Check(rule, test)


def same_dtype(rule: str, first: str, second: str) -> Check:
    """Two operands have equal dtypes."""

    def test(call: Call) -> Verdict:
        a, b = call.operands.get(first), call.operands.get(second)
        if isinstance(a, View) and isinstance(b, View) and a.dtype != b.dtype:
            message = f"{first} is {a.dtype}, but {second} is {b.dtype}"
            return message, f"allocate {second} as {a.dtype}, or convert {first} with tensor_copy first"
        return None

    return Check(rule, test)


def runs_on(rule: str, *engines: str) -> Check:
    """The engine, when given, is one of these."""

    def test(call: Call) -> Verdict:
        if call.engine in engines:
            return None
        message = f"cannot run on the {call.engine} engine, only {', '.join(engines)}"
        return message, f"pass engine=nisa.engine.{engines[0]}, or leave engine out"

    return Check(rule, test)


def bitvec_integers(rule: str, *names: str) -> Check:
    """Bit-pattern operators need integer inputs and outputs."""

    def test(call: Call) -> Verdict:
        ops = [ALU[v] for v in call.attrs.values() if isinstance(v, str) and v in ALU and ALU[v].bitvec]
        if not ops:
            return None
        for name in names:
            view = call.operands.get(name)
            if isinstance(view, View) and not view.dtype.is_integer:
                message = f"{ops[0].name} works on bit patterns of integers, but {name} is {view.dtype}"
                return message, as_integers(name, view)
        return None

    return Check(rule, test)


def as_integers(name: str, view: View) -> str:
    """The hint for an operand whose bits are asked for, or should be."""
    bits = f"{name}.view(nl.int{8 * view.dtype.itemsize})"
    return f"convert it to integers with tensor_copy, or take its bits: {bits}"
