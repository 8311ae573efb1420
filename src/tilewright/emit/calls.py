"""Instructions as calls of nki.isa: arguments by keyword, in NKI's order, without those that are at their default."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from tilewright.emit.versions import Api
from tilewright.emit.views import ViewWriter
from tilewright.ir.core import Op, Value
from tilewright.tile.record import MISSING, Record
from tilewright.tile.view import View

LABEL = "name"
"""The parameter that only labels an instruction."""


def call(op: Op, api: Api, views: ViewWriter, names: Mapping[Value, str]) -> tuple[str, list[str]]:
    """The function and its arguments as text."""
    record: Record = op.definition
    api.require_instruction(record.name)
    operands = _operands(record, op)
    required = _required(record)
    arguments: list[str] = []
    for name in record.nki:
        if name == LABEL:
            continue
        if name in record.attrs:
            value, default = op.attrs[name], record.attrs[name].default
        else:
            value, default = operands[name], record.operands[name].default
        if name not in required and (value is None or repr(value) == repr(default)):
            if name in operands and value is None:
                api.require_optional(f"{record.name}.{name}")
            continue
        text = _attribute(record, name, value, api) if name in record.attrs else _operand(value, views, names)
        arguments.append(f"{name}={text}")
    return f"nisa.{record.name}", arguments


def _operands(record: Record, op: Op) -> dict[str, Any]:
    """Operands by name; a list for the one that takes many."""
    found = dict(zip(record.operands, op.operands, strict=False))
    if record.many is not None:
        found[record.many] = op.operands[len(record.operands) - 1 :]
    return found


def _required(record: Record) -> set[str]:
    """Parameters that have no default in NKI's signature: also those of an optional operand before such a one."""
    found: set[str] = set()
    for name in reversed([name for name in record.nki if name != LABEL]):
        if name in record.attrs:
            without = record.attrs[name].default is MISSING
        else:
            spec = record.operands[name]
            without = not spec.optional or spec.default is MISSING
        if without or found:
            found.add(name)
    return found


def _operand(value: Any, views: ViewWriter, names: Mapping[Value, str]) -> str:
    if isinstance(value, View):
        return views.text(value)
    if isinstance(value, Value):
        return names[value]
    if isinstance(value, tuple):
        return f"[{', '.join(map(views.text, value))}]"
    return number(value)


def _attribute(record: Record, name: str, value: Any, api: Api) -> str:
    api.require_instruction(f"{record.name}.{name}")
    text = spelled(value) if _is_numeric(value) else record.attrs[name].spell(value)
    if text.startswith("nl."):
        api.require_operator(text.removeprefix("nl."))
    return text


def _is_numeric(value: Any) -> bool:
    """Numbers, and tuples of numbers one of which is a float: what Python's own text may not read well for."""
    if isinstance(value, tuple):
        return any(isinstance(each, float) for each in value) and not any(isinstance(each, tuple) for each in value)
    return isinstance(value, float)


def spelled(value: Any) -> str:
    """A number, or a tuple of numbers."""
    if isinstance(value, tuple):
        comma = "," if len(value) == 1 else ""
        return f"({', '.join(map(number, value))}{comma})"
    return number(value)


_LONG = 1e6
"""Numbers from here on are written with an exponent where that is shorter."""


def number(value: float) -> str:
    """A number as people write it: 0.125, 1e-6, -1e9, float("-inf").

    NKI's numbers are float32: of one that is, as many digits are written as tell it from others.
    """
    if not isinstance(value, float):
        return repr(value)
    if not isfinite(value):
        return f'float("{value}")'
    narrow = np.float32(value)
    plain = repr(float(str(narrow))) if float(narrow) == value else repr(value)
    mantissa, exponent = (plain if "e" in plain else f"{float(plain):e}").split("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    short = f"{mantissa}e{int(exponent)}"
    is_long = abs(value) >= _LONG and len(short) < len(plain)
    return short if float(short) == float(plain) and ("e" in plain or is_long) else plain
