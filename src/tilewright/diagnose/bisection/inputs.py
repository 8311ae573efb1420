"""Which inputs a failure needs, which elements of them, and how far those may go: all others are plain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.diagnose.bisection.reduction import Budget, fewest, smallest
from tilewright.diagnose.bisection.variants import Variant, with_input

INPUTS, KERNEL, UNKNOWN = "inputs", "kernel", "unknown"
_STEPS = 1 << 16
"""How finely the way from a plain value to one that fails is looked at."""
Places = list[tuple[int, ...]]
Edge = tuple[Any, Any]
"""Two values of an element next to each other: with the first nothing is wrong, with the second it fails."""
Verdict = Callable[[Variant, Any, str], bool]


class Inputs:
    """Puts plain values in the place of a variant's arrays.

    What is plain depends on the kernel: one divides by zero, another has an index of one too many. So there are several
    plain values, of which the first counts that makes the failure go away.
    """

    def __init__(self, variant: Variant, names: Sequence[str], fails: Verdict, passes: Verdict, budget: Budget) -> None:
        self.variant, self.names, self.fails, self.passes, self.budget = variant, names, fails, passes, budget
        self.axis = KERNEL
        """Whether the failure depends on values or on the kernel: unknown, if the budget ended before that was known.

        That it goes away with zeros says little, of which nothing comes in most kernels. With ones it has to as well.
        """

    def needed(self) -> dict[int, np.ndarray]:
        """The inputs with whose values the failure goes away, each with the plain values that make it."""
        found: dict[int, np.ndarray] = {}
        for number, array in enumerate(self.variant.arrays):
            fails: dict[str, bool] = {}
            for kind, plain in _plain(array):
                if self.budget.is_over:
                    self.axis = UNKNOWN if self.axis == KERNEL else self.axis
                    return found
                what = f"{self.names[number]} plain ({kind}), all else as it is"
                changed = with_input(self.variant, number, plain)
                if number not in found and self.passes(changed, what, what):
                    found[number] = plain
                fails[kind] = self.fails(changed, what, what)
            if number in found and not fails.get(_TELLING, False):
                self.axis = INPUTS
        return found or self._together()

    def _together(self) -> dict[int, np.ndarray]:
        """All inputs, where none alone makes the failure go away but all of them do."""
        plain = {number: dict(_plain(array)) for number, array in enumerate(self.variant.arrays)}
        changed = {number: next(iter(kinds.values())) for number, kinds in plain.items() if kinds}
        if not changed or not self._passes_with(changed, "all inputs plain"):
            return {}
        telling = {number: kinds[_TELLING] for number, kinds in plain.items() if _TELLING in kinds}
        if self._passes_with(telling, f"all inputs plain ({_TELLING})"):
            self.axis = INPUTS
        return changed

    def _passes_with(self, arrays: dict[int, np.ndarray], what: str) -> bool:
        every = self.variant
        for number, array in arrays.items():
            every = with_input(every, number, array)
        return self.passes(every, what, what)

    def smallest(self, needed: dict[int, np.ndarray], variant: Variant) -> tuple[Variant, dict[int, Places]]:
        """Plain values in a smaller variant wherever they do not matter; which elements do."""
        for number, array in enumerate(variant.arrays):
            for kind, plain in _plain(array) if number not in needed and not self.budget.is_over else ():
                what = f"{self.names[number]} plain ({kind}) as well"
                if self.fails(with_input(variant, number, plain), (what, len(needed)), what):
                    variant = with_input(variant, number, plain)
                    break
        elements: dict[int, Places] = {}
        for number, plain in needed.items():
            variant, elements[number] = self._fewest_elements(variant, number, plain)
        return variant, elements

    def _fewest_elements(self, variant: Variant, number: int, plain: np.ndarray) -> tuple[Variant, Places]:
        original, name = variant.arrays[number], self.names[number]
        places = np.flatnonzero(original.reshape(-1) != plain.reshape(-1)).tolist()

        def kept(rest: Sequence[int]) -> bool:
            made = with_input(variant, number, _only(original, plain, rest))
            return self.fails(made, ("elements", number, tuple(rest)), f"{len(rest)} elements of {name}")

        rest = fewest(places, kept, self.budget)
        smaller = with_input(variant, number, _only(original, plain, rest))
        return smaller, [tuple(int(i) for i in np.unravel_index(place, original.shape)) for place in rest]

    def edge(self, variant: Variant, number: int, plain: np.ndarray, place: tuple[int, ...]) -> Edge | None:
        """Between which values of the one element that matters the failure begins; None where that is not one step."""
        original = variant.arrays[number]
        start, end = float(plain[place]), float(original[place])
        if not np.isfinite(end):
            return None

        def at(step: int) -> Variant:
            made = original.copy()
            made[place] = original.dtype.type(start + (end - start) * (step / _STEPS))
            return with_input(variant, number, made)

        def told(step: int) -> tuple[Variant, Any, str]:
            changed = at(step)
            return changed, ("edge", number, step), f"{self.names[number]} = {changed.arrays[number][place]}"

        found = smallest(0, _STEPS, lambda step: self.fails(*told(step)), self.budget)
        if found == _STEPS or self.budget.is_over or not self.passes(*told(found - 1)):
            return None
        return at(found - 1).arrays[number][place], at(found).arrays[number][place]


_TELLING = "ones"


def _plain(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Values of which nothing comes, those that are not what the array holds already."""
    for kind, value in (("zeros", 0), ("ones", 1)):
        made = np.full_like(array, value)
        if not np.array_equal(made, array):
            yield kind, made


def _only(array: np.ndarray, plain: np.ndarray, places: Sequence[int]) -> np.ndarray:
    made = plain.copy()
    made.reshape(-1)[list(places)] = array.reshape(-1)[list(places)]
    return made
