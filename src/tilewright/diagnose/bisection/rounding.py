"""What rounding does to a kernel: values that an element type cannot hold, results that are not the exact ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.diagnose.bisection.outcome import outcome_of
from tilewright.diagnose.bisection.variants import Variant
from tilewright.diagnose.exact import Exact, exactly, least_that_counts, off
from tilewright.errors import TileError
from tilewright.programs.cores import run_cores
from tilewright.provenance.explain import unexplained
from tilewright.provenance.kinds import number
from tilewright.provenance.tape import Step, Tape
from tilewright.tile.memory import Buffer
from tilewright.tile.view import View

_NOTABLE = 0.01
"""Of a value: what is lost by rounding to any type that is meant for it is less."""
_OFF = 1e-3
"""Of the largest exact value: results that are further off may be what a script finds wrong, such as an index that is
off by one."""


def departs(variant: Variant) -> bool:
    """Whether results differ from those of exact arithmetic, as far as one asks for that."""
    results = outcome_of(variant).results
    exact = None if results is None else _exact(variant)
    if results is None or exact is None:
        return False
    least = least_that_counts(variant.arrays)
    return any(off(a, b, least) > _OFF for a, b in zip(results, exact.outputs, strict=True))


def exact_results(variant: Variant, *arrays: np.ndarray) -> list[np.ndarray]:
    """What exact arithmetic makes of some arrays by the kernel of a variant."""
    exact = _exact(replace(variant, arrays=arrays))
    assert exact is not None, "it could be followed on other arrays"
    return exact.outputs


def first_departure(variant: Variant) -> str | None:
    """The first instruction whose results are far from those of exact arithmetic, as a line."""
    exact = _exact(variant)
    if exact is None:
        return None
    tape = _taped(variant)
    least = least_that_counts(variant.arrays)
    made = [(step, place, value) for step in tape.steps for place, value in _fixed(step)]
    if len(made) != len(exact.steps):
        return None
    for (step, place, value), (_, wanted) in zip(made, exact.steps, strict=True):
        shaped = np.asarray(value).reshape(wanted.shape) if np.size(value) == wanted.size else np.asarray(value)
        if off(shaped, wanted, least) > _OFF:
            worst = int(np.argmax(np.abs(shaped.astype(np.float64) - wanted)))
            at = tuple(int(i) for i in np.unravel_index(worst, wanted.shape))
            shown = f"{number(shaped[at])} where exact arithmetic gives {number(wanted[at])}"
            stored = _narrowed(step, place, at, float(wanted[at])) if shaped.shape == np.shape(value) else ""
            return f"`{step.op.name}` at {step.op.location} is the first that loses digits: {shown}{stored}."
    return None


def _declared(target: View) -> str:
    """Whose element type it is, where a line of the source chose it."""
    buffer = target.buffer
    return f" ({buffer.name}, made at {buffer.location})" if target.on_chip and buffer.location else ""


def _narrowed(step: Step, place: int, at: tuple[int, ...], wanted: float) -> str:
    """The type that a result is stored in, where it was nearer to the exact one before."""
    target = step.op.operands[step.record.written[place]]
    values = step.computed() if step.kept and step.added is None else ()
    if place >= len(values) or not isinstance(target, View) or np.shape(values[place]) != target.sizes:
        return ""
    before, after = float(values[place][at]), float(np.asarray(step.outputs[place])[at])
    if not abs(before - wanted) < abs(after - wanted) / 2:
        return ""
    return f", and {number(before)} is stored as {target.dtype}{_declared(target)}"


def _fixed(step: Step) -> Iterator[tuple[int, np.ndarray]]:
    """What a step wrote to places that are fixed, which is what a run in float64 notes."""
    for place, (position, value) in enumerate(zip(step.record.written, step.outputs, strict=False)):
        view = step.op.operands[position]
        if isinstance(view, View) and view.dynamic is None and value is not None:
            yield place, value


def _exact(variant: Variant) -> Exact | None:
    return exactly(variant.graph, _inputs(variant), variant.target) if len(variant.graphs) == 1 else None


def _inputs(variant: Variant) -> dict[Buffer, np.ndarray]:
    pairs = zip(variant.graph.inputs, variant.arrays, strict=True)
    return {value: array for value, array in pairs if isinstance(value, Buffer)}


def _taped(variant: Variant) -> Tape:
    tape = Tape()
    try:
        with unexplained():
            run_cores(variant.graphs, variant.arrays, variant.target, variant.profile, tape.watch)
    except TileError:
        pass  # It fails: what came before that is on the tape.
    return tape


def rounded_steps(variant: Variant) -> list[str]:
    """What is stored notably different from what was computed, a line for each place in the source."""
    if variant.findings():
        return []
    tape = _taped(variant)
    found: dict[Any, str] = {}
    for step in tape.steps:
        for text in _rounded(step):
            found.setdefault((step.op.location, step.op.name), text)
    return list(found.values())


def _are_integers(step: Step) -> bool:
    arrays = [x for x in step.inputs if isinstance(x, np.ndarray)]
    return bool(arrays) and all(x.dtype.kind in "iu" for x in arrays)


def _rounded(step: Step) -> Iterator[str]:
    if not step.kept or step.added is not None:
        return
    for place, (value, stored) in enumerate(zip(step.computed(), step.outputs, strict=False)):
        target = step.op.operands[step.record.written[place]]
        if value is None or not isinstance(target, View) or np.shape(value) != np.shape(stored):
            continue
        before = np.asarray(value).astype(np.float64).reshape(-1)
        after = np.asarray(stored).astype(np.float64).reshape(-1)
        with np.errstate(all="ignore"):
            apart = np.abs(before - after)
            # Of integers each one counts, which may be an index; of other numbers some digits are always lost.
            kept = apart < 1 if _are_integers(step) else apart <= np.maximum(1, np.abs(before) * _NOTABLE)
            lost = np.isfinite(before) & ~kept
        if lost.any():
            first = int(np.argmax(lost))
            count = f"{np.count_nonzero(lost)} of {lost.size} values"
            shown = f"{number(before[first])} is stored as {number(after[first])}"
            held = f"{target.dtype} does not hold {count}"
            yield f"`{step.op.name}` at {step.op.location}: {held}: {shown}{_declared(target)}."
