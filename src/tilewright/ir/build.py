"""A builder: makes ops and puts them where the insertion point is, with the source line that asked for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.errors import Location
from tilewright.ir.core import Graph, Op, Region, Value


class Builder:
    """Appends to a region, or inserts before an op of it.

    `locate` is asked for the source line of each op that has none, such as `tilewright.errors.user_location`.
    """

    __slots__ = ("_anchor", "_index", "locate", "region")

    def __init__(
        self, where: Graph | Region, locate: Callable[[], Location | None] | None = None, before: Op | None = None
    ) -> None:
        self.region = where.body if isinstance(where, Graph) else where
        self.locate = locate
        self._anchor = before
        self._index = 0

    def insert(self, op: Op) -> Op:
        """Put a detached op at the insertion point."""
        if op.location is None and self.locate is not None:
            op.location = self.locate()
        if self._anchor is None:
            return self.region.append(op)
        ops = self.region.ops
        if self._index >= len(ops) or ops[self._index] is not self._anchor:
            self._index = ops.index(self._anchor)
        self._index += 1
        return self.region.insert(self._index - 1, op)

    def add(
        self,
        definition: Any,
        operands: Iterable[Any] = (),
        types: Iterable[Any] = (),
        attrs: Mapping[str, Any] | None = None,
        regions: Iterable[Region] = (),
        names: Sequence[str | None] = (),
    ) -> Op:
        """Make an op with results of the given types and put it at the insertion point."""
        results = [Value(type) for type in types]
        for value, name in zip(results, names, strict=False):
            value.name = name
        return self.insert(Op(definition, operands, results, attrs, regions))

    @contextmanager
    def inside(self, region: Region) -> Iterator[Region]:
        """Append to `region` for a while, such as to the body of a loop that was just added."""
        outer = self.region, self._anchor, self._index
        self.region, self._anchor = region, None
        try:
            yield region
        finally:
            self.region, self._anchor, self._index = outer

    @contextmanager
    def before(self, op: Op) -> Iterator[None]:
        """Insert before `op` for a while."""
        assert op.parent is not None, f"{op} stands in no region"
        outer = self.region, self._anchor, self._index
        self.region, self._anchor, self._index = op.parent, op, 0
        try:
            yield
        finally:
            self.region, self._anchor, self._index = outer
