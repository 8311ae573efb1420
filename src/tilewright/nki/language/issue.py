"""How nl functions are built: tiles made and instructions of the table issued in the running kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.dtypes import DType, float32
from tilewright.nki.context import require_session
from tilewright.nki.tensor import NkiTensor, new_tensor
from tilewright.tile.memory import SBUF, MemoryRegion
from tilewright.tile.record import MISSING, TABLE


def issue(name: str, *operands: Any, **named: Any) -> None:
    """Issue an instruction. Operands go by position or name, attributes by name; the rest takes its default."""
    session = require_session(f"nisa.{name}")
    record = TABLE[name]
    given = dict(zip(record.operands, operands, strict=False))
    given.update({key: named.pop(key) for key in tuple(named) if key in record.operands})
    values = [_plain(given.get(key)) for key in record.operands]
    assert named.keys() <= record.attrs.keys(), f"{name} has no {', '.join(named)}"
    attrs = record.attributes(named)
    assert MISSING not in attrs.values(), f"{name} lacks an attribute: {attrs}"
    session.issue(record, values, attrs)


def _plain(value: Any) -> Any:
    return value._view if isinstance(value, NkiTensor) else value


def new_tile(shape: Sequence[int], dtype: DType = float32, memory: MemoryRegion = SBUF) -> NkiTensor:
    """An unnamed tile for a result or an intermediate value."""
    return new_tensor(require_session("nl"), tuple(shape), dtype, memory)


def written_tile(shape: Sequence[int], dtype: DType) -> NkiTensor:
    """A tile that counts as written with unknown values: the result of a call that broke a rule."""
    made = new_tile(shape, dtype)
    session = require_session("nl")
    session.machine.storage[made._view.buffer].written = "everything"
    return made
