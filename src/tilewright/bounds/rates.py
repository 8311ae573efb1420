"""What instructions take at best, by their own records: time of an element of a lane on each engine, and least latency.

Each form of work lists the instructions that can do it. Their records are asked for the cost of small and large tiles
in every memory that they take; the fastest that is legal on the target counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any

import tilewright.tile.isa  # noqa: F401  (fills the table)
from tilewright.dtypes import DType, bfloat16, float8_e4m3, float32
from tilewright.rules import Reporter
from tilewright.target import Target
from tilewright.tile.memory import HBM, PSUM, SBUF, Buffer, MemoryRegion
from tilewright.tile.record import TABLE, Call, Cost
from tilewright.tile.verdict import Verifier
from tilewright.tile.view import whole

N, ONE = "n", "1"
"""Operands of a probe: a tile of as many columns as are asked for, and of one."""

_NARROW = (bfloat16, float8_e4m3)


@dataclass(frozen=True, slots=True)
class Probe:
    """An instruction: its operands in the record's order (N, ONE, a number or None) and its attributes."""

    record: str
    operands: tuple[Any, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)


def one_input() -> list[Probe]:
    """Any instruction that makes a tile of another one, by numbers and columns."""
    return [
        Probe("tensor_scalar", (N, N, 1.0, None), {"op0": "multiply"}),
        Probe("tensor_copy", (N, N)),
        *function("copy"),
    ]


def function(name: str) -> list[Probe]:
    """A function of the Scalar engine, and of the Vector engine where that has it."""
    found = [
        Probe("activation", (N, N, None, 1.0, None), {"op": name}),
        Probe("activate2", (N, N, None, None, None, None), {"op": name, "op0": "bypass", "op1": "bypass"}),
    ]
    return [*found, Probe("exponential", (N, N, None, None, None))] if name == "exp" else found


def two_inputs(op: str) -> list[Probe]:
    """An operator on two tiles."""
    return [
        Probe("tensor_tensor", (N, N, N), {"op": op}),
        Probe("scalar_tensor_tensor", (N, N, 1.0, N), {"op0": "multiply", "op1": op}),
    ]


def reduction(op: str) -> list[Probe]:
    """A reduction: at once, with a function, or by an operator on halves."""
    return [
        Probe("tensor_reduce", (ONE, N), {"op": op, "axis": (1,)}),
        Probe("activation_reduce", (N, N, None, 1.0, ONE), {"op": "copy", "reduce_op": op}),
        *two_inputs(op),
    ]


def scan(op: str) -> list[Probe]:
    """A scan: along the free dim, or by an operator on neighbours."""
    return [
        Probe("tensor_tensor_scan", (N, N, N, 0.0), {"op0": "multiply", "op1": op}),
        Probe("tensor_scalar_cumulative", (N, N, 1.0, None), {"op0": "multiply", "op1": op}),
        *two_inputs(op),
    ]


def through_tensor_engine() -> list[Probe]:
    """A product with ones and zeros, which moves, adds up and transposes."""
    return [
        Probe("nc_matmul", (N, N, N), {"is_stationary_onezero": ones, "is_moving_onezero": ones})
        for ones in (True, False)
    ]


class Rates:
    """The figures of one target; `wide` says whether elements are float32 or narrower."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._verifier = Verifier(target, Reporter(collect=True))
        self._known: dict[Any, dict[str, float]] = {}

    def per_element(self, key: Any, probes: Sequence[Probe], wide: bool) -> dict[str, float]:
        """ns that one element takes of each engine that can do the work, all lanes in use."""
        known = self._known.get((key, wide))
        if known is None:
            # What is narrow can also be stored wide.
            known = {} if wide else dict(self.per_element(key, probes, True))
            lanes, few, many = self.target["limits.partitions"], 1 << 7, 1 << 8
            for engine, (small, large) in self._costs(probes, (float32,) if wide else _NARROW, (few, many)):
                each = (large.interval_ns - small.interval_ns) / (many - few) / lanes
                known[engine] = min(known.get(engine, each), each)
            self._known[key, wide] = known
        return known

    def latency(self, key: Any, probes: Sequence[Probe]) -> float:
        """The least time from an instruction that does the work to one that sees its result; 0 where none is known."""
        known = self._known.get(("latency", key))
        if known is None:
            found = [cost.latency_ns for _, (cost,) in self._costs(probes, (float32, *_NARROW), (1,))]
            known = self._known["latency", key] = {"": min(found, default=0.0)}
        return known[""]

    def _costs(
        self, probes: Sequence[Probe], dtypes: Sequence[DType], sizes: Sequence[int]
    ) -> Iterator[tuple[str, list[Cost]]]:
        """(engine, costs of tiles of these sizes) of every legal form of the instructions."""
        for probe in probes:
            record = TABLE[probe.record]
            if self.target.generation < record.since:
                continue
            tiles = sum(x in (N, ONE) for x in probe.operands) if probe.record != "nc_matmul" else 0
            engines = record.engines if "engine" in record.attrs else (None,)
            for dtype, engine, memories in product(dtypes, engines, product((SBUF, PSUM), repeat=tiles)):
                attrs = record.attributes({**probe.attrs, **({} if engine is None else {"engine": engine})})
                calls = [
                    Call(record, self._operands(probe, dtype, memories, size), attrs, self.target) for size in sizes
                ]
                first = list(calls[0].operands.values())
                if not self._verifier.check(record, first, attrs, None).legal:
                    continue
                for call in calls:
                    call.resolve_engine()
                yield calls[0].engine, [record.cost(call) for call in calls]

    def _operands(self, probe: Probe, dtype: DType, memories: Sequence[MemoryRegion], size: int) -> list[Any]:
        lanes = self.target["limits.partitions"]
        if probe.record == "nc_matmul":
            columns = min(size, lanes)
            stationary, moving = _tile(dtype, SBUF, lanes, columns), _tile(dtype, SBUF, lanes, size)
            return [_tile(float32, PSUM, columns, size), stationary, moving]
        places = iter(memories)
        return [
            x if x not in (N, ONE) else _tile(dtype, next(places), lanes, size if x == N else 1) for x in probe.operands
        ]

    def transfer_ns(self, loads: bool) -> float:
        """The least time of a transfer from or to HBM until its data are there."""
        record, found = TABLE["dma_copy"], []
        for mode in ("unknown", "swdge", "hwdge"):
            hbm, chip = _tile(float32, HBM, 1, 1), _tile(float32, SBUF, 1, 1)
            attrs = record.attributes({"dge_mode": mode})
            operands = [chip, hbm] if loads else [hbm, chip]
            operands += [None] * (len(record.operands) - 2)
            if self._verifier.check(record, operands, attrs, None).legal:
                found.append(record.cost(Call(record, operands, attrs, self.target)).latency_ns)
        return min(found)


def _tile(dtype: DType, memory: MemoryRegion, rows: int, columns: int) -> Any:
    return whole(Buffer(dtype, (rows, columns), memory))


@lru_cache(maxsize=8)
def rates_of(target: Target) -> Rates:
    """The rates of a target, kept."""
    return Rates(target)
