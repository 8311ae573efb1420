"""How nl functions are built: tiles made and instructions of the table issued in the running kernel."""

from __future__ import annotations

from typing import Any

from tilewright.nki.context import require_session
from tilewright.nki.tensor import NkiTensor
from tilewright.tile.record import MISSING, TABLE


def issue(name: str, *operands: Any, **named: Any) -> None:
    """Issue an instruction. Operands go by position or name, attributes by name; the rest takes its default."""
    session = require_session(f"nisa.{name}")
    record = TABLE[name]
    given = dict(zip(record.operands, operands, strict=False))
    given.update({key: named.pop(key) for key in tuple(named) if key in record.operands})
    values = [_plain(given.get(key)) for key in record.operands]
    attrs = {key: named.pop(key, attr.default) for key, attr in record.attrs.items()}
    assert not named, f"{name} has no {', '.join(named)}"
    assert MISSING not in attrs.values(), f"{name} lacks an attribute: {attrs}"
    session.issue(record, values, attrs)


def _plain(value: Any) -> Any:
    return value._view if isinstance(value, NkiTensor) else value
