"""tensor[key] = value: a copy by whatever moves data between the two memories."""

from __future__ import annotations

from tilewright.errors import TileTypeError, fail
from tilewright.nki.context import require_session
from tilewright.nki.tensor import NkiTensor
from tilewright.rules import violate
from tilewright.tile.attrs import as_number
from tilewright.tile.record import TABLE


def assign(target: NkiTensor, value: object) -> None:
    """Copy a tile, or fill with a number, into a view of the same shape."""
    session = require_session("tensor assignment")
    number = as_number(value)
    if number is not None:
        record = TABLE["memset"]
        session.issue(record, [target._view], {**record.defaults, "value": number})
        return
    if not isinstance(value, NkiTensor):
        raise fail(
            "E108",
            f"a tensor is assigned {type(value).__name__}",
            hint="instructions write into their first argument; pass the view as dst",
            error=TileTypeError,
        )
    if value.shape != target.shape and value.size != target.size:
        violate(
            "R-tensor.index-07",
            f"a view of shape {target.shape} is assigned a tile of shape {value.shape}",
            operands=[target._view.note("dst"), value._view.note("value")],
            final=True,
        )
    on_chip = target._view.on_chip and value._view.on_chip
    record = TABLE["tensor_copy" if on_chip else "dma_copy"]
    session.issue(record, [target._view, value._view], dict(record.defaults))
