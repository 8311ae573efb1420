"""How undefined elements pass through an instruction: each output element gets the origin of an undefined input.

Origins are numbers (`storage.Codes`). An elementwise instruction takes the first undefined operand's; an instruction
that moves elements moves the numbers too, by its own meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import int32
from tilewright.sim.storage import Codes
from tilewright.tile.record import LANES, OperandSpec, Record

# While numbers move through a meaning they are shifted by this much, so that a value which the instruction fills in
# itself is not taken for one of them. Small enough to stay exact in float32.
_SHIFT = 1 << 20


def flow(record: Record, arrays: list[Any], codes: list[Codes | None], extra: dict[str, Any]) -> Any:
    """The origins of the output's elements, given those of the inputs' (None: all defined).

    A record with a flow of its own may give a tuple: one for each operand that it writes.
    """
    if callable(record.flow):
        return record.flow(arrays, codes, extra)
    if record.flow == "movement":
        stand_ins = [
            _stand_in(each, array, record.operands[name])
            for name, array, each in zip(record.reading, arrays, codes, strict=True)
        ]
        highest = max(int(each.max()) for each in codes if each is not None)
        return _moved(record, stand_ins, extra, highest)
    merged = merge([each if each is None else each.reshape(each.shape[0], -1) for each in codes])
    assert merged is not None
    return merged.max(axis=1, keepdims=True) if record.flow == LANES else merged


def merge(codes: Sequence[Codes | None]) -> Codes | None:
    """The first undefined operand's origin, element by element; a column counts for its whole row."""
    merged: Codes | None = None
    for each in codes:
        if each is not None:
            merged = each if merged is None else np.where(merged == 0, each, merged)
    return merged


def moved_mask(record: Record, mask: np.ndarray, extra: dict[str, Any]) -> np.ndarray:
    """Where an instruction of one operand moves the marked elements of it."""
    return _moved(record, [mask.astype(np.int32) + _SHIFT], extra, 1) != 0


def _moved(record: Record, stand_ins: list[Any], extra: dict[str, Any], highest: int) -> Codes:
    if "dtype" in extra:
        extra = {**extra, "dtype": int32}
    if "state" in extra:
        extra = {**extra, "state": dict(extra["state"])}
    values = record.meaning(*stand_ins, **extra)
    moved = np.asarray(values[0] if isinstance(values, tuple) else values).astype(np.int64) - _SHIFT
    return np.where((moved > 0) & (moved <= highest), moved, 0).astype(np.int32)


def _stand_in(codes: Codes | None, array: Any, spec: OperandSpec) -> Any:
    """What stands for an operand while its numbers move; indices and predicates stay themselves."""
    if array is None or spec.defined is True:
        return array
    if codes is not None:
        return codes + np.int32(_SHIFT)
    if spec.many:
        return [np.full(each.shape, _SHIFT, np.int32) for each in array]
    return np.full(np.shape(array), _SHIFT, np.int32)


def fit(codes: Codes, sizes: tuple[int, ...]) -> Codes:
    """Origins in the shape of a destination; where it has fewer elements, those of the whole partition."""
    if codes.shape == sizes:
        return codes
    if codes.size == np.prod(sizes):
        return codes.reshape(sizes)
    row = codes.reshape(codes.shape[0], -1).max(axis=1)
    if row.size == sizes[0]:
        return np.broadcast_to(row.reshape(-1, *[1] * (len(sizes) - 1)), sizes)
    return np.full(sizes, codes.max(), np.int32)
