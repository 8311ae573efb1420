"""Writing matmul results to PSUM: overwrite, add, or decide per element (R-nc_matmul-20 to -22)."""

from __future__ import annotations

import numpy as np

from tilewright.errors import WARNING, Diagnostic, Location
from tilewright.sim.machine import Machine
from tilewright.sim.storage import EVERYTHING, NOTHING, Codes, State, Storage
from tilewright.small_floats import assign
from tilewright.tile.indirect import index_of
from tilewright.tile.patterns import extent_at
from tilewright.tile.view import View


def accumulate(
    machine: Machine,
    view: View,
    value: np.ndarray,
    mode: bool | None,
    location: Location | None,
    undefined: Codes | None = None,
) -> None:
    """Write a matmul result: overwrite, add, or decide per element (None: the first matmul write overwrites).

    undefined: origins of elements that hold nobody's data, which a transpose moves (None: all are defined).
    """
    if index_of(view) is not None:
        # One column after the other, as the engine does: two of them may go to the same place.
        for i, column in machine.chosen_columns(view, location):
            codes = None if undefined is None else undefined.reshape(view.sizes)[:, i : i + 1]
            accumulate(machine, column, value[:, i : i + 1], mode, location, codes)
        return
    storage = machine.touch(view)
    offset = machine.offset_of(view) if view.terms else view.offset
    if view.dynamic is not None:
        offset += machine.scalar_step(view, False, location)
    array = storage.array(view, offset)
    if value.shape != view.sizes:
        value = value.reshape(view.sizes)
    state: State = NOTHING if mode is False else storage.accumulated_mask(view, offset)
    if mode is True and state is not EVERYTHING:
        if may_accumulate(machine, storage, view, offset, location):
            state = EVERYTHING
        else:
            state, value = _accumulate_anyway(machine, storage, view, offset, state, value)
    if state is not NOTHING and storage.place is not None and storage.place.tainted:
        machine.check_owner(storage, storage.place, view, offset, location)
    if storage.drained:
        _look_at_drained(machine, storage, view, offset, mode is None and state is not NOTHING, location)
    if isinstance(state, np.ndarray):
        assign(array, np.where(state, array.astype(np.float32) + value, value))
    elif state is EVERYTHING:
        np.add(array, value, out=array, casting="unsafe")
    else:
        assign(array, value)
    storage.mark_accumulated(view, offset)
    undefined = None if undefined is None else undefined.reshape(view.sizes)
    if state is not NOTHING and storage.flowed is not None:
        # What was added to nobody's data is nobody's.
        machine.origins.number(storage, location)
        before = np.where(True if state is EVERYTHING else state, storage.undefined(view, offset), 0)
        undefined = before if undefined is None else np.where(undefined == 0, before, undefined)
    machine.wrote(storage, view, offset, undefined)


def _look_at_drained(
    machine: Machine, storage: Storage, view: View, offset: int, adds: bool, location: Location | None
) -> None:
    """W105: a matmul that decides by itself adds to sums that were read already, as if they had not been used."""
    assert storage.drained is not None
    here = extent_at(view, offset)
    for read in [each for each in storage.drained if each.meets(here)]:
        where = storage.drained.pop(read)
        if adds:
            machine.reporter.add(
                Diagnostic(
                    "W105",
                    f"a matmul without accumulate= adds to {view.buffer.name}, which was read at {where} already",
                    "R-nc_matmul-22",
                    WARNING,
                    "allocate the tile in the loop, or pass accumulate=False to the first matmul of a new sum; where "
                    "the old sum is meant to go on, pass accumulate=True",
                    location,
                    (view.note("dst"),),
                )
            )


def may_accumulate(machine: Machine, storage: Storage, view: View, offset: int, location: Location | None) -> bool:
    """R-nc_matmul-20 and -21: accumulate=True where not every element was written by a matmul before."""
    written = storage.is_written(view, offset)
    if written and machine.target["features.matmul_accumulate_on_written_psum"]:
        return True
    _report_accumulation(machine, view, written, location)
    return False


def _report_accumulation(machine: Machine, view: View, written: bool, location: Location | None) -> None:
    what = "was initialised by something else than a matmul" if written else "no matmul has written yet"
    machine.reporter.violate(
        "R-nc_matmul-21" if written else "R-nc_matmul-20",
        f"accumulate=True on PSUM that {what}: the sum is undefined on hardware",
        hint="pass accumulate=(k > 0), or leave it out: the first matmul write then overwrites, later ones add",
        location=location,
        operands=[view.note("dst")],
    )


def _accumulate_anyway(
    machine: Machine, storage: Storage, view: View, offset: int, state: State, value: np.ndarray
) -> tuple[State, np.ndarray]:
    """What an accumulation that is undefined on hardware does here, as `illegal_accumulate` says (S3-06)."""
    if machine.illegal_accumulate == "overwrite":
        return state, value
    if machine.illegal_accumulate == "poison":
        legal = state if isinstance(state, np.ndarray) else False
        return state, np.where(legal, value, np.float32(np.nan))
    unwritten = ~storage.written_mask(view, offset)
    storage.array(view, offset)[unwritten] = 0
    return EVERYTHING, value
