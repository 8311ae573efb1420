"""Barriers and steps of a program that separate nothing, or nothing that has to be separated."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tilewright.ir.core import Op
from tilewright.programs.call import READ, STEP
from tilewright.programs.facts import Legality
from tilewright.programs.units import Units


def redundant(units: Units, legality: Legality, unmoved: Legality, joined: Collection[Op]) -> list[str]:
    """What to say of them. unmoved: every tensor stays where it is. joined: steps that the plan does without."""
    found: list[str] = []
    stages = [unit.stage for unit in units.units]
    for place, op in enumerate(units.ends):
        if op.definition is READ:
            continue
        what = f"the {'step' if op.definition is STEP else 'barrier'} at {op.location} is redundant"
        before = [number for number, stage in enumerate(stages) if stage <= place]
        after = [number for number, stage in enumerate(stages) if stage > place]
        again = place > 0 and place not in stages
        if not before or not after or again:
            found.append(f"{what}: no kernel stands between it and another")
        elif legality.is_legal(sides := [before[-1], after[0]]):
            found.append(f"{what}: {_could_be_one(units, sides, unmoved, op in joined)}")
    return found


def _could_be_one(units: Units, sides: Sequence[int], unmoved: Legality, are: bool) -> str:
    kernels = " and ".join(units.units[number].name for number in sides)
    if are:
        return f"{kernels} are one executable without it"
    moved = "" if unmoved.is_legal(sides) else ", with tensors moved to private memory"
    return f"{kernels} may be one executable{moved}"
