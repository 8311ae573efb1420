"""Results: a call of the legacy dialect as an instruction of the table that writes a new tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.errors import TileTypeError, fail
from tilewright.nki.isa.calls import Form
from tilewright.nki.language.operators import OPERATORS
from tilewright.nki.legacy.faults import fault
from tilewright.nki.legacy.loop_index import Condition
from tilewright.nki.legacy.mask import Box, Mask
from tilewright.nki.legacy.session import LegacySession
from tilewright.nki.legacy.tensor import LegacyTensor, new_tile
from tilewright.tile.attrs import as_number
from tilewright.tile.memory import SBUF, MemoryRegion
from tilewright.tile.record import TABLE, Record

_forms: dict[tuple[str, tuple[str, ...]], Form] = {}

# NumPy's names of operators and functions, where NKI calls them otherwise.
_NUMPY_NAMES = {
    "absolute": "abs",
    "amax": "max",
    "amin": "min",
    "true_divide": "divide",
    "bitwise_not": "invert",
    "remainder": "mod",
    "fabs": "abs",
    "conjugate": "copy",
}
_REDUCTIONS = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum", "all": "logical_and"}


def operator_of(op: Any) -> Any:
    """An operator for an instruction: NumPy's function, or one of nl."""
    if op is None or isinstance(op, str):
        return op
    name = getattr(op, "op_name", None) or getattr(op, "__name__", None)
    if not isinstance(name, str):
        return op
    name = _NUMPY_NAMES.get(name, name)
    name = _REDUCTIONS.get(name, name)
    return OPERATORS.get(name, op)


def attributes(record: Record, given: Mapping[str, Any]) -> Any:
    """The attributes of an instruction, read and checked."""
    for name, value in given.items():
        if getattr(value, "op_name", None) == "divide" and name in record.attrs:
            # The old compiler had a quotient among the operators; NKI's table of today does not list it.
            read = {key: record.attrs[key].read(each, key) for key, each in given.items() if key != name}
            return record.attributes({**read, name: "divide"})
    key = (record.name, tuple(given))
    form = _forms.get(key)
    if form is None:
        form = _forms[key] = Form(record, dict.fromkeys(record.operands) | dict(given))
    return form.attributes(given)


def issue(session: LegacySession, name: str, operands: Sequence[Any], attrs: Mapping[str, Any]) -> None:
    """Issue an instruction on tensors, numbers and None, in the table's order of operands."""
    record = TABLE[name]
    views = [each._view if isinstance(each, LegacyTensor) else each for each in operands]
    session.issue(record, views, attributes(record, attrs))


def regions(mask: Any, sizes: Sequence[int]) -> list[Box] | None:
    """What a mask leaves of a tile: None for all of it."""
    if mask is None or mask is True:
        return None
    if isinstance(mask, Mask):
        boxes = mask.boxes(sizes)
        return None if boxes == [tuple((0, int(size)) for size in sizes)] else boxes
    if isinstance(mask, Condition):
        if not mask.affine:
            fault(
                "err_unsupported_expression_in_mask",
                "mask: NKI mask expressions must be affine expressions of static loop indices",
                hint="leave out // and % and products of indices, or use an if",
            )
        return None if mask.holds else []
    if mask is False or (isinstance(mask, np.bool_) and not mask):
        return []
    if isinstance(mask, np.bool_):
        return None
    if isinstance(mask, LegacyTensor):
        fault(
            "err_unsupported_expression_in_mask",
            "mask: NKI mask expressions must be affine expressions of static loop indices, not tensors",
            ("mask", mask._view),
            hint="use nl.where or a predicated copy for conditions on data",
        )
        return None
    raise fail(
        "E108",
        f"mask={mask!r} is not a comparison of indices",
        error=TileTypeError,
        hint="compare an index tensor with a number: nl.arange(128)[:, None] < rows",
    )


def produce(
    session: LegacySession,
    name: str,
    shape: Sequence[int],
    dtype: DType,
    operands: Sequence[Any],
    attrs: Mapping[str, Any],
    *,
    memory: MemoryRegion = SBUF,
    mask: Any = None,
    given: bool = False,
    over: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
) -> LegacyTensor:
    """A new tile that an instruction writes, or the part of it that a mask leaves.

    operands: those after the destination. given: the caller chose the dtype. over: the sizes that the mask is about,
    where they are not the result's. axes: which of these the result keeps.
    """
    result = new_tile(session, shape, dtype, memory)
    result._given = given
    boxes = None if mask is None else regions(mask, over or shape)
    record = TABLE[name]
    if boxes is None:
        views = [each._view if isinstance(each, LegacyTensor) else each for each in operands]
        session.issue(record, [result._tile, *views], attributes(record, attrs))
        return result
    for box in _reachable(record, boxes, operands):
        views = [each.inside(box) if isinstance(each, LegacyTensor) else each for each in operands]
        kept = box if axes is None else _kept(box, axes, shape)
        session.issue(record, [result.inside(kept), *views], attributes(record, attrs))
    result._boxes = boxes if axes is None else [_kept(box, axes, shape) for box in boxes]
    return result


def produce_boxes(
    session: LegacySession,
    name: str,
    shape: Sequence[int],
    dtype: DType,
    operand: LegacyTensor,
    attrs: Mapping[str, Any],
    boxes: list[Box],
    dims: tuple[Sequence[int], Sequence[int]],
    given: bool,
) -> LegacyTensor:
    """A new tile that an instruction makes of one operand whose dims are in another order than those of the boxes that
    a mask leaves. dims: the operand's as the boxes have them, and which of these the result keeps."""
    result = new_tile(session, shape, dtype)
    result._given = given
    record = TABLE[name]
    order, axes = dims
    for box in _reachable(record, boxes, [operand]):
        part = operand.inside(tuple(box[dim] for dim in order))
        session.issue(record, [result.inside(_kept(box, axes, shape)), part], attributes(record, attrs))
    result._boxes = [_kept(box, axes, shape) for box in boxes]
    return result


def _reachable(record: Record, boxes: list[Box], operands: Sequence[Any]) -> list[Box]:
    """Boxes that an engine can work on: it starts at few partitions, while a DMA starts anywhere.

    Where the mask begins further down, or is no box, one around all from the first partition on is computed; of the
    result only what the mask leaves counts. Operands that reach outside of their tensor are cut as the mask says.
    """
    spec = next(iter(record.operands.values()))
    first = all(box[0][0] == 0 for box in boxes) and len(boxes) == 1
    if not boxes or first or not spec.start:
        return boxes
    if any(isinstance(each, LegacyTensor) and each._outside is not None for each in operands):
        return boxes
    spans = [(min(box[axis][0] for box in boxes), max(box[axis][1] for box in boxes)) for axis in range(len(boxes[0]))]
    return [((0, spans[0][1]), *spans[1:])]


def _kept(box: Box, axes: Sequence[int], shape: Sequence[int]) -> Box:
    """The part of a result that comes from a part of its operand: kept axes as there, new ones whole."""
    rest = [(0, int(size)) for size in shape[len(axes) :]]
    return (*(box[axis] for axis in axes), *rest)


def number_or_tile(value: Any) -> Any:
    """A plain number for a NumPy or Python one; anything else as it is."""
    number = as_number(value)
    return value if number is None else number
