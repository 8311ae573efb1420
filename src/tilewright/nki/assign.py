"""tensor[key] = value: a copy by whatever moves data between the two memories."""

from __future__ import annotations

from tilewright.errors import TileTypeError, fail
from tilewright.nki.context import require_session
from tilewright.nki.isa.calls import NkiInstruction
from tilewright.nki.tensor import NkiTensor
from tilewright.rules import violate
from tilewright.tile.attrs import as_number
from tilewright.tile.record import TABLE


def assign(target: NkiTensor, value: object) -> None:
    """Copy a tile, or fill with a number, into a view of the same shape (R-tensor.index-07)."""
    session = require_session("tensor assignment")
    number = as_number(value)
    if number is not None:
        record = TABLE["memset"]
        session.issue(record, [target._view], record.attributes({"value": number}))
        return
    if isinstance(value, NkiInstruction):
        # Before NKI 0.3 instructions returned their result (S3-02).
        raise fail(
            "E114",
            f"nisa.{value.op.name} returns no tile that could be assigned",
            hint=value.instead,
            error=TileTypeError,
        )
    if not isinstance(value, NkiTensor):
        violate(
            "R-tensor.index-07",
            f"a tensor is assigned {type(value).__name__}; it takes a tile or a number",
            operands=[target._view.note("dst")],
            final=True,
            error=TileTypeError,
            hint="compute a tile first, or write nisa.memset for a constant",
        )
        raise AssertionError
    if value.shape != target.shape:
        violate(
            "R-tensor.index-07",
            f"a view of shape {target.shape} is assigned a tile of shape {value.shape}",
            hint="index or reshape one of them; assignment does not broadcast",
            operands=[target._view.note("dst"), value._view.note("value")],
            final=True,
        )
    on_chip = target._view.on_chip and value._view.on_chip
    record = TABLE["tensor_copy" if on_chip else "dma_copy"]
    session.issue(record, [target._view, value._view], record.attributes({}))
