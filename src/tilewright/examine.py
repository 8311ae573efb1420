"""Whether the results of a kernel are those of the function that it was compiled of.

The function runs once on copies of the arguments. A result that is off by more than its type allows (`checking`) is
wrong, unless one of these explains every element that is:

- the program as traced gives it, in the element types that the hardware has, or with equal elements in an order that
  NumPy leaves open. It has to agree with the function first, or the function was not traced rightly; and no float64
  may be beyond float32 then (E805);
- it depends on an element that nothing was written to, which is anything in NumPy;
- it is no farther from the program in float64 than `TIMES` times NumPy's own error;
- rounding: NumPy's own result changes as much where every inexact op rounds a little otherwise (`tensor.rounding`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tilewright.checking import compare, described, distance, far, sampled_rows, tolerances
from tilewright.errors import TileError
from tilewright.front.function import Traced
from tilewright.front.plain import (
    FLOAT32,
    FLOAT64,
    NotRun,
    OtherResult,
    is_narrow,
    is_same_program,
    outputs_by_numpy,
)
from tilewright.ir.core import Graph, Op, Value
from tilewright.tensor.interpret import Known, interpret, run_op
from tilewright.tensor.passes.narrow import Narrowed, check_floats
from tilewright.tensor.passes.precision import PRECISIONS
from tilewright.tensor.rounding import beyond, otherwise_rounded, spread
from tilewright.tensor.wide import interpret_wide

TIMES = 4.0
"""How many times as far from float64 as NumPy's own result one may be that is off."""
RUNS = 12
"""How often a program is rounded otherwise before a difference in one element is no matter of rounding."""
NUMPY, TRACED = "NumPy", "the program as traced"
_IMPURE = "the function does something else when it is called again, or has changed"


@dataclass(frozen=True, slots=True)
class Subject:
    """What is examined. precise: the program with its products as they were asked for, where that changes any."""

    traced: Traced
    program: Narrowed
    precise: Graph | None
    precision: str


@dataclass(frozen=True, slots=True)
class Examined:
    """What came of it: with what the results were compared, what a reader should know, and what is wrong, if anything.

    place: the output that is wrong. in_kernel: the program as traced is right, so the kernel is to blame.
    """

    expected: list[np.ndarray]
    oracle: str
    notes: tuple[str, ...]
    problem: str | None = None
    place: int | None = None
    in_kernel: bool = True


class Examination:
    """Outputs of a kernel beside what they should be; `arrays` are the arguments in NumPy's own types."""

    def __init__(self, subject: Subject, arrays: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
        self.subject, self.arrays, self.results = subject, arrays, results
        self.graph = subject.precise or subject.program.graph
        self.allowed = tolerances(subject.traced.graph, PRECISIONS[subject.precision].error)
        self.notes: list[str] = []
        self.has_narrow = any(is_narrow(x.dtype) for x in arrays)
        self._other_runs: list[list[np.ndarray]] = []

    def outcome(self) -> Examined:
        """The verdict."""
        large = sum(sampled_rows(x.shape) is not None for x in self.results)
        if large:
            self.notes.append(f"of {large} large result{'s' * (large > 1)} sampled rows were compared with NumPy's")
        try:
            return self._compared(*self._expected())
        except OtherResult as other:
            if self._is_same_program():
                return self._found(self.as_traced, TRACED, str(other), None, False)
        return self._compared(*self._as_traced(_IMPURE))

    def _compared(self, expected: list[np.ndarray], oracle: str) -> Examined:
        off = self._off(self.results, expected)
        if off and oracle == NUMPY and self.subject.traced.unwritten:
            expected = self._with_unwritten(expected)
            off = self._off(self.results, expected)
        if off and oracle == NUMPY:
            wrong = self._traced_wrongly(off, expected)
            if wrong:
                place = wrong[0]
                apart = far(self.results[place], expected[place], self.allowed[place])
                return self._differs(place, expected, oracle, apart, False)
        for place in off:
            wrong = self._unexplained(place, expected[place])
            if wrong.any():
                return self._differs(place, expected, oracle, wrong, True)
        return self._found(expected, oracle)

    def _differs(
        self, place: int, expected: list[np.ndarray], oracle: str, wrong: np.ndarray, in_kernel: bool
    ) -> Examined:
        found = described(self.results[place], expected[place], wrong, self.allowed[place])
        return self._found(expected, oracle, str(found), place, in_kernel)

    def _found(
        self,
        expected: list[np.ndarray],
        oracle: str,
        problem: str | None = None,
        place: int | None = None,
        in_kernel: bool = True,
    ) -> Examined:
        return Examined(expected, oracle, tuple(self.notes), problem, place, in_kernel)

    def _off(self, results: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> list[int]:
        """The outputs that are not near what is expected."""
        triples = zip(results, expected, self.allowed, strict=True)
        return [place for place, each in enumerate(triples) if compare(*each) is not None]

    # What the results should be

    def _expected(self) -> tuple[list[np.ndarray], str]:
        """What the results should be, and who says so."""
        if self.subject.precise is not None:
            return interpret(self.graph, self.narrow), f"{TRACED}, products rounded as was asked for"
        if self.has_narrow:
            # NumPy rounds narrow floats at every step, and takes long: with float32 it does neither.
            try:
                return outputs_by_numpy(self.subject.traced, self.arrays, FLOAT32), NUMPY
            except (NotRun, OtherResult) as error:
                self.notes.append(f"NumPy does not run the function on float32 in place of narrower floats: {error}")
        return self._by_numpy()

    def _by_numpy(self) -> tuple[list[np.ndarray], str]:
        try:
            return outputs_by_numpy(self.subject.traced, self.arrays), NUMPY
        except NotRun as error:
            return self._as_traced(f"NumPy does not run the function ({error})")

    def _as_traced(self, why: str) -> tuple[list[np.ndarray], str]:
        self.notes.append(f"{why}: the results were compared with {TRACED}")
        return self.as_traced, TRACED

    @cached_property
    def as_traced(self) -> list[np.ndarray]:
        """The program op by op, in the types that NumPy gives it."""
        return interpret(self.subject.traced.graph, self.arrays)

    @cached_property
    def as_narrowed(self) -> list[np.ndarray]:
        """The same in the types that the hardware has."""
        return self.subject.program.run(self.arrays)

    @cached_property
    def wide(self) -> list[np.ndarray]:
        """The same in float64."""
        return interpret_wide(self.subject.traced.graph, self.arrays)

    @cached_property
    def narrow(self) -> list[np.ndarray]:
        """The arguments in the types that the hardware has."""
        return self.subject.program.arguments(self.arrays)

    def _with_unwritten(self, expected: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What is expected, but for elements that depend on what nothing was written to: those as traced."""
        open_ones = [np.zeros(x.shape, np.bool_) for x in expected]
        for number in (1, 3):
            others = interpret(self.subject.traced.graph, self.arrays, functools.partial(self._run_unwritten, number))
            triples = zip(open_ones, self.as_traced, others, strict=True)
            open_ones = [x | far(mine, other, 0.0) for x, mine, other in triples]
        if any(x.any() for x in open_ones):
            self.notes.append(
                "elements of a result depend on what nothing was written to (np.empty, where= without out=), "
                "which is 0 here and anything in NumPy"
            )
        triples = zip(open_ones, self.as_traced, expected, strict=True)
        return [np.where(x, mine, theirs).astype(theirs.dtype, copy=False) for x, mine, theirs in triples]

    def _run_unwritten(self, number: int, op: Op, known: Known) -> tuple[np.ndarray, ...]:
        """An op, with another number where nothing was written."""
        if op not in self.subject.traced.unwritten:
            return run_op(op, known)
        operands = [x if isinstance(x, Value) else number for x in op.operands]
        attrs = {name: number if name == "value" else x for name, x in op.attrs.items()}
        return run_op(Op(op.definition, operands, [Value(x.type) for x in op.results], attrs), known)

    # Whether the function was traced rightly

    def _traced_wrongly(self, off: Sequence[int], expected: list[np.ndarray]) -> list[int]:
        """Those of some outputs in which the program as traced is another one than the function."""
        places = [i for i in self._off(self.as_traced, expected) if i in off]
        own = expected
        if places and self.has_narrow:
            own, _ = self._by_numpy()
            places = [i for i in self._off(self.as_traced, own) if i in places]
        is_open = depend_on_order(self.subject.traced.graph)
        if any(is_open[i] for i in places):
            self.notes.append(
                "NumPy leaves the order of equal elements (or of parts) open; it was taken as the program defines it"
            )
        places = [i for i in places if not is_open[i]]
        if places and self._is_impure(own):
            self._as_traced(_IMPURE)
            return []
        return [i for i in places if self._is_another(i, expected[i], own[i])]

    def _is_another(self, place: int, expected: np.ndarray, own: np.ndarray) -> bool:
        """Whether an output of the program as traced is none of those that NumPy gives: wide, and in its own types.

        Narrow floats are rounded at every step on both sides, sums of them in another order: where that decides, the
        program in float64 is beside NumPy with float32.
        """
        mine, allowed = self.as_traced[place], self.allowed[place]
        wrong = far(mine, own, 0.0)
        if self.has_narrow:
            wrong &= far(mine, expected, allowed)
            wrong &= far(self.wide[place], expected, allowed)
        if wrong.any() and mine.dtype.kind not in "biu":
            wrong &= self._rounded_worse(place, own)
        return bool(self._apart(mine, own, place, wrong).any())

    def _rounded_worse(self, place: int, own: np.ndarray) -> np.ndarray:
        """Which elements of the program as traced rounding alone does not explain: in float64 it is the function on
        float64, and NumPy is hardly nearer to that; its einsum adds long sums one number after the other."""
        mine, wide, allowed = self.as_traced[place], self.wide[place], self.allowed[place]
        try:
            exact = outputs_by_numpy(self.subject.traced, self.arrays, FLOAT64)[place]
        except (NotRun, OtherResult):
            return np.ones(mine.shape, np.bool_)
        theirs, off = distance(own, exact), distance(mine, exact)
        worse = off > TIMES * float(theirs[np.isfinite(theirs)].max(initial=0.0))
        return far(wide, exact, allowed) | worse | ~np.isfinite(off)

    def _is_impure(self, expected: list[np.ndarray]) -> bool:
        if not self._is_same_program():
            return True
        again, _ = self._by_numpy()
        return bool(self._off(again, expected))

    def _is_same_program(self) -> bool:
        return is_same_program(self.subject.traced, self.arrays)

    # What explains a difference

    def _unexplained(self, place: int, expected: np.ndarray) -> np.ndarray:
        """Which elements of an output are wrong."""
        mine, allowed = self.results[place], self.allowed[place]
        wrong = far(mine, expected, allowed)
        if self.subject.precise is not None:
            return self._apart(mine, expected, place, wrong)
        wrong &= far(mine, self.as_traced[place], allowed)
        if wrong.any() and self.subject.program.places:
            narrowed = far(mine, self.as_narrowed[place], allowed)
            if (wrong & ~narrowed).any():
                check_floats(self.subject.traced.graph, self.arrays)
                self.notes.append("elements of a result differ from NumPy's where 64 bits are computed in 32")
            wrong &= narrowed
        if wrong.any() and mine.dtype.kind in "biu":
            # What the program gives in float64 is at no distance from it, whatever NumPy's own roundings decide.
            wrong &= far(mine, self.wide[place], 0.0)
        elif wrong.any():
            own, off = (distance(x, self.wide[place]) for x in (self.as_narrowed[place], mine))
            wrong &= (off > TIMES * float(own[np.isfinite(own)].max(initial=0.0))) & np.isfinite(own)
        return self._apart(mine, self.as_narrowed[place], place, wrong)

    def _apart(self, mine: np.ndarray, expected: np.ndarray, place: int, wrong: np.ndarray | None = None) -> np.ndarray:
        """Which elements, of those that matter, differ by more than other roundings do."""
        wrong = far(mine, expected, 0.0) if wrong is None else wrong
        first = int(wrong.sum())
        # Of many elements that rounding decides about every run leaves half.
        for run in range(RUNS + first.bit_length() if first and RUNS else 0):
            self._round_otherwise(run)
            (bound,) = spread([self._plain[place]], [[each[place]] for each in self._other_runs[: run + 1]])
            wrong = wrong & beyond(mine, expected, bound)
            left = int(wrong.sum())
            # Two runs move what rounding decides up and down: what hardly changes in four is something else.
            if not left or (run == 3 and left > max(first / 2, 16)):
                break
        return wrong

    @cached_property
    def _plain(self) -> list[np.ndarray]:
        return interpret(self.graph, self.narrow)

    def _round_otherwise(self, run: int) -> None:
        if run < len(self._other_runs):
            return
        # Every other run rounds to the other side of what the one before it did: a threshold that many elements are
        # compared with is moved up once and down once.
        rng, sign = np.random.default_rng(run // 2), 1 - run % 2 * 2
        try:
            self._other_runs.append(otherwise_rounded(self.graph, self.narrow, rng, sign))
        except TileError:
            # Rounding moved an index out of its dim; the run tells nothing.
            self._other_runs.append(self._plain)


def depend_on_order(graph: Graph) -> list[bool]:
    """Which outputs depend on an order that NumPy leaves open: that of equal elements, and of parts of an array."""
    known: dict[Value, bool] = dict.fromkeys(graph.inputs, False)
    for op in graph.ops:
        depends = op.name in ("argsort", "partition") or any(known[value] for value in op.values())
        known.update(dict.fromkeys(op.results, depends))
    return [known[value] for value in graph.outputs]
