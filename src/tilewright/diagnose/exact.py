"""What a kernel would compute if nothing were rounded: its instructions on the same arrays, in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.diagnose.shadow import ShadowRun
from tilewright.diagnose.spread import Spread, Watch, lifted, watched
from tilewright.ir.core import Graph, Op
from tilewright.target import Target
from tilewright.tile.memory import Buffer
from tilewright.tile.view import View

_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Exact:
    """What every instruction that writes to a fixed place has written, in order, and what the outputs hold."""

    steps: list[tuple[Op, np.ndarray]]
    outputs: list[np.ndarray]


class _Unrounded(Watch):
    rounds = False


def exactly(graph: Graph, inputs: Mapping[Buffer, np.ndarray], target: Target) -> Exact | None:
    """A run in float64; None when it cannot be followed."""
    steps: list[tuple[Op, np.ndarray]] = []
    unknown: list[str] = []

    def note(op: Op, _: View, pairs: np.ndarray) -> None:
        steps.append((op, (pairs["lo"] + pairs["hi"]) / 2))

    shadow = ShadowRun(target, lambda op: None, lambda value, dtype: value, lambda op, why: unknown.append(why), note)
    points: dict[Buffer, Spread] = {buffer: lifted(array) for buffer, array in inputs.items()}
    watched(_Unrounded(), lambda: shadow.run(graph, points))
    if unknown:
        return None
    buffers = [value for value in graph.outputs if isinstance(value, Buffer)]
    return Exact(steps, [shadow.shelf(buffer).pairs["lo"].reshape(buffer.shape) for buffer in buffers])


def least_that_counts(arrays: Mapping[Buffer, np.ndarray]) -> float:
    """Values below this are taken for rounding, beside numbers of the size that the inputs have."""
    floats = [array for array in arrays.values() if array.dtype.kind not in "iub"]
    return 1e-3 * max((float(np.abs(array.astype(np.float64)).max(initial=0)) for array in floats), default=1.0)


def off(rounded: np.ndarray, exact: np.ndarray, least: float) -> float:
    """How far values are from exact ones, relative to the largest of these; 0 where those are not finite."""
    a, b = rounded.astype(np.float64), exact
    if a.shape != b.shape or not np.isfinite(b).all():
        return 0.0
    apart = np.abs(np.where(np.isfinite(a), a, 0.0) - b)
    return float(apart.max(initial=0.0)) / max(float(np.abs(b).max(initial=0.0)), least, _TINY)
