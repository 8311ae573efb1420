"""Reductions in terms of others."""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import bool_
from tilewright.ir.core import Op
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import make, value


@rule("any")
def expand_any(op: Op) -> Any:
    """any(x) -> max(x != 0), False of nothing"""
    return _quantified(op, "max", False)


@rule("all")
def expand_all(op: Op) -> Any:
    """all(x) -> min(x != 0), True of nothing"""
    return _quantified(op, "min", True)


def _quantified(op: Op, reduction: str, of_nothing: bool) -> Any:
    (x,) = op.operands
    out = op.result.type
    if not x.type.size:
        return make("full", shape=out.shape, dtype=out.dtype, value=of_nothing)
    truth = x if x.type.dtype is bool_ else value("not_equal", x, 0)
    found = value(reduction, truth, **op.attrs)
    return found if found.type == out else value("cast", found, dtype=out.dtype)


@rule("argmin")
def expand_argmin(op: Op) -> Any:
    """argmin(x) -> argmax(-x), of integers argmax(~x), which no number overflows"""
    (x,) = op.operands
    turned = value("negative" if x.type.dtype.is_float else "invert", x)
    return value("argmax", turned, **op.attrs)
