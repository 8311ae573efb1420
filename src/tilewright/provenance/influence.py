"""Influence: which bad inputs of an instruction make its bad outputs, and which outputs it makes bad itself.

How elements flow through an instruction is what its record says (`Record.flow`); where the record does not say it
element by element, inputs are mended and put back group by group, and the meaning shows what that does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.provenance.cells import Cells
from tilewright.provenance.kinds import kinds_of
from tilewright.provenance.tape import Step
from tilewright.sim.flow import flow
from tilewright.tile.record import LANES

MOST_GROUPS = 48
"""In which inputs are put back: the cost of a step is so many executions of its instruction."""
_HARMLESS = 0.5


@dataclass(slots=True)
class Source:
    """An input: where it stands, its values and kinds, and which of its elements make the wanted outputs bad."""

    cells: Cells | None
    values: np.ndarray
    kinds: np.ndarray
    chosen: np.ndarray
    place: int = -1

    @property
    def is_bad(self) -> bool:
        return bool(self.kinds.any())


def influence(step: Step, place: int, wanted: np.ndarray, limit: int | None) -> tuple[list[Source], np.ndarray]:
    """Inputs that make the `wanted` elements (flat) of a written operand bad; the wanted ones that none explains."""
    record = step.record
    # One element of one element is the same place, whatever moves it.
    single = wanted.size == 1 and all(np.size(value) == 1 for value in step.inputs)
    near = single or record.flow in ("elementwise", "movement")
    sources = list(_sources(step, limit if near else None))
    explained = np.zeros(wanted.size, bool)
    previous = _previous(step, place, limit)
    if previous is not None:
        previous.chosen = wanted & (previous.kinds.reshape(-1) != 0)
        explained |= previous.chosen
    bad = [source for source in sources if source.is_bad]
    if bad:
        shape = np.shape(step.outputs[place])
        rows = shape[0] if shape else 1
        if record.flow == "movement" and len(sources) == 1:
            explained |= _moved(step, bad[0], wanted)
        elif near or record.flow == LANES:
            for source in bad:
                explained |= _aligned(source, wanted, rows, record.flow == LANES)
        else:
            explained |= _probed(step, place, wanted, bad)
    found = [*sources, previous] if previous is not None else sources
    return [source for source in found if source.chosen.any()], wanted & ~explained


def _sources(step: Step, limit: int | None) -> Iterator[Source]:
    for place, (value, cells) in enumerate(zip(step.inputs, step.sources, strict=True)):
        if isinstance(cells, list):
            for each, where in zip(value, cells, strict=True):
                yield _source(where, each, limit, -1)
        elif value is not None and cells is not None:
            # A number that the kernel itself brings along was made nowhere else.
            yield _source(cells, value, limit, place)


def _source(cells: Cells | None, value: Any, limit: int | None, place: int) -> Source:
    array = np.atleast_1d(np.asarray(value))
    return Source(cells, array, kinds_of(array, limit), np.zeros(array.size, bool), place)


def _previous(step: Step, place: int, limit: int | None) -> Source | None:
    """What the destination held before, of an instruction that adds to it."""
    if step.added is None or place:
        return None
    return Source(step.targets[0], step.added, kinds_of(step.added, limit), np.zeros(step.added.size, bool))


def _aligned(source: Source, wanted: np.ndarray, rows: int, lanes: bool) -> np.ndarray:
    """Elements at the same place, else those of the same partition; a number goes everywhere."""
    bad = source.kinds.reshape(-1) != 0
    if bad.size == wanted.size and not lanes:
        source.chosen |= bad & wanted
        return bad & wanted
    if source.values.shape[0] == rows and rows > 1:
        by_row = wanted.reshape(rows, -1)
        hit = (bad.reshape(rows, -1).any(axis=1) & by_row.any(axis=1))[:, None]
        source.chosen |= (bad.reshape(rows, -1) & hit).reshape(-1)
        return (by_row & hit).reshape(-1)
    source.chosen |= bad
    return wanted.copy()


def _moved(step: Step, source: Source, wanted: np.ndarray) -> np.ndarray:
    """Follow every element through an instruction that only moves them."""
    codes = np.arange(1, source.values.size + 1, dtype=np.int32).reshape(source.values.shape)
    origins = np.asarray(flow(step.record, step.inputs, [codes], step.arguments)).reshape(-1)
    if origins.size != wanted.size:
        return _aligned(source, wanted, 1, False)
    bad = source.kinds.reshape(-1) != 0
    from_bad = wanted & (origins > 0) & bad[np.maximum(origins, 1) - 1]
    source.chosen[origins[from_bad] - 1] = True
    return from_bad


def _probed(step: Step, place: int, wanted: np.ndarray, bad: list[Source]) -> np.ndarray:
    """Mend all bad inputs, put them back group by group, and see which make a wanted output bad again."""
    if 2 * np.count_nonzero(wanted) > wanted.size and any(_is_mostly_bad(source) for source in bad):
        # Most of everything is bad: no need to ask which of it spoils the rest.
        for source in bad:
            source.chosen |= source.kinds.reshape(-1) != 0
        return wanted.copy()
    alone = [source for source in bad if source.place >= 0]
    mended = list(step.inputs)
    for source in alone:
        array = source.values.copy()
        array[source.kinds != 0] = _HARMLESS if array.dtype.kind not in "iub" else 0
        mended[source.place] = array if np.ndim(step.inputs[source.place]) else array[0]
    still = _made(step, place, mended) & wanted
    for source in alone:
        positions = np.flatnonzero(source.kinds.reshape(-1))
        for group in np.array_split(positions, min(MOST_GROUPS, positions.size)):
            tried = np.array(mended[source.place]).reshape(source.values.shape)
            tried.reshape(-1)[group] = source.values.reshape(-1)[group]
            trial = list(mended)
            trial[source.place] = tried if np.ndim(step.inputs[source.place]) else tried[0]
            if (_made(step, place, trial) & wanted & ~still).any():
                source.chosen[group] = True
    if not any(source.chosen.any() for source in bad) and not still.any():
        for source in bad:
            source.chosen |= source.kinds.reshape(-1) != 0
    return wanted & ~still if any(source.chosen.any() for source in bad) else np.zeros(wanted.size, bool)


def _is_mostly_bad(source: Source) -> bool:
    return 2 * np.count_nonzero(source.kinds) > source.kinds.size


def _made(step: Step, place: int, inputs: list[Any]) -> np.ndarray:
    """Which elements of a written operand are bad when the instruction gets these inputs."""
    with np.errstate(all="ignore"):
        made = step.record.meaning(*inputs, *step.arguments.values())
    value = made[place] if isinstance(made, tuple) else made
    kinds = kinds_of(value).reshape(-1) != 0
    size = np.size(step.outputs[place])
    return kinds if kinds.size == size else np.broadcast_to(kinds.any(), size)
