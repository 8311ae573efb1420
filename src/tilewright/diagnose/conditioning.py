"""Conditioning: kernels whose float32 results are far from exact ones, measured beside a run in float64.

Long products of matrices and solves can lose every digit although no number is out of range (a Neumann series of equal
keys, say). Intervals do not tell that from harmless rounding; two runs on the same arrays do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.diagnose.events import Event, Recorder
from tilewright.diagnose.shadow import ShadowRun
from tilewright.diagnose.spread import Spread, Watch, lifted, watched
from tilewright.errors import WARNING, Diagnostic, TileError
from tilewright.ir.core import Graph, Op
from tilewright.nki.kernel import Kernel, following, run_kernel
from tilewright.provenance.explain import unexplained
from tilewright.sim.session import Options
from tilewright.target import Target
from tilewright.tile.memory import Buffer
from tilewright.tile.view import View

ILL_CONDITIONED = "W305"
TOLERANCE = 1e-2
"""Of the largest exact value: results that are further off have hardly a digit left."""
_TINY = float(np.finfo(np.float32).tiny)


class _Exact(Watch):
    rounds = False


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
    exact: list[tuple[Op, np.ndarray]] = []
    unknown: list[str] = []

    def note(op: Op, _: View, pairs: np.ndarray) -> None:
        exact.append((op, (pairs["lo"] + pairs["hi"]) / 2))

    shadow = ShadowRun(target, lambda op: None, lambda value, dtype: value, lambda op, why: unknown.append(why), note)
    points: dict[Buffer, Spread] = {buffer: lifted(array) for buffer, array in inputs.items()}
    watched(_Exact(), lambda: shadow.run(graph, points))
    if unknown or len(exact) != len(rounded):
        return []
    return _compared(rounded, exact, inputs, given)


def _compared(
    rounded: Sequence[Event], exact: Sequence[tuple[Op, np.ndarray]], inputs: Mapping[Buffer, np.ndarray], given: str
) -> list[Diagnostic]:
    floats = [array for array in inputs.values() if array.dtype.kind not in "iub"]
    least = 1e-3 * max((float(np.abs(array.astype(np.float64)).max(initial=0)) for array in floats), default=1.0)
    off = [_off(event.value, value, least) for event, (_, value) in zip(rounded, exact, strict=True)]
    # What the kernel gives away is what counts: sums that cancel on the way are no fault by themselves.
    last = max((i for i, (op, _) in enumerate(exact) if _leaves(op) and off[i] > TOLERANCE), default=None)
    if last is None:
        return []
    first = next(i for i, error in enumerate(off) if error > TOLERANCE)
    op = exact[first][0]
    message = (
        f"{op.name} is ill-conditioned: float32 loses its digits from here on, and what the kernel returns is off by "
        f"{off[last]:.2g} times its largest exact value"
    )
    hint = "solve in smaller blocks, or by substitution: products of large numbers that cancel keep no digit"
    return [Diagnostic(ILL_CONDITIONED, message, None, WARNING, hint, op.location, notes=(given,))]


def _off(rounded: np.ndarray, exact: np.ndarray, least: float) -> float:
    """How far values are from exact ones, relative to the largest of these; 0 where those are not finite."""
    a, b = rounded.astype(np.float64), exact
    if a.shape != b.shape or not np.isfinite(b).all():
        return 0.0
    apart = np.abs(np.where(np.isfinite(a), a, 0.0) - b)
    return float(apart.max(initial=0.0)) / max(float(np.abs(b).max(initial=0.0)), least, _TINY)


def _leaves(op: Op) -> bool:
    """Whether an instruction writes to HBM."""
    views = [op.operands[position] for position in op.definition.written]
    return any(isinstance(view, View) and not view.on_chip for view in views)
