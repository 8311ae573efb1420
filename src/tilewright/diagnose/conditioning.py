"""Conditioning: kernels and functions whose float32 results are far from exact ones, measured beside float64.

Long products of matrices and solves can lose every digit although no number is out of range (a Neumann series of equal
keys, say). Intervals do not tell that from harmless rounding; two runs on the same arrays do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.diagnose.events import Event, Recorder
from tilewright.diagnose.exact import exactly, exactly_in_numpy, least_that_counts, off
from tilewright.dtypes import DType, float32
from tilewright.errors import WARNING, Diagnostic, TileError
from tilewright.ir.core import Graph, Op, Value
from tilewright.nki.kernel import Kernel, following, run_kernel
from tilewright.provenance.explain import unexplained
from tilewright.sim.session import Options
from tilewright.target import Target
from tilewright.tensor.interpret import interpret, run_op
from tilewright.tile.memory import Buffer
from tilewright.tile.view import View

ILL_CONDITIONED = "W305"
TOLERANCE = 1e-2
"""Of the largest exact value: results that are further off have hardly a digit left."""


def ill_conditioned(
    kernel: Kernel,
    graph: Graph,
    inputs: Mapping[Buffer, np.ndarray],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    target: Target,
    given: str,
) -> list[Diagnostic]:
    """What float32 makes of these arrays, where it is far from what float64 makes of them."""
    recorder = Recorder()
    try:
        with following(recorder.follow), unexplained():
            run_kernel(kernel, args, kwargs, target, None, Options())
    except TileError:
        # A kernel that does not run on these arrays gives nothing away.
        return []
    rounded = [event for event in recorder.events if event.key[0] == "instruction"]
    exact = exactly(graph, inputs, target)
    if exact is None or len(exact.steps) != len(rounded):
        return []
    return _compared(rounded, exact.steps, inputs, given)


def ill_conditioned_in_numpy(graph: Graph, inputs: Sequence[np.ndarray], given: str) -> list[Diagnostic]:
    """What the element types of a NumPy program make of these arrays, where float64 makes something else of them."""
    made: list[tuple[Op, list[np.ndarray]]] = []

    def compute(op: Op, known: dict[Value, np.ndarray]) -> tuple[np.ndarray, ...]:
        results = run_op(op, known)
        made.append((op, list(results)))
        return results

    with np.errstate(all="ignore"):
        interpret(graph, inputs, compute)
    exact = exactly_in_numpy(graph, inputs)
    if exact is None:
        return []
    least = least_that_counts(inputs)
    returned = set(graph.outputs)
    errors = [
        max((off(a, b, least) for a, b in zip(results, wanted, strict=True)), default=0.0)
        for (_, results), wanted in zip(made, exact, strict=True)
    ]
    wrong = [i for i, (op, _) in enumerate(made) if errors[i] > TOLERANCE and not returned.isdisjoint(op.results)]
    if not wrong:
        return []
    first = next(i for i, error in enumerate(errors) if error > TOLERANCE)
    return [_finding(made[first][0], made[first][0].results[0].type.dtype, "function", errors[wrong[-1]], given)]


def _compared(
    rounded: Sequence[Event], exact: Sequence[tuple[Op, np.ndarray]], inputs: Mapping[Buffer, np.ndarray], given: str
) -> list[Diagnostic]:
    least = least_that_counts(list(inputs.values()))
    errors = [off(event.value, value, least) for event, (_, value) in zip(rounded, exact, strict=True)]
    # What the kernel gives away is what counts: sums that cancel on the way are no fault by themselves.
    last = max((i for i, (op, _) in enumerate(exact) if _leaves(op) and errors[i] > TOLERANCE), default=None)
    if last is None:
        return []
    first = next(i for i, error in enumerate(errors) if error > TOLERANCE)
    op = exact[first][0]
    return [_finding(op, op.operands[op.definition.written[0]].dtype, "kernel", errors[last], given)]


def _finding(op: Op, dtype: DType, what: str, error: float, given: str) -> Diagnostic:
    message = (
        f"{op.name} is ill-conditioned: {dtype} loses its digits from here on, and what the {what} returns is off by "
        f"{error:.2g} times its largest exact value"
    )
    hint = "solve in smaller blocks, or by substitution: products of large numbers that cancel keep no digit"
    if dtype is not float32:
        hint = "keep sums and what is computed with again in float32"
    return Diagnostic(ILL_CONDITIONED, message, None, WARNING, hint, op.location, notes=(given,))


def _leaves(op: Op) -> bool:
    """Whether an instruction writes to HBM."""
    views = [op.operands[position] for position in op.definition.written]
    return any(isinstance(view, View) and not view.on_chip for view in views)
