"""`tw.bisect`: a failing kernel or program reduced to the instructions, inputs and surroundings that it needs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.diagnose.bisect_case import Case, case_of
from tilewright.diagnose.bisect_report import report_of, write_reproduction
from tilewright.diagnose.oracles import Oracle, read_oracle
from tilewright.diagnose.reduction import Budget, Memory, Tell, fewest
from tilewright.diagnose.variants import Variant, removable, tidied, with_input, without
from tilewright.errors import fail
from tilewright.ir.core import Graph
from tilewright.ir.fingerprint import fingerprint
from tilewright.target import Target

KERNEL, INPUTS, CONTEXT = "kernel", "inputs", "context"
_TRIES = 3


@dataclass
class Bisection:
    """What a failure depends on.

    axis: "inputs" (the values of `inputs` alone flip it), "context" (other kernels that ran before), or "kernel" (the
    instructions, whatever the inputs hold). kernel: the smallest kernel that fails, in tile IR. inputs: names of the
    arguments whose values matter, with the elements that do. context: kernels that must run before. tried: the
    variants, as rows of a table. reproduction: a folder with a script that shows the failure alone. report: Markdown.
    """

    axis: str
    kernel: Graph
    arrays: tuple[np.ndarray, ...]
    inputs: dict[str, list[tuple[int, ...]]]
    context: tuple[str, ...]
    calls: int
    looked_for: str
    complete: bool
    tried: list[tuple[str, int, int, int, str]] = field(default_factory=list)
    reproduction: Path | None = None
    report: str = ""


def bisect(
    thing: Any,
    /,
    *args: Any,
    oracle: Any = None,
    reference: Callable[..., Any] | None = None,
    target: str | Target | None = None,
    folder: str | Path | None = None,
    calls: int = 2000,
    seconds: float = 120.0,
    progress: Tell | None = None,
    **kwargs: Any,
) -> Bisection:
    """Reduce a failing kernel, program or function to what the failure needs.

    thing: an `nki.jit` kernel with its arguments, a kernel in tile IR, a `tw.program`, a function that calls kernels.
    oracle: what failing means (`diagnose.oracles`); left out, the error that the case raises, or results that are
    not finite. reference: a NumPy function of the kernel's arrays: failing means to differ from it.
    folder: where reproduction and report are written; a bisection that was ended goes on there. calls, seconds: what
    may be spent. progress: hears of every try.
    """
    case = case_of(thing, args, kwargs, target)
    place = Path(tempfile.mkdtemp(prefix="tilewright-bisect-")) if folder is None else Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    asked, words = read_oracle(case.oracle if oracle is None else oracle, case.variant, reference, write_reproduction)
    search = _Search(
        case, asked, Budget(calls, seconds, progress), Memory(place / "tried.json", _identity(case, words))
    )
    search.check_case(words)
    found = search.run(words)
    found.reproduction = place
    write_reproduction(Variant(found.kernel, found.arrays, case.variant.target, case.variant.profile), place)
    found.report = report_of(found, case)
    (place / "report.md").write_text(found.report, encoding="utf-8")
    return found


def _identity(case: Case, words: str) -> str:
    """What a case is known by when it is taken up again."""
    whole = sha256(fingerprint(case.variant.graph).encode())
    for array in case.variant.arrays:
        whole.update(array.tobytes())
    return f"{whole.hexdigest()} {words}"


class _Search:
    def __init__(self, case: Case, oracle: Oracle, budget: Budget, memory: Memory) -> None:
        self.case, self.oracle, self.budget, self.memory = case, oracle, budget, memory
        self.allowed = set(case.variant.findings())
        self.tried: list[tuple[str, int, int, int, str]] = []

    def fails(self, variant: Variant, key: Any, what: str) -> bool:
        """Whether a variant fails as the case does; one that breaks other rules as well does not count."""

        def ask() -> bool:
            self.budget.spend(what)
            if set(variant.findings()) - self.allowed:
                return False
            return self.oracle(variant)

        verdict = self.memory.ask(key, ask)
        row = (what, variant.count("nc_matmul"), variant.buffers, variant.instructions, "FAIL" if verdict else "PASS")
        self.tried.append(row)
        return verdict

    def check_case(self, words: str) -> None:
        """The case fails, and every time."""
        verdicts = [self.oracle(self.case.variant) for _ in range(_TRIES)]
        self.budget.spent += _TRIES
        if all(verdicts):
            return
        if any(verdicts):
            times = f"{sum(verdicts)} of {_TRIES} times"
            hint = "seed what is random, or let the oracle try several times"
            raise fail("E711", f"the oracle is flaky: the same case fails {times} ({words})", hint=hint)
        hint = "pass oracle= (a code, a rule, a function, a command) or reference=, and arguments with which it fails"
        raise fail("E710", f"there is nothing to bisect: the case does not fail ({words})", hint=hint)

    def run(self, words: str) -> Bisection:
        case = self.case
        self.tried.append(("as it is", *self._figures(case.variant), "FAIL"))
        context = case.needed_context(lambda variant, names: self.fails(variant, ("context", names), _beside(names)))
        axis, needed = self._axis(context)
        variant, elements = self._smallest_inputs(case.variant, needed)
        variant = self._fewest_instructions(variant)
        names = {case.names[number]: places for number, places in elements.items()}
        return Bisection(
            axis,
            variant.graph,
            variant.arrays,
            names,
            context,
            self.budget.spent,
            words,
            not self.budget.is_over,
            self.tried,
        )

    def _figures(self, variant: Variant) -> tuple[int, int, int]:
        return variant.count("nc_matmul"), variant.buffers, variant.instructions

    # Which axis.

    def _axis(self, context: tuple[str, ...]) -> tuple[str, list[int]]:
        """What flips the verdict while all else stays: values, surroundings, or neither."""
        variant = self.case.variant
        needed: list[int] = []
        for number in range(len(variant.arrays)):
            plain = with_input(variant, number, _plain(variant.arrays[number]))
            what = f"{self.case.names[number]} plain, all else as it is"
            if not np.array_equal(plain.arrays[number], variant.arrays[number]) and not self.fails(plain, what, what):
                needed.append(number)
        if context and not self.case.fails_alone(self.fails):
            return CONTEXT, needed
        if needed:
            return INPUTS, needed
        every = variant
        for number, array in enumerate(variant.arrays):
            every = with_input(every, number, _plain(array))
        if not self.fails(every, "all inputs plain", "all inputs plain"):
            return INPUTS, list(range(len(variant.arrays)))
        return KERNEL, []

    # Inputs.

    def _smallest_inputs(
        self, variant: Variant, needed: Sequence[int]
    ) -> tuple[Variant, dict[int, list[tuple[int, ...]]]]:
        """Plain values wherever they do not matter; which elements do."""
        for number, array in enumerate(variant.arrays):
            plain = with_input(variant, number, _plain(array))
            what = f"{self.case.names[number]} plain as well"
            if number not in needed and self.fails(plain, (what, len(needed)), what):
                variant = plain
        elements: dict[int, list[tuple[int, ...]]] = {}
        for number in needed:
            original = variant.arrays[number]
            places = np.flatnonzero(original.reshape(-1) != _plain(original).reshape(-1)).tolist()
            name = self.case.names[number]

            def kept(rest: Sequence[int], number: int = number, name: str = name, base: Variant = variant) -> bool:
                made = with_input(base, number, _only(base.arrays[number], rest))
                return self.fails(made, ("elements", number, tuple(rest)), f"{len(rest)} elements of {name}")

            rest = fewest(places, kept, self.budget)
            variant = with_input(variant, number, _only(original, rest))
            elements[number] = [tuple(int(i) for i in np.unravel_index(place, original.shape)) for place in rest]
        return variant, elements

    # Instructions.

    def _fewest_instructions(self, variant: Variant) -> Variant:
        every = removable(variant.graph)

        def kept(rest: Sequence[int]) -> bool:
            gone = sorted(set(every) - set(rest))
            return self.fails(without(variant, gone), ("instructions", tuple(gone)), f"{len(rest)} instructions")

        rest = fewest(every, kept, self.budget)
        smallest = without(variant, sorted(set(every) - set(rest)))
        count = [0]

        def still(candidate: Variant) -> bool:
            count[0] += 1
            key = ("tidy", tuple(rest), count[0])
            return not self.budget.is_over and self.fails(candidate, key, "without what nobody needs")

        return tidied(smallest, still)


def _beside(names: Sequence[str]) -> str:
    return f"after {len(names)} other kernels" if names else "alone"


def _plain(array: np.ndarray) -> np.ndarray:
    """Values of which nothing comes: zeros."""
    return np.zeros_like(array)


def _only(array: np.ndarray, places: Sequence[int]) -> np.ndarray:
    made = _plain(array)
    made.reshape(-1)[list(places)] = array.reshape(-1)[list(places)]
    return made
