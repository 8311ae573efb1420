"""Other instructions for the same result: each rule gives what an instruction may be instead, bit for bit the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from tilewright.dtypes import float32
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.views import sliced
from tilewright.tile.memory import PSUM
from tilewright.tile.view import View


class Part(NamedTuple):
    """An instruction to be: operands in the order of its record."""

    name: str
    operands: tuple[Any, ...]
    attrs: Mapping[str, Any]


Form = tuple[Part, ...]
Rule = Callable[[Part], Form | None]


def in_two(part: Part) -> Form | None:
    """scalar_tensor_tensor(x, s, y) -> tensor_scalar(x, s), tensor_tensor(that, y)        nothing is rounded between"""
    dst, x, scalar, y = part.operands
    others = [v.buffer for v in (scalar, y) if isinstance(v, View)]
    if dst.dtype is not float32 or dst.buffer in others or not _is_apart(dst, (x,)) or dst.memory is PSUM:
        return None
    first = {"op0": part.attrs["op0"], "reverse0": part.attrs["reverse0"]}
    pair = (y, dst) if part.attrs["reverse1"] else (dst, y)
    return (
        Part("tensor_scalar", (dst, x, scalar, None), first),
        Part("tensor_tensor", (dst, *pair), {"op": part.attrs["op1"]}),
    )


def by_operator(part: Part) -> Form | None:
    """activation(square, x) -> x * x; relu -> maximum(x, 0); abs; copy -> x * scale + bias"""
    dst, x, bias, scale, total = part.operands
    op = part.attrs["op"]
    if total is not None or part.attrs["reduce_cmd"] != "idle" or not dst.dtype.is_float or not x.dtype.is_float:
        return None
    plain = bias is None and not isinstance(scale, View) and scale == 1
    if op == "square" and plain and x.memory is not PSUM:
        return (Part("tensor_tensor", (dst, x, x), {"op": "multiply"}),)
    if op == "abs" and plain:
        return (Part("tensor_scalar", (dst, x, 0.0, None), {"op0": "abs"}),)
    if op == "relu" and bias is None:
        if plain:
            return (Part("tensor_scalar", (dst, x, 0.0, None), {"op0": "maximum"}),)
        return (Part("tensor_scalar", (dst, x, scale, 0.0), {"op0": "multiply", "op1": "maximum"}),)
    if op == "copy" and (not isinstance(bias, View) or bias.dtype is float32):
        if bias is None:
            return (Part("tensor_scalar", (dst, x, scale, None), {"op0": "multiply"}),)
        return (Part("tensor_scalar", (dst, x, scale, bias), {"op0": "multiply", "op1": "add"}),)
    return None


def _is_same(x: View, y: View) -> bool:
    return (x.buffer, x.dtype, x.offset, x.sizes, x.strides, x.terms, x.dynamic) == (
        *(y.buffer, y.dtype, y.offset, y.sizes, y.strides, y.terms, y.dynamic),
    )


FORMS: dict[str, tuple[Rule, ...]] = {
    "scalar_tensor_tensor": (in_two,),
    "activation": (by_operator,),
}


def shared_columns(one: Part, other: Part) -> int | None:
    """The columns that two instructions which do the same may have some of each; None where they may not."""
    dst = one.operands[0]
    if len(one.operands) != len(other.operands) or one.name != other.name or not _is_apart(dst, one.operands[1:]):
        return None
    full = [x for x in one.operands if isinstance(x, View) and x.free > 1]
    dims, dynamic = {view.sizes for view in full}, any(view.dynamic is not None for view in full)
    if len(dims) != 1 or dynamic or full[0].sizes[-1] < TUNING.split_columns:
        return None
    return full[0].sizes[-1]


def halved(one: Part, other: Part, columns: int, cut: int) -> Form:
    """The first columns by one instruction, the rest by another that does the same."""
    return (_columns(one, 0, cut), _columns(other, cut, columns - cut))


def _is_apart(dst: View, sources: Iterable[Any]) -> bool:
    """True where nothing that is written is read later: sources are other tiles, or the same elements."""
    return all(x.buffer is not dst.buffer or _is_same(x, dst) for x in sources if isinstance(x, View))


def _columns(part: Part, start: int, size: int) -> Part:
    taken = [sliced(x, x.ndim - 1, start, size) if isinstance(x, View) and x.free > 1 else x for x in part.operands]
    return part._replace(operands=tuple(taken))
