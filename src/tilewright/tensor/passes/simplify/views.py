"""Reshapes and transposes: composed, dropped, and moved past elementwise ops to where they meet others."""

from __future__ import annotations

from typing import Any

import tilewright.tensor.ops  # noqa: F401  (fills the table)
from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import value
from tilewright.tensor.passes.match import maker, used_once
from tilewright.tensor.record import TABLE

ELEMENTWISE = tuple(r.name for r in TABLE.values() if r.family == "elementwise" and r.name != "frexp")


@rule("reshape")
def reshape_to_itself(op: Op) -> Any:
    """reshape(x, its own shape) -> x"""
    (x,) = op.operands
    return x if x.type.shape == op.attrs["shape"] else None


@rule("reshape")
def reshape_of_reshape(op: Op) -> Any:
    """reshape(reshape(x, a), b) -> reshape(x, b)"""
    inner = maker(op.operands[0], "reshape")
    return None if inner is None else value("reshape", inner.operands[0], shape=op.attrs["shape"])


@rule("transpose")
def transpose_of_transpose(op: Op) -> Any:
    """transpose(transpose(x, p), q) -> transpose(x, p[q])"""
    inner = maker(op.operands[0], "transpose")
    if inner is None:
        return None
    first = inner.attrs["perm"]
    return value("transpose", inner.operands[0], perm=tuple(first[a] for a in op.attrs["perm"]))


@rule("transpose")
def transpose_in_order(op: Op) -> Any:
    """transpose(x, p) -> x, or a reshape where p moves dims of size 1 alone"""
    (x,) = op.operands
    perm, shape = op.attrs["perm"], x.type.shape
    if perm == tuple(range(len(perm))):
        return x
    moved = [a for a in perm if shape[a] != 1]
    return value("reshape", x, shape=op.result.type.shape) if moved == sorted(moved) else None


def blocks(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[range, range]]:
    """How a reshape groups dims: the least ranges of old and of new dims of as many elements. No size is 0."""
    found: list[tuple[range, range]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        first, second = i, j
        left, right = old[i], new[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right:
                left, i = left * old[i], i + 1
            else:
                right, j = right * new[j], j + 1
        found.append((range(first, i), range(second, j)))
    # What is left has size 1.
    return [*found, (range(i, len(old)), range(j, len(new)))] if i < len(old) or j < len(new) else found


@rule("transpose")
def transpose_of_reshape(op: Op) -> Any:
    """transpose(reshape(x, s), p) -> reshape(transpose(x, p'), s')        where s splits dims that p keeps together"""
    inner = maker(op.operands[0], "reshape")
    if inner is None or not used_once(inner.result) or not op.result.type.size:
        return None
    x, perm = inner.operands[0], op.attrs["perm"]
    groups = blocks(x.type.shape, inner.attrs["shape"])
    if any(len(old) != 1 for old, _ in groups):
        return None
    order: list[int] = []
    at = 0
    while at < len(perm):
        old, new = next(group for group in groups if perm[at] in group[1])
        if tuple(perm[at : at + len(new)]) != tuple(new):
            return None
        order += old
        at += len(new)
    # Dims of size 1 that s leaves out may stand anywhere.
    order += [axis for axis in range(x.type.rank) if axis not in order]
    return value("reshape", value("transpose", x, perm=tuple(order)), shape=op.result.type.shape)


@rule(*ELEMENTWISE)
def sink_view(op: Op) -> Any:
    """f(view(x), c) -> view(f(x, c))        for reshape and transpose that nothing else uses"""
    arrays = [x for x in op.operands if isinstance(x, Value)]
    if len(arrays) != 1 or len(op.results) != 1:
        return None
    inner = maker(arrays[0], "transpose", "reshape")
    if inner is None or not used_once(arrays[0]):
        return None
    operands = [inner.operands[0] if isinstance(x, Value) else x for x in op.operands]
    return value(inner.name, value(op.name, *operands, **op.attrs), **inner.attrs)


@rule(*ELEMENTWISE)
def sink_common_transpose(op: Op) -> Any:
    """f(transpose(x, p), transpose(y, p)) -> transpose(f(x, y), p)"""
    arrays = [x for x in op.operands if isinstance(x, Value)]
    inner = [m for x in arrays if (m := maker(x, "transpose")) is not None]
    if len(arrays) < 2 or len(inner) != len(arrays) or len(op.results) != 1:
        return None
    perm, shape = inner[0].attrs["perm"], arrays[0].type.shape
    alike = all(m.attrs["perm"] == perm and m.result.type.shape == shape for m in inner)
    if not alike or not all(user is op for x in arrays for user in x.uses):
        return None
    before = {m.result: m.operands[0] for m in inner}
    operands = [before[x] if isinstance(x, Value) else x for x in op.operands]
    return value("transpose", value(op.name, *operands, **op.attrs), perm=perm)
