"""Run-time indices that a DMA may not have: outside their tensor, or twice the same row."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import WARNING, Diagnostic, Location, TileRuntimeError
from tilewright.rules import Reporter
from tilewright.tile.memory import Buffer
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.sim.machine import Machine

OUT_OF_BOUNDS = "R-dma_copy-11"
NRT_EXEC_OOB = 1006  # The run-time's status for an indirect DMA outside its tensor.


class OutOfBoundsError(TileRuntimeError, IndexError):
    """A run-time index outside its tensor: which kernel, executed instruction, partition lane, index, bound, tensor."""

    def __init__(
        self, diagnostic: Diagnostic, kernel: str, instruction: int, lane: int, index: int, bound: int, tensor: Buffer
    ) -> None:
        super().__init__(diagnostic)
        self.code = NRT_EXEC_OOB
        self.kernel = kernel
        self.instruction = instruction
        self.lane = lane
        self.index = index
        self.bound = bound
        self.tensor = tensor


def report_out_of_bounds(
    reporter: Reporter,
    kernel: str,
    clock: int,
    view: View,
    chosen: np.ndarray,
    valid: np.ndarray,
    location: Location | None,
) -> None:
    """R-dma_copy-11, with all that is needed to find the bad index (S0-12)."""
    assert view.dynamic is not None
    bound = view.dynamic.limit
    lane, bad = int(np.argmin(valid)), int(np.count_nonzero(~valid))
    index, name, born = int(chosen[lane]), view.buffer.name or "tensor", view.buffer.location
    origin = f"allocated at {born}" if born is not None else "an argument of the kernel"
    shown = f"{index} (0x{index:X})" if _is_sentinel(view, index) else str(index)
    if view.dynamic.kind == "columns":
        what = f"tensor indirection: offset {shown} of column {lane} is outside [0, {bound}) of {name}"
        hint = "clamp the offsets: they count elements of a partition of the tensor that .indirect is called on"
    elif view.on_chip:
        # An engine reads its tiles itself: no transfer is cut short.
        what = f"run-time index {shown} is outside [0, {bound}) of {name}"
        hint = "clamp the register, or end the loop before: a tile that an engine accesses is inside of its tensor"
    else:
        what = (
            f"scatter/gather: indirect memory copy out-of-bound (NRT_EXEC_OOB = {NRT_EXEC_OOB}): index "
            f"{shown} in partition lane {lane} is outside [0, {bound}) of {name}"
        )
        hint = "clamp the indices, or pass oob_mode=nisa.oob_mode.skip to leave those rows untouched"
    if _is_sentinel(view, index):
        hint = (
            "find out why: all bits set is what a search gives for a value that it does not find (NaN is never found)"
        )
    reporter.violate(
        OUT_OF_BOUNDS,
        what,
        hint=hint,
        location=location,
        operands=[view.note(name)],
        notes=(
            f"kernel {kernel}, executed instruction {clock}",
            f"lane {lane}, index {index}, bound {bound}; {bad} of {valid.size} lanes are out of bounds",
            f"tensor {name}: {origin}",
        ),
        error=lambda diagnostic: OutOfBoundsError(diagnostic, kernel, clock, lane, index, bound, view.buffer),
    )


def report_partly_outside(
    reporter: Reporter, view: View, start: int, chosen: np.ndarray, valid: np.ndarray, location: Location | None
) -> None:
    """R-dma_copy-11 of transfers that begin inside of a tensor and end behind it, which oob_mode.skip does not cover.

    Skipped are indices that are out of bounds; these are not, and what lies behind the tensor is somebody else's.
    """
    dynamic = view.dynamic
    assert dynamic is not None
    size = prod(view.buffer.shape) * view.buffer.dtype.itemsize // view.dtype.itemsize
    partly = ~valid & (chosen >= 0) & (start + chosen * dynamic.stride < size)
    if not partly.any():
        return
    lane = int(np.argmax(partly))
    index, name = int(chosen[lane]), view.buffer.name or "tensor"
    first = start + index * dynamic.stride
    spread = zip(view.sizes[1:], view.strides[1:], strict=True)
    beyond = first + sum((count - 1) * step for count, step in spread) + 1 - size
    reporter.violate(
        OUT_OF_BOUNDS,
        f"scatter/gather: index {index} in partition lane {lane} is inside of {name}, but the transfer ends {beyond} "
        "elements behind it: oob_mode.skip leaves out indices that are out of bounds, not parts of a transfer",
        hint=f"pad {name} by {beyond} elements or more, or transfer fewer elements at a time",
        location=location,
        operands=[view.note(name)],
    )


def _is_sentinel(view: View, index: int) -> bool:
    """All bits of an unsigned index are set: it stands for no row, and another number would not mean more."""
    held = view.dynamic.index if view.dynamic is not None else None
    dtype = held.dtype.np if isinstance(held, View) else None
    return dtype is not None and dtype.kind == "u" and dtype.itemsize > 1 and index == np.iinfo(dtype).max


def require_distinct(machine: Machine, view: View, location: Location | None) -> None:
    """R-dma_compute-07: no row of a scatter is chosen twice."""
    if view.dynamic is None or view.dynamic.kind != "vector":
        return
    chosen, valid = machine.lanes(view, True, location)
    values, counts = np.unique(chosen[valid], return_counts=True)
    if values.size == np.count_nonzero(valid):
        return
    first = int(values[np.argmax(counts > 1)])
    lanes = [int(lane) for lane in np.flatnonzero(chosen == first)]
    machine.reporter.violate(
        "R-dma_compute-07",
        f"row {first} of {view.buffer.name} is scattered to by lanes {lanes[0]} and {lanes[1]}: with "
        f"unique_indices=True the sum is undefined",
        hint="sum rows with equal indices first, or scatter them by separate instructions",
        location=location,
        operands=[view.note("dst")],
    )


def notice_contended(
    machine: Machine, view: View, lanes: np.ndarray, chosen: np.ndarray, values: np.ndarray, location: Location | None
) -> None:
    """A warning (E402) where lanes of one transfer put different rows to one place: they arrive in no certain order."""
    order = np.argsort(chosen, kind="stable")
    again = np.flatnonzero(chosen[order[1:]] == chosen[order[:-1]])
    for first, second in zip(order[again], order[again + 1], strict=True):
        if values[first].tobytes() != values[second].tobytes():
            place = f"row {chosen[first]} of {view.buffer.name or 'tensor'}"
            message = (
                f"lanes {lanes[first]} and {lanes[second]} of a scatter put different rows to {place}: nothing fixes "
                "which of them stays"
            )
            hint = "give each row one lane, or scatter rows with equal indices by separate instructions"
            note = (view.note("dst"),)
            machine.reporter.add(Diagnostic("E402", message, None, WARNING, hint, location, note))
            return
