"""What a kernel would compute if nothing were rounded: its instructions on the same arrays, in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.diagnose.shadow import ShadowRun
from tilewright.diagnose.spread import Spread, Watch, lifted, watched
from tilewright.diagnose.tensors import TensorRun
from tilewright.ir.core import Graph, Op, Value
from tilewright.target import Target
from tilewright.tensor.interpret import interpret
from tilewright.tile.memory import Buffer
from tilewright.tile.view import View

_POINT = 1e-6
"""Of the largest value: bounds that are nearer to each other are one number."""
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


def exactly_in_numpy(graph: Graph, inputs: Sequence[np.ndarray]) -> list[list[np.ndarray]] | None:
    """What every op of a NumPy program makes in float64; None when it cannot be followed."""
    steps: list[list[np.ndarray]] = []
    unknown: list[str] = []
    run = TensorRun(lambda op: None, lambda value, dtype: value, lambda op, why: unknown.append(why))

    def compute(op: Op, known: dict[Value, np.ndarray]) -> tuple[np.ndarray, ...]:
        made = run.compute(op, known)
        points = [each.pairs if isinstance(each, Spread) else lifted(each).pairs for each in made]
        steps.append([(each["lo"] + each["hi"]) / 2 for each in points])
        unknown.extend(op.name for each in points if _is_wide(each))
        return made

    with np.errstate(all="ignore"):
        watched(_Unrounded(), lambda: interpret(graph, [lifted(each) for each in inputs], compute))
    return None if unknown else steps


def _is_wide(pairs: np.ndarray) -> bool:
    """Whether of some elements only bounds are known, as of functions that are followed by their shape."""
    apart, size = pairs["hi"] - pairs["lo"], np.abs(pairs["hi"]).max(initial=0.0)
    return bool((apart > _POINT * size).any())


def least_that_counts(arrays: Sequence[np.ndarray]) -> float:
    """Values below this are taken for rounding, beside numbers of the size that the inputs have."""
    floats = [array for array in arrays if array.dtype.kind not in "iub"]
    return 1e-3 * max((float(np.abs(array.astype(np.float64)).max(initial=0)) for array in floats), default=1.0)


def off(rounded: np.ndarray, exact: np.ndarray, least: float) -> float:
    """How far values are from exact ones, relative to the largest of these; 0 where those are not finite."""
    a, b = rounded.astype(np.float64), exact
    if a.shape != b.shape or not np.isfinite(b).all():
        return 0.0
    apart = np.abs(np.where(np.isfinite(a), a, 0.0) - b)
    return float(apart.max(initial=0.0)) / max(float(np.abs(b).max(initial=0.0)), least, _TINY)
