"""Which inputs a failure needs, and which elements of them: all others are plain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.diagnose.bisection.reduction import Budget, fewest
from tilewright.diagnose.bisection.variants import Variant, with_input

KERNEL, UNKNOWN = "kernel", "unknown"
Places = list[tuple[int, ...]]
Verdict = Callable[[Variant, Any, str], bool]


class Inputs:
    """Puts plain values in the place of a variant's arrays.

    What is plain depends on the kernel: one divides by zero, another has an index of one too many. So there are several
    plain values, of which the first counts that makes the failure go away.
    """

    def __init__(self, variant: Variant, names: Sequence[str], fails: Verdict, passes: Verdict, budget: Budget) -> None:
        self.variant, self.names, self.fails, self.passes, self.budget = variant, names, fails, passes, budget
        self.axis = KERNEL
        """What the failure depends on where no input matters: unknown, if the budget ended before that was known."""

    def needed(self) -> dict[int, np.ndarray]:
        """The inputs whose values matter, each with the plain values that make the failure go away."""
        found: dict[int, np.ndarray] = {}
        for number, array in enumerate(self.variant.arrays):
            for kind, plain in _plain(array):
                if self.budget.is_over:
                    self.axis = UNKNOWN
                    return found
                what = f"{self.names[number]} plain ({kind}), all else as it is"
                if self.passes(with_input(self.variant, number, plain), what, what):
                    found[number] = plain
                    break
        return found or self._together()

    def _together(self) -> dict[int, np.ndarray]:
        """All inputs, where none alone makes the failure go away but all of them do."""
        every, changed = self.variant, {}
        for number, array in enumerate(self.variant.arrays):
            for _, plain in _plain(array):
                every, changed[number] = with_input(every, number, plain), plain
                break
        if changed and self.passes(every, "all inputs plain", "all inputs plain"):
            return changed
        return {}

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
