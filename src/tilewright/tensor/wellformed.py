"""What makes an op well-formed before its types are asked for: kinds of operands and attributes, axes within ranks.

Programs that a front end traces are; text that somebody wrote or changed need not be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.ir.core import Op, Value
from tilewright.ir.dense import Dense
from tilewright.tensor.types import TensorType

_LARGEST = 2**62
"""No count, size or place is larger."""


def _whole(x: Any) -> bool:
    return type(x) is int and abs(x) < _LARGEST


def _count(x: Any) -> bool:
    return _whole(x) and x >= 0


def _positive(x: Any) -> bool:
    return _whole(x) and x > 0


def _wholes(x: Any) -> bool:
    return isinstance(x, tuple) and all(map(_whole, x))


def _counts(x: Any) -> bool:
    return isinstance(x, tuple) and all(map(_count, x))


def _number(x: Any) -> bool:
    return isinstance(x, (bool, float)) or (type(x) is int and -(2**63) <= x < 2**64)


def _limit(x: Any) -> bool:
    return x is None or _whole(x)


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda x: isinstance(x, kind)


KINDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("axis", "split_axis", "concat_axis", "size", "k"), _count),
    **dict.fromkeys(("groups", "world"), _positive),
    **dict.fromkeys(("stride", "dilation"), lambda x: isinstance(x, tuple) and all(map(_positive, x))),
    **dict.fromkeys(("axes", "perm", "shape", "sizes", "starts", "low", "high"), _counts),
    **dict.fromkeys(("keepdims", "descending", "largest", "right", "lower", "unit_diagonal", "definite"), _is(bool)),
    **dict.fromkeys(("value", "fill", "inside", "outside"), _number),
    **dict.fromkeys(("start", "step"), lambda x: isinstance(x, float) or _whole(x)),
    **dict.fromkeys(("band.low", "band.high"), _limit),
    "steps": _wholes,
    "dtype": _is(DType),
    "combine": _is(str),
    **dict.fromkeys(("recurrence.inner", "recurrence.outer"), lambda x: x in ("add", "multiply", "minimum", "maximum")),
    "constant.value": _is(Dense),
}
"""What an attribute of a name can be; where it is something else for one op, that op's name stands before it."""

_AXES = ("axis", "split_axis", "concat_axis")


def kind_of(op: str, attr: str) -> Callable[[Any], bool]:
    """What an attribute of an op can be."""
    return KINDS.get(f"{op}.{attr}") or KINDS[attr]


def faults(op: Op, numbers: bool) -> Iterator[str]:
    """What is ill-formed about an op whose operands and attributes are as many as its record says.

    numbers: numbers may stand among its operands.
    """
    for x in op.operands:
        if not (isinstance(x, Value) and isinstance(x.type, TensorType)) and not (numbers and _number(x)):
            yield f"an operand of {op.name} is {x!r}, which is no array{' and no number' * numbers}"
            return
    for name, x in op.attrs.items():
        if not kind_of(op.name, name)(x):
            yield f"{op.name}: {name} cannot be {x!r}"
            return
    yield from _number_faults(op)
    yield from _axis_faults(op)


def _number_faults(op: Op) -> Iterator[str]:
    """A number is one of the element type that the arrays have."""
    dtypes = [x.type.dtype for x in op.operands if isinstance(x, Value)]
    if op.operands and not dtypes:
        yield f"{op.name} has no array among its operands"
        return
    for x in op.operands:
        if type(x) is int and dtypes[-1].np.kind in "iu":
            # -1 stands for all bits of an unsigned type.
            info = np.iinfo(dtypes[-1].np)
            if not -(2 ** (info.bits - 1)) <= x <= info.max:
                yield f"{op.name}: {dtypes[-1]} does not hold {x}"


def _axis_faults(op: Op) -> Iterator[str]:
    first = next((x.type.shape for x in op.operands if isinstance(x, Value)), op.attrs.get("shape", ()))
    rank = len(first)
    for name in _AXES:
        if name in op.attrs and op.attrs[name] >= rank:
            yield f"{op.name}: {name} is {op.attrs[name]}, but there are {rank} dims"
    axes = op.attrs.get("axes", ())
    if len(set(axes)) < len(axes) or any(axis >= rank for axis in axes):
        yield f"{op.name}: axes {axes} of {rank} dims"
    if "perm" in op.attrs and sorted(op.attrs["perm"]) != list(range(rank)):
        yield f"{op.name}: perm {op.attrs['perm']} of {rank} dims"
