"""Instructions that store something else than they computed: values that an element type cannot hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewright.diagnose.bisection.variants import Variant
from tilewright.errors import TileError
from tilewright.programs.cores import run_cores
from tilewright.provenance.explain import unexplained
from tilewright.provenance.kinds import number
from tilewright.provenance.tape import Step, Tape
from tilewright.tile.view import View

_NOTABLE = 0.01
"""Of a value: what is lost by rounding to any type that is meant for it is less."""


def rounded_steps(variant: Variant) -> list[str]:
    """What is stored notably different from what was computed, a line for each place in the source."""
    if variant.findings():
        return []
    tape = Tape()
    try:
        with unexplained():
            run_cores(variant.graphs, variant.arrays, variant.target, variant.profile, tape.watch)
    except TileError:
        pass  # It fails: what came before that is on the tape.
    found: dict[Any, str] = {}
    for step in tape.steps:
        for text in _rounded(step):
            found.setdefault((step.op.location, step.op.name), text)
    return list(found.values())


def _rounded(step: Step) -> Iterator[str]:
    if not step.kept or step.added is not None:
        return
    with np.errstate(all="ignore"):
        made = step.record.meaning(*step.inputs, *step.arguments.values())
    values = made if isinstance(made, tuple) else (made,)
    for place, (value, stored) in enumerate(zip(values, step.outputs, strict=False)):
        target = step.op.operands[step.record.written[place]]
        if value is None or not isinstance(target, View) or np.shape(value) != np.shape(stored):
            continue
        before = np.asarray(value).astype(np.float64).reshape(-1)
        after = np.asarray(stored).astype(np.float64).reshape(-1)
        with np.errstate(all="ignore"):
            lost = np.isfinite(before) & ~(np.abs(before - after) <= np.maximum(1, np.abs(before) * _NOTABLE))
        if lost.any():
            first = int(np.argmax(lost))
            count = f"{np.count_nonzero(lost)} of {lost.size} values"
            shown = f"{number(before[first])} is stored as {number(after[first])}"
            yield f"`{step.op.name}` at {step.op.location}: {target.dtype} does not hold {count}: {shown}."
