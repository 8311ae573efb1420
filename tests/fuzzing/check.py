"""A random program every way: by NumPy, as a kernel on the simulator and, for some, as emitted source.

The kernel is verified and fits the chip. Its results are NumPy's: bit for bit or very near, or as far off as rounding
can make them, which is measured where it matters (tests/lower/rounding.py).
"""

from __future__ import annotations

import copy
import re
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.emit.kit import run_source, same_stream
from tests.fuzzing.program import Program, quiet
from tests.lower.kit import findings
from tests.lower.rounding import differs, expected
from tilewright.checking import far
from tilewright.compiler import Compiled
from tilewright.errors import TileError
from tilewright.front.calling import give_back
from tilewright.front.function import trace
from tilewright.front.pytree import leaves
from tilewright.ir.core import Graph
from tilewright.lower.decisions import noted
from tilewright.lower.write.occupancy import occupancy
from tilewright.tensor.interpret import interpret
from tilewright.tensor.passes.narrow import narrowed_array
from tilewright.tensor.rounding import beyond, otherwise_rounded, spread
from tilewright.tensor.wide import interpret_wide

NEAR = {1: 0.3, 2: 2e-2, 4: 3e-6, 8: 3e-6}
"""How far a float may be from NumPy's, by its size in bytes, before it is asked what rounding may do."""
NEXT_TO_GREATEST = 1e36
AGAIN = 8
"""How often it is asked what rounding may do before a result is wrong."""
REASONS = ("E501", "E803", "E804", "E805")
"""Codes for what does not fit, what is not supported and what 32 bits cannot hold; any other refusal is a failure."""


class Failure(Exception):
    """What is wrong with a kernel; `kind` groups what may have one cause."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


@dataclass(slots=True)
class Outcome:
    """What a program showed: whether its kernel ran, or the reason for which there is none."""

    refused: str | None = None
    decisions: Counter[str] = field(default_factory=Counter)
    results: list[np.ndarray] | None = None


def check(program: Program, source: bool = False, variant: Program | None = None) -> Outcome:
    """Compare everything; raises Failure.    source: run the emitted source too.    variant: has to give the same."""
    function, arrays = program.function(), program.arrays()
    theirs = copy.deepcopy(arrays)
    with quiet():
        wanted = [np.asarray(x) for _, x in leaves((function(*theirs), theirs))]
    with program.setting.in_force(), noted() as decisions:
        outcome = Outcome()
        kernel = compiled(program, outcome)
        if kernel is None:
            return outcome
        outcome.decisions = Counter(decisions)
        outcome.results = _compare(program, kernel, arrays, wanted, source)
    if variant is not None:
        others = check(variant).results
        if others is not None and not all(_alike(x, y) for x, y in zip(outcome.results, others, strict=False)):
            raise Failure("variant", f"another form of the program gives other results:\n{variant}")
    return outcome


def compiled(program: Program, outcome: Outcome) -> Compiled | None:
    """The kernel, clean and fitting; None where it is refused for a reason."""
    try:
        with quiet():
            kernel = Compiled(trace(program.function(), program.arrays(), {}), program.setting.machine)
            problems = findings(kernel)
            graph = kernel.tile_ir
    except TileError as refusal:
        found = refusal.diagnostic
        if found.code not in REASONS:
            raise Failure(f"refused {found.code} {found.rule}", found.message) from None
        outcome.refused = f"{found.code} {_plain(found.message)}"
        return None
    except Exception as bug:
        raise Failure(f"crash {_place(bug)}", f"{type(bug).__name__}: {bug}") from bug
    if problems:
        raise Failure(f"verifier {problems[0].code} {problems[0].rule}", str(problems[0]))
    misfit = occupancy(graph, kernel.target).misfit(kernel.target)
    if misfit is not None:
        raise Failure("does not fit", misfit)
    return kernel


def _compare(
    program: Program, kernel: Compiled, arrays: list[np.ndarray], wanted: list[Any], source: bool
) -> list[np.ndarray]:
    """The kernel against NumPy; what the function returned."""
    inputs = kernel.program.graph.inputs
    narrow = [narrowed_array(x, value.type.dtype, "") for x, value in zip(arrays, inputs, strict=True)]
    try:
        results = kernel.run_kernel(narrow)
    except TileError as refusal:
        found = refusal.diagnostic
        raise Failure(f"run {found.code} {found.rule}", found.message) from None
    except Exception as bug:
        raise Failure(f"run {_place(bug)}", f"{type(bug).__name__}: {bug}") from bug
    mine = copy.deepcopy(arrays)
    found = [np.asarray(x) for _, x in leaves((give_back(kernel.traced, mine, results), mine))]
    if not all(_near(x, y) for x, y in zip(found, wanted, strict=True)):
        _compare_closely(program, kernel, narrow, results)
        _compare_traced(kernel, arrays, wanted)
    if source:
        _check_source(kernel, narrow, results)
    return found[: -len(mine)]


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two results, each of them found right, are the same but for a few numbers that rounding decides."""
    if one.dtype.kind in "biu":
        return bool((one != other).mean() <= 0.1) if one.size else True
    x, y = one.astype(np.float64), other.astype(np.float64)
    scale = float(np.abs(x[np.isfinite(x)]).max(initial=0))
    near = 100 * NEAR[one.dtype.itemsize]
    with np.errstate(all="ignore"):
        far = ~np.isclose(x, y, rtol=near, atol=near * scale, equal_nan=True)
    return bool(far.mean() <= 0.1) if one.size else True


def _near(mine: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether a result is NumPy's without further question."""
    if mine.dtype != theirs.dtype or mine.shape != theirs.shape:
        raise Failure("type", f"{mine.dtype}{mine.shape} instead of {theirs.dtype}{theirs.shape}")
    return bool(_nears(mine, theirs).all())


def _nears(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Which elements of a result are those of another without further question."""
    if mine.dtype.kind in "biu":
        return np.asarray(mine == theirs)
    x, y = mine.astype(np.float64), theirs.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        return same | (np.abs(x - y) <= NEAR[mine.dtype.itemsize] * np.abs(y))


def _compare_closely(
    program: Program, kernel: Compiled, narrow: list[np.ndarray], results: Sequence[np.ndarray]
) -> None:
    """Kernel against tensor IR before all passes, with what rounding may do to it."""
    with quiet():
        plain = interpret(kernel.program.graph, narrow)
    wrong = [~_overflowed(mine, theirs) for mine, theirs in zip(results, plain, strict=True)]
    if any(op.name == "combine_rows" for op in kernel.program.graph.ops):
        # They are sums of bfloat16 parts, whose last digits get lost below the normal numbers (docs/numpy.md).
        wrong = [each & far(mine, theirs, 0.0) for each, mine, theirs in zip(wrong, results, plain, strict=True)]
    # Of many elements some are rounded alike by chance, a few times: they are rounded again.
    for again in range(AGAIN):
        with quiet():
            bounds = expected(kernel.program.graph, narrow, program.seed + again)
        parts = zip(wrong, results, plain, bounds, strict=True)
        wrong = [each & differs(mine, theirs, bound) for each, mine, theirs, bound in parts]
        if not any(each.any() for each in wrong):
            return
    # NumPy's own sum may be infinite where that of a kernel, in another order or of fewer numbers, is not.
    with quiet():
        exact = interpret_wide(kernel.program.graph, narrow)
    wrong = [each & ~_nears(mine, other) for each, mine, other in zip(wrong, results, exact, strict=True)]
    if not any(each.any() for each in wrong):
        return
    place = next(i for i, each in enumerate(wrong) if each.any())
    mine, theirs = results[place], plain[place]
    raise Failure(f"values {mine.dtype}", f"output {place}: {_shown(wrong[place], mine, theirs)}")


def _overflowed(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Where a result next to the greatest float is infinite: means are divided when their sum is there, not before."""
    if mine.dtype.kind in "biu":
        return np.zeros(mine.shape, bool)
    with np.errstate(all="ignore"):
        return np.isinf(mine.astype(np.float64)) & (np.abs(theirs.astype(np.float64)) > NEXT_TO_GREATEST)


def _shown(wrong: np.ndarray, mine: np.ndarray, theirs: np.ndarray) -> str:
    """How many elements are wrong, and the first of them."""
    at = tuple(int(i) for i in np.argwhere(wrong)[0]) if mine.ndim else ()
    counted = f"{int(wrong.sum())} of {mine.size} elements of {mine.dtype}{list(mine.shape)}"
    return f"{counted}, first at {at}: {mine[at]} instead of {theirs[at]}"


def _compare_traced(kernel: Compiled, arrays: list[np.ndarray], wanted: list[Any]) -> None:
    """Tensor IR, as traced, against NumPy; 16-bit floats, which NumPy rounds in other places, are left out."""
    values = (value for op in kernel.traced.graph.ops for value in op.values())
    if any(value.type.dtype.is_float and value.type.dtype.itemsize < 4 for value in values):
        return

    def given(run: Callable[[Graph, list[np.ndarray]], list[np.ndarray]]) -> list[np.ndarray]:
        mine = copy.deepcopy(arrays)
        with quiet():
            results = run(kernel.traced.graph, mine)
        return [np.asarray(x) for _, x in leaves((give_back(kernel.traced, mine, results), mine))]

    found = given(interpret)
    rng = np.random.default_rng(0)
    rounded = [given(lambda graph, mine: otherwise_rounded(graph, mine, rng)) for _ in range(2 * AGAIN)]
    # NumPy's own sum may be infinite where another order, or more digits, is not.
    exact = given(_widely)
    for x, y, bound, other in zip(found, wanted, spread(found, rounded), exact, strict=True):
        wide = x.astype(np.float64), y.astype(np.float64)
        scale = float(np.abs(wide[1][np.isfinite(wide[1])]).max(initial=0))
        near = NEAR[x.dtype.itemsize] * 10 if x.dtype.kind not in "biu" else 0.0
        with np.errstate(all="ignore"):
            wrong = ~np.isclose(*wide, rtol=near, atol=near * scale, equal_nan=True) & beyond(x, y, bound)
        wrong &= ~_nears(x, other)
        if wrong.any():
            raise Failure("trace values", _shown(wrong, x, y))


def _widely(graph: Graph, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The results of float64, in their own types."""
    found = zip(interpret_wide(graph, arrays), graph.outputs, strict=True)
    return [np.asarray(x).astype(value.type.dtype.np) for x, value in found]


def _check_source(kernel: Compiled, narrow: list[np.ndarray], results: Sequence[np.ndarray]) -> None:
    """The emitted source has the kernel's instructions and gives its bits."""
    if not all(x.size for x in (*narrow, *results)):
        return  # NKI has no tensors without elements
    try:
        run = run_source(kernel.source, [*kernel.device_arrays(narrow), *kernel.constants], kernel.target)
        same_stream(kernel.tile_ir, run.session.graph)
    except TileError as refusal:
        found = refusal.diagnostic
        raise Failure(f"source {found.code} {found.rule}", found.message) from None
    except AssertionError as bug:
        raise Failure("source: other instructions", str(bug)) from None
    except Exception as bug:
        raise Failure(f"source {_place(bug)}", f"{type(bug).__name__}: {bug}") from bug
    problems = [each for each in run.diagnostics if each.severity == "error"]
    if problems:
        raise Failure(f"source {problems[0].code} {problems[0].rule}", problems[0].message)
    made = run.result if isinstance(run.result, tuple) else (run.result,)
    for mine, theirs in zip(made, results, strict=True):
        if mine.tobytes() != theirs.tobytes():
            raise Failure("source: other bits", _shown(np.asarray(mine != theirs), mine, theirs))


def _place(bug: BaseException) -> str:
    """Where an exception comes from."""
    frame = traceback.extract_tb(bug.__traceback__)[-1]
    return f"{type(bug).__name__} {frame.filename.rsplit('/', 1)[-1]}:{frame.name}"


def _plain(message: str) -> str:
    """A message without its numbers, to tell causes apart."""
    return " ".join(re.sub(r"[\d()\[\],.]+", "", message).split())[:60]
