"""Operators of legacy tensors: arithmetic, comparisons, sums in place, and what Python asks of them."""

from __future__ import annotations

import sys
from typing import Any

from tilewright.nki.legacy import elementwise
from tilewright.nki.legacy.assignment import ADD_REFERENCES, ITEM_REFERENCES, assign, place
from tilewright.nki.legacy.faults import fault, shown
from tilewright.nki.legacy.index import Index
from tilewright.nki.legacy.indexing import Indirect
from tilewright.nki.legacy.session import legacy_session
from tilewright.nki.legacy.tensor import LegacyTensor
from tilewright.rules import violate
from tilewright.tile.attrs import as_number
from tilewright.tile.memory import OFF_CHIP, PSUM


def truth(tensor: LegacyTensor) -> bool:
    """bool(tensor): data is not known while a kernel is built. A tensor in HBM is an argument that is there."""
    if tensor.buffer in OFF_CHIP:
        return True
    return refuse_truth(tensor)


def refuse_truth(tensor: LegacyTensor) -> bool:
    """err_dynamic_control_flow_not_supported of one element, err_ambiguous_tensor_truth_value of several."""
    note = [(tensor.name, tensor._tile)] if tensor._tile is not None else []
    if tensor.size == 1:
        fault(
            "err_dynamic_control_flow_not_supported",
            f"dynamic control-flow depending on tensor value is not supported: '{tensor.name}{shown(tensor.shape)}'",
            *note,
            hint="use mask= for conditions on indices, and nl.where or a predicated copy for conditions on data",
        )
    else:
        fault(
            "err_ambiguous_tensor_truth_value",
            f"Cannot evaluate truth value of a multi-element tensor/array: '{tensor.name}{shown(tensor.shape)}'",
            *note,
            hint="use ~, & and | on tiles, and `is not None` to ask for an argument",
        )
    return False


def _binary(name: str):
    def method(self: LegacyTensor, other: Any) -> Any:
        if isinstance(other, Index) and name == "add":
            return Indirect(self, other)
        if name in _EQUALITY and not isinstance(other, LegacyTensor) and as_number(other) is None:
            # tensor == None and the like ask for the object.
            return NotImplemented
        _require_partitions(name, self, other)
        return elementwise.FUNCTIONS[name](self, other)

    def swapped(self: LegacyTensor, other: Any) -> Any:
        if isinstance(other, Index) and name == "add":
            return Indirect(self, other)
        return elementwise.FUNCTIONS[name](other, self)

    return method, swapped


def _require_partitions(name: str, a: LegacyTensor, b: Any) -> None:
    """R-legacy-03: operators do not broadcast over partitions; the functions do."""
    if isinstance(b, LegacyTensor) and a.ndim == b.ndim and a.shape[0] != b.shape[0]:
        violate(
            "R-legacy-03",
            f"operator {name} of tiles of {a.shape[0]} and {b.shape[0]} partitions does not broadcast over partitions",
            hint=f"use nl.{name}(a, b), or tile.broadcast_to(shape)",
            operands=[tile.note(side) for side, tile in (("a", a._tile), ("b", b._tile)) if tile is not None],
        )


_ARITHMETIC = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "pow": "power",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
    "mod": "mod",
}
_COMPARISONS = {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}
_EQUALITY = ("equal", "not_equal")
_IN_PLACE = ("add", "sub", "mul", "truediv")


def _in_place(name: str):
    def method(self: LegacyTensor, other: Any) -> LegacyTensor:
        # Counted before the call, which would hold it once more.
        temporary = sys.getrefcount(other) <= ADD_REFERENCES
        if name == "add":
            return add_in_place(self, other, temporary)
        return _update(self, elementwise.FUNCTIONS[_ARITHMETIC[name]](self, other))

    return method


def _update(tensor: LegacyTensor, made: LegacyTensor) -> LegacyTensor:
    """Put a result back to where one of its operands was: a sum over iterations, which may run in any order."""
    session = legacy_session("assignment")
    session.adding = True
    try:
        place(session, tensor, made, True)
        session.flush()
    finally:
        session.adding = False
    return tensor


def add_in_place(tensor: LegacyTensor, other: Any, temporary: bool) -> LegacyTensor:
    """tensor += other. A matmul adds to PSUM by itself, unless something else than zeros or matmuls is there."""
    session = legacy_session("assignment")
    if isinstance(other, LegacyTensor) and tensor._tile is not None and tensor.buffer is PSUM:
        if other._boxes is not None and not other._boxes:
            session.flush()
            return tensor
        made = other._tile
        record = session.holds(made.buffer) if made is not None and temporary else None
        if record is not None and record.accumulates and tensor._tile.buffer not in session.plain:
            if tuple(tensor.shape) == tuple(other.shape) and (other._boxes is None or len(other._boxes) == 1):
                into = tensor._view if other._boxes is None else tensor.inside(other._boxes[0])
                session.redirect(into, accumulate=None)
                return tensor
    return _update(tensor, elementwise.FUNCTIONS["add"](tensor, other))


def _set_item(self: LegacyTensor, key: object, value: Any) -> None:
    # Counted before the call, which would hold it once more.
    temporary = sys.getrefcount(value) <= ITEM_REFERENCES
    assign(self, key, value, temporary)


for _method, _name in _ARITHMETIC.items():
    _forward, _reverse = _binary(_name)
    setattr(LegacyTensor, f"__{_method}__", _forward)
    setattr(LegacyTensor, f"__r{_method}__", _reverse)
for _method, _name in _COMPARISONS.items():
    setattr(LegacyTensor, f"__{_method}__", _binary(_name)[0])
for _method in _IN_PLACE:
    setattr(LegacyTensor, f"__i{_method}__", _in_place(_method))
LegacyTensor.__setitem__ = _set_item  # type: ignore[method-assign]
LegacyTensor.__neg__ = lambda self: elementwise.FUNCTIONS["negative"](self)  # type: ignore[attr-defined]
LegacyTensor.__invert__ = lambda self: elementwise.inverted(self)  # type: ignore[attr-defined]
