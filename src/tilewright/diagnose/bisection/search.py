"""`tw.bisect`: a failing kernel or program reduced to the instructions, inputs and surroundings that it needs."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.diagnose.bisection.case import Case, cases_of, identity
from tilewright.diagnose.bisection.inputs import INPUTS, Edge, Inputs, Places
from tilewright.diagnose.bisection.oracles import Oracle, read_oracle
from tilewright.diagnose.bisection.reduction import Budget, Memory, Tell, fewest, smallest
from tilewright.diagnose.bisection.report import report_of
from tilewright.diagnose.bisection.reproduction import write_reproduction
from tilewright.diagnose.bisection.variants import Variant, removable, tidied, without
from tilewright.diagnose.bisection.whole import WORDS, Whole, whole_of
from tilewright.errors import TRACE, TileError, fail
from tilewright.files import as_path, writing
from tilewright.ir.core import Graph
from tilewright.nki.kernel import Kernel
from tilewright.report.source import shown_paths
from tilewright.target import Target, assumed, get_target

CONTEXT, PLACEMENT = "context", "placement"
_TRIES = 3
_CLOSING = 6
"""What writing the reproduction and the report takes, in runs of the whole case."""


@dataclass
class Bisection:
    """What a failure depends on.

    axis: "inputs" (the values of `inputs` alone flip it), "context" (other kernels that ran before), "placement" (where
    in HBM its tensors lie), "kernel" (the instructions, whatever the inputs hold), or "unknown" (the budget ended
    first). kernel: the smallest kernel that fails, in tile IR; `kernels` has all cores of it. inputs: names of the
    arguments of which elements matter, with those. edges: of an argument of which one element matters, two values of it
    next to each other, of which the second fails. context: kernels that must run before. placement: of the
    bytes before its tensors, the fewest with which it fails. tried: the variants, as rows of a table. resumed: how many
    verdicts an earlier run left. reproduction: a folder with a script that shows the failure alone. report: Markdown.
    """

    axis: str
    kernels: tuple[Graph, ...]
    arrays: tuple[np.ndarray, ...]
    inputs: dict[str, Places]
    context: tuple[str, ...]
    calls: int
    looked_for: str
    complete: bool
    tried: list[tuple[str, int, int, int, str]] = field(default_factory=list)
    placement: int = 0
    edges: dict[str, Edge] = field(default_factory=dict)
    resumed: int = 0
    reproduction: Path | None = None
    report: str = ""

    @property
    def kernel(self) -> Graph:
        """The smallest kernel, as its first core runs it."""
        return self.kernels[0]


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
    oracle: what failing means (`bisection.oracles`); left out, the error that the case raises, results that are not
    finite, or what it is warned of. Of several kernels the first counts that fails so. reference: a NumPy function of
    the same arguments: failing means to differ from it; of a function of several kernels, it may also be one of the
    arrays of the kernel that is to be looked into.
    folder: where reproduction and report are written; a bisection that was ended goes on there. calls, seconds: what
    may be spent. progress: hears of every try.
    """
    with assumed(target):
        return _bisected(thing, args, kwargs, target, oracle, reference, folder, Budget(calls, seconds, progress))


def _bisected(
    thing: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    target: str | Target | None,
    oracle: Any,
    reference: Callable[..., Any] | None,
    folder: str | Path | None,
    budget: Budget,
) -> Bisection:
    whole = None if reference is None or oracle is not None else whole_of(thing, args, kwargs, reference)
    if whole is None:
        case, asked = _failing(thing, args, kwargs, target, oracle, reference)
    else:
        case, asked, reference = *_wrong_as_a_whole(whole, target), None
    place = Path(tempfile.mkdtemp(prefix="tilewright-bisect-")) if folder is None else as_path(folder, "the folder")
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
    memory = Memory(place / "tried.json", identity(case, asked.words))
    search = _Search(case, asked, budget, memory)
    if asked is _NOTHING:
        smallest_variant, found = case.variant, search.unreduced()
    else:
        search.check_case()
        smallest_variant, found = search.run()
    found.reproduction, found.resumed = place, memory.resumed
    write_reproduction(smallest_variant, place, asked)
    found.report = report_of(found, case, smallest_variant, reference)
    (place / "report.md").write_text(found.report, encoding="utf-8")
    return found


def _failing(
    thing: Any, args: Sequence[Any], kwargs: dict[str, Any], target: Any, oracle: Any, reference: Any
) -> tuple[Case, Oracle]:
    """The kernel that fails, and what failing means of it."""
    first: tuple[Case, Oracle] | None = None
    only = isinstance(thing, (Graph, Kernel)) or (oracle is None and reference is None)
    for case in cases_of(thing, args, kwargs, target, own_check=oracle is None and reference is None):
        wanted = case.oracle if oracle is None else oracle
        if wanted is None and reference is None and case.refusal is not None:
            said = case.refusal.diagnostic
            wanted = said.rule or said.code
            if said.phase == TRACE and wanted not in case.variant.findings():
                raise _refused(case)
        known = reference if wanted is not None or reference is not None else case.reference
        found = case, read_oracle(wanted, case.variant, known, write_reproduction)
        if known is not reference:
            found = case, replace(found[1], words="results that differ from exact arithmetic")
        first = first or found
        if only or found[1].ask(case.variant):
            return found
    assert first is not None
    return first


_NOTHING = Oracle(lambda variant: True, WORDS)
"""Where nothing tells whether a smaller kernel is wrong in the same way: what is right is known of the end alone."""


def _wrong_as_a_whole(whole: Whole, target: Any) -> tuple[Case, Oracle]:
    """The kernel to blame for results of a function that are not its reference's, and what failing means of it.

    One that makes something not finite, is warned of or loses digits fails by itself. Else it is the first that
    computes what the reference does not have.
    """
    if not whole.is_wrong:
        hint = "pass arguments with which it fails, or an oracle"
        raise fail("E710", f"there is nothing to bisect: the case does not fail (a failure is: {WORDS})", hint=hint)
    try:
        return _failing(whole.checked, (), {}, target, None, None)
    except TileError as error:
        found = whole.left_at(get_target(target)) if error.diagnostic.code == "E710" else None
        if found is None:
            raise
    number, told = found
    every = list(cases_of(whole.function, whole.args, whole.kwargs, target, own_check=False, in_order=True))
    case = every[number]
    case.blamed = f"{case.variant.graph.name} is the first that computes what the reference does not have"
    case.told = [shown_paths(each) for each in told]
    return case, _NOTHING


def _refused(case: Case) -> Exception:
    """A kernel that cannot be recorded as it was written has nothing that could be left out."""
    assert case.refusal is not None
    note = "the kernel is refused while it is traced, whatever its inputs hold: there is nothing to reduce"
    error = case.refusal
    error.tell(replace(error.diagnostic, notes=(*error.diagnostic.notes, note)))
    return error


class _Search:
    def __init__(self, case: Case, oracle: Oracle, budget: Budget, memory: Memory) -> None:
        self.case, self.oracle, self.budget, self.memory = case, oracle, budget, memory
        self.allowed = set(case.variant.findings())
        self.tried: list[tuple[str, int, int, int, str]] = []

    def fails(self, variant: Variant, key: Any, what: str) -> bool:
        """Whether a variant fails as the case does; one that breaks other rules as well does not count."""

        def ask() -> bool:
            return not set(variant.findings()) - self.allowed and self.oracle.ask(variant)

        verdict = self.memory.ask(key, lambda: self.budget.spend(what, ask))
        self.tried.append((what, *self._figures(variant), "FAIL" if verdict else "PASS"))
        return verdict

    def passes(self, variant: Variant, key: Any, what: str) -> bool:
        """Whether nothing is wrong with a variant, in the way of the case or in another."""
        if self.fails(variant, key, what):
            return False
        clean = self.oracle.clean
        return clean is None or self.memory.ask(("clean", key), lambda: clean(variant))

    def unreduced(self) -> Bisection:
        """What is known without trying anything."""
        case = self.case
        self.tried.append(("as it is", *self._figures(case.variant), "FAIL"))
        return Bisection(
            "kernel", case.variant.graphs, case.variant.arrays, {}, (), 0, self.oracle.words, True, self.tried
        )

    def check_case(self) -> None:
        """The case fails, and every time."""
        ask = functools.partial(self.oracle.ask, self.case.variant)
        verdicts = [self.budget.spend("as it is", ask) for _ in range(_TRIES)]
        self.budget.closing = _CLOSING * self.budget.once
        words = self.oracle.words
        if all(verdicts):
            return
        if any(verdicts):
            times = f"{sum(verdicts)} of {_TRIES} times"
            hint = "seed what is random, or let the oracle try several times"
            raise fail("E711", f"the oracle is flaky: the same case fails {times} ({words})", hint=hint)
        hint = "pass oracle= (a code, a rule, a function, a command) or reference=, and arguments with which it fails"
        raise fail("E710", f"there is nothing to bisect: the case does not fail (a failure is: {words})", hint=hint)

    def run(self) -> tuple[Variant, Bisection]:
        case, variant = self.case, self.case.variant
        self.tried.append(("as it is", *self._figures(variant), "FAIL"))
        context = case.needed_context(lambda each, names: self.fails(each, ("context", names), _beside(names)))
        if not context:
            variant = replace(variant, context=(), before=None)
        placement = self._placement(variant)
        variant = replace(variant, placement=placement)
        inputs = Inputs(variant, case.names, self.fails, self.passes, self.budget)
        needed = inputs.needed()
        axis = CONTEXT if context else PLACEMENT if placement else inputs.axis
        if self.oracle.reference is None:
            # Plain inputs need fewer instructions.
            variant, elements = inputs.smallest(needed, variant)
            variant = self._fewest_instructions(variant)
        else:
            # A wrong result is told from others by what it was computed of.
            variant, elements = inputs.smallest(needed, self._fewest_instructions(variant))
        found = Bisection(
            axis,
            variant.graphs,
            variant.arrays,
            {case.names[number]: places for number, places in elements.items()},
            context,
            self.budget.spent,
            self.oracle.words,
            not self.budget.is_over,
            self.tried,
            placement,
        )
        if axis == INPUTS:
            found.edges = self._edges(inputs, needed, elements, variant)
        found.calls, found.complete = self.budget.spent, not self.budget.is_over
        return variant, found

    def _edges(
        self, inputs: Inputs, needed: dict[int, np.ndarray], elements: dict[int, Places], variant: Variant
    ) -> dict[str, Edge]:
        """Where the failure begins, of inputs of which one element matters."""
        found: dict[str, Edge] = {}
        for number, places in elements.items():
            edge = inputs.edge(variant, number, needed[number], places[0]) if len(places) == 1 else None
            if edge is not None:
                found[self.case.names[number]] = edge
        return found

    def _figures(self, variant: Variant) -> tuple[int, int, int]:
        return variant.count("nc_matmul"), variant.buffers, variant.instructions

    def _placement(self, variant: Variant) -> int:
        """The fewest bytes before its tensors with which it fails; none, where it fails at the start of HBM too."""

        def fails(start: int) -> bool:
            what = f"tensors from byte {start} of HBM on"
            return self.fails(replace(variant, placement=start), what, what)

        if not variant.placement or fails(0):
            return 0
        return smallest(0, variant.placement, fails, self.budget)

    def _fewest_instructions(self, variant: Variant) -> Variant:
        every = removable(variant)

        def kept(rest: Sequence[int]) -> bool:
            gone = sorted(set(range(len(every))) - set(rest))
            smaller = without(variant, [every[number] for number in gone])
            return self.fails(smaller, ("instructions", tuple(gone)), f"{smaller.instructions} instructions")

        rest = fewest(range(len(every)), kept, self.budget)
        smaller = without(variant, [part for number, part in enumerate(every) if number not in set(rest)])
        count = [0]

        def still(candidate: Variant) -> bool:
            count[0] += 1
            return self.fails(candidate, ("tidy", tuple(rest), count[0]), "without what nobody needs")

        return tidied(smaller, still, lambda: self.budget.is_over)


def _beside(names: Sequence[str]) -> str:
    return f"after {len(names)} other kernels" if names else "alone"
