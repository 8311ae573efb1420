"""Where the cores of a logical core wait for each other: core_barrier, sendrecv."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.errors import TileTypeError
from tilewright.rules import violate
from tilewright.tile.attrs import dma_engine, engine, enum, integer, integers
from tilewright.tile.common import COMPUTE_ENGINES, same_dtype
from tilewright.tile.dma import exchange_cost
from tilewright.tile.memory import SBUF, SHARED_HBM
from tilewright.tile.record import Attr, Call, Cost, Meeting, OperandSpec, Verdict, check, instr, result, source


def _members(*cores: int) -> tuple[int, ...]:
    return tuple(sorted(set(cores)))


# core_barrier.


def _read_cores(value: object, name: str) -> tuple[int, ...] | None:
    if isinstance(value, list):
        violate(
            "R-core_barrier-05",
            f"core_barrier: {name}={value!r} is a list; it must be a tuple",
            hint=f"write {name}={tuple(value)!r}",
            error=TileTypeError,
        )
    return integers().read(value, name)


@check("R-core_barrier-02")
def all_cores(call: Call) -> Verdict:
    wanted = tuple(range(call.target["limits.lnc_max"]))
    return None if call.cores == wanted else f"cores is {call.cores}; only {wanted} is supported"


def barrier_cost(call: Call) -> Cost:
    """A round trip between the cores, for which the engine waits."""
    spent = call.target["chip.core_barrier_us"] * 1e3
    return Cost(spent, spent)


def _barrier(attrs: Mapping[str, Any], core: int) -> Meeting:
    cores = attrs["cores"]
    return Meeting("R-core_barrier-04", place=("cores", *cores), cores=_members(core, *cores))


@instr(
    nki="data cores engine name",
    # Neither read nor written: the data says which accesses the barrier orders.
    operands={"data": OperandSpec(False, False, (SHARED_HBM,), "R-core_barrier-03", layout="full", start=False)},
    attrs={"cores": Attr(_read_cores, integers().plain, members=tuple), "engine": enum(engine, "gpsimd")},
    engines=(*COMPUTE_ENGINES, "sync"),
    engine=lambda call: call.target["engines.core_barrier"],
    since=3,
    since_rule="R-core_barrier-01",
    rules=(all_cores,),
    flow="elementwise",
    cost=barrier_cost,
    coincides={},
    dynamic_rules=("R-core_barrier-04",),
    meeting=_barrier,
)
def core_barrier() -> tuple[()]:
    """all cores have come here before any goes on: data = what all of them have written to it"""
    return ()


# sendrecv.


@check("R-sendrecv-02")
def two_ranks(call: Call) -> Verdict:
    count = call.target["limits.lnc_max"]
    for name in ("send_to_rank", "recv_from_rank"):
        if not 0 <= call.attrs[name] < count:
            return f"{name} is {call.attrs[name]}; a logical core has the ranks {', '.join(map(str, range(count)))}"
    return None


@check("R-sendrecv-03")
def equal_tiles(call: Call) -> Verdict:
    if call.src.sizes != call.dst.sizes:
        return f"src is {list(call.src.sizes)}, but dst is {list(call.dst.sizes)}", "slice or reshape one of them"
    return None


@check("R-sendrecv-04")
def small_rows(call: Call) -> Verdict:
    if call.dma_engine != "gpsimd_dma":
        return None
    most = call.target[f"limits.sendrecv_gpsimd_bytes.itemsize{call.src.dtype.itemsize}"]
    size = call.src.free * call.src.dtype.itemsize
    if size > most:
        return (
            f"src has {size} bytes per partition; with dma_engine gpsimd_dma {call.src.dtype} may have {most}",
            "send the tile in pieces, or leave dma_engine out",
        )
    return None


def _pipe(attrs: Mapping[str, Any], core: int) -> Meeting:
    to, origin = attrs["send_to_rank"], attrs["recv_from_rank"]
    place = ("pipe", attrs["pipe_id"])
    return Meeting("R-sendrecv-05", place, _members(core, to, origin), sends_to=to, listens_to=origin)


@instr(
    nki="src dst send_to_rank recv_from_rank pipe_id dma_engine name",
    operands={
        "dst": result("R-sendrecv-03", (SBUF,), start=False),
        "src": source("R-sendrecv-03", (SBUF,), start=False),
    },
    attrs={
        "send_to_rank": integer(rule="R-sendrecv-02"),
        "recv_from_rank": integer(rule="R-sendrecv-02"),
        "pipe_id": integer(),
        "dma_engine": enum(dma_engine, "dma"),
    },
    engines=("dma", "gpsimd"),
    engine=lambda call: "gpsimd" if call.dma_engine == "gpsimd_dma" else "dma",
    since=3,
    since_rule="R-sendrecv-01",
    rules=(two_ranks, equal_tiles, same_dtype("R-sendrecv-03", "src", "dst"), small_rows),
    flow="elementwise",
    cost=exchange_cost,
    coincides={"dst": ()},
    dynamic_rules=("R-sendrecv-05",),
    meeting=_pipe,
)
def sendrecv(src: np.ndarray, shape: tuple[int, ...], dtype: DType, report: Any) -> np.ndarray:
    """dst = src of core recv_from_rank, which sends it to this core"""
    if src.shape != (shape[0], prod(shape[1:])) or src.dtype != dtype.np:
        report(
            "R-sendrecv-03",
            f"sendrecv: the other core sends {src.dtype}{list(src.shape)}, but dst is {dtype}{list(shape)}",
            hint="exchange tiles of one shape and dtype on all cores",
            final=True,
        )
    return src
