"""Common subexpressions: of equal ops the first one is used by all."""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.definition import has_side_effects
from tilewright.ir.dense import Dense
from tilewright.ir.walk import erase_all
from tilewright.tensor.passes.simplify.numbers import COMMUTATIVE

_SAMPLE = 2**4


def share(graph: Graph) -> int:
    """Make every op that computes what an earlier one does use that one's results; says how many went."""
    first: dict[Any, Op] = {}
    gone: list[Op] = []
    for op in graph.ops:
        if has_side_effects(op) or op.definition.family == "collective":
            continue
        same = first.setdefault(_key(op), op)
        if same is not op:
            for old, new in zip(op.results, same.results, strict=True):
                old.replace_all_uses(new)
            gone.append(op)
    erase_all(gone)
    return len(gone)


def _key(op: Op) -> Any:
    """Equal for ops that compute the same. Numbers by their text: 0.0, -0.0, 0 and False are not the same."""
    operands = [id(x) if isinstance(x, Value) else repr(x) for x in op.operands]
    if op.name in COMMUTATIVE and all(isinstance(x, Value) for x in op.operands):
        operands.sort()  # type: ignore[type-var]
    attrs = op.attrs
    return op.name, tuple(operands), tuple([(k, _frozen(attrs[k])) for k in op.definition.attrs])


def _frozen(attr: Any) -> Any:
    if isinstance(attr, Dense):
        return _Array(attr)
    return repr(attr) if isinstance(attr, (bool, int, float)) else attr


class _Array:
    """A constant that hashes by some of its elements: all of them are looked at only where those agree."""

    __slots__ = ("dense",)

    def __init__(self, dense: Dense) -> None:
        self.dense = dense

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Array) and (self.dense is other.dense or self.dense == other.dense)

    def __hash__(self) -> int:
        array = self.dense.array
        some = array.reshape(-1)[:: max(array.size // _SAMPLE, 1)]
        return hash((self.dense.dtype, array.shape, some.tobytes()))
