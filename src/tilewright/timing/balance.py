"""Engines of instructions that leave theirs open: each goes where it is done first, as far as program order tells.

Compilers share such work between engines. Published trn2 profiles show the copies out of PSUM of one loop on the Vector
and the Scalar engine in turn (bench/calibration, fusion-profile-trn2); on trn1 products with a number, too, run on the
Scalar engine, as activations.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from tilewright.ir.core import Op
from tilewright.target import Target
from tilewright.tile.costed import facts_of, remembered
from tilewright.tile.record import Cost, Record
from tilewright.timing.pin import is_transfer, may_run_on

CostOn = Callable[[Op, str | None], tuple[str, Cost]]
"""The engine of an instruction and its cost there; None for the engine that the target has for it."""

_OPEN = ("unknown", None)


class Balance:
    """How long each engine has had to do so far, and which engine is to do what is left open."""

    __slots__ = ("_among", "_cost", "_known", "_load", "_rules", "_target")

    def __init__(self, target: Target, cost: CostOn) -> None:
        self._among: tuple[str, ...] = target["compiler.shared_engines"]
        # Where the compiler writes copies and products with a number as activations, no rule of theirs is in the way.
        features = ("features.scalar_tensor_copy", "features.scalar_tensor_scalar")
        by_activation = target["compiler.copies_as_activations"]
        self._rules = target.replace(dict.fromkeys(features, True), target.name) if by_activation else target
        self._cost = cost
        self._target = target
        self._load: dict[str, float] = dict.fromkeys(self._among, 0.0)
        self._known: dict[Hashable, dict[str, float]] = {}

    def choose(self, op: Op, key: Hashable) -> str:
        """The engine that has finished it first. key: what instructions of equal cost have in common."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = remembered(
                self._target,
                ("open", *facts_of(op.definition, op.operands, op.attrs)),
                op.attrs,
                lambda: self._intervals(op),
            )
        return min(found, key=lambda engine: self._load[engine] + found[engine], default="")

    def _intervals(self, op: Op) -> dict[str, float]:
        """How long each engine takes for an instruction that may run it, and is no slower than the usual one."""
        able = [engine for engine in self._among if may_run_on(op, engine, self._rules)]
        usual = self._cost(op, None)[1].interval_ns
        found = {engine: self._cost(op, engine)[1].interval_ns for engine in able}
        return {engine: ns for engine, ns in found.items() if ns <= usual}

    def add(self, engine: str, interval_ns: float) -> None:
        """An engine has more to do."""
        if engine in self._load:
            self._load[engine] += interval_ns


def is_open(op: Op) -> bool:
    """True when an instruction leaves its engine to the compiler."""
    record: Record = op.definition
    return "engine" in record.attrs and op.attrs.get("engine") in _OPEN and not is_transfer(op)
