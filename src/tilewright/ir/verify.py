"""The structural rules every graph keeps, whatever its ops mean, and the driver for the rules of the definitions.

| code | what is wrong                                                                    |
|------|----------------------------------------------------------------------------------|
| E210 | a value is used before its definition, or outside of the region that defines it   |
| E211 | a value is used that this graph does not define                                  |
| E212 | a use-list does not hold exactly the users                                       |
| E213 | a value is defined twice                                                         |
| E214 | an op stands in two places, or in another region than it says                    |
| E215 | a result names another producer, or an argument has one                          |
| E216 | an op has another number of regions than its definition says                     |
| E217 | a region does not end with the terminator of its definition, or has it elsewhere |
| E218 | ops depend on each other in a circle (`topological_order`)                       |
| E219 | a value has no type                                                              |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tilewright.errors import Diagnostic, TileError
from tilewright.ir.core import Graph, Op, Region, Value
from tilewright.ir.walk import undefined_uses

_MISSING: Any = object()


def verify(graph: Graph, definitions: bool = True) -> list[Diagnostic]:
    """All findings: the structural ones, and each op's own (`definition.verify`) when the structure is sound."""
    found = list(_structure(graph))
    if found or not definitions:
        return found
    return list(_definition_findings(graph.body))


def check(graph: Graph) -> None:
    """Raise the first finding of `verify`."""
    for diagnostic in verify(graph):
        raise TileError(diagnostic)


def _structure(graph: Graph) -> Iterator[Diagnostic]:
    census = _Census(graph)
    yield from census.findings
    for op, value in undefined_uses(graph):
        if value in census.defined:
            yield _finding("E210", op, f"{op.name} uses %{value.name or '?'} before or outside of its definition")
        else:
            yield _finding("E211", op, f"{op.name} uses %{value.name or '?'}, which this graph does not define")
    yield from census.use_list_findings()


def _finding(code: str, op: Op | None, message: str, hint: str | None = None) -> Diagnostic:
    return Diagnostic(code, message, hint=hint, location=None if op is None else op.location)


class _Census:
    """One pass over a graph: who is listed where, who defines what, who uses what."""

    __slots__ = ("defined", "findings", "ops", "users")

    def __init__(self, graph: Graph) -> None:
        self.findings: list[Diagnostic] = []
        self.defined: dict[Value, Op | None] = {}
        self.users: dict[Value, list[Op]] = {}
        self.ops: set[Op] = set()
        for value in graph.declared:
            self._define_argument(value)
        self._region(graph.body)
        self._op_uses(graph.output_op)

    def _region(self, region: Region) -> None:
        for value in region.arguments:
            self._define_argument(value)
        for op in region.ops:
            if op in self.ops:
                self._report("E214", op, f"{op.name} stands in two places")
                continue
            self.ops.add(op)
            if op.parent is not region:
                self._report("E214", op, f"{op.name} stands in another region than its parent says")
            self._op_uses(op)
            for value in op.results:
                self._define_result(value, op)
            wanted = getattr(op.definition, "region_count", 0)
            if len(op.regions) != wanted and wanted is not None:
                self._report("E216", op, f"{op.name} has {len(op.regions)} regions, its definition says {wanted}")
            if op.regions:
                self._inner_regions(op)

    def _inner_regions(self, op: Op) -> None:
        terminator = getattr(op.definition, "terminator", None)
        for region in op.regions:
            if region.parent is not op:
                self._report("E214", op, f"a region of {op.name} has another parent")
            if terminator is not None:
                self._check_end(op, region, terminator)
            self._region(region)

    def _check_end(self, op: Op, region: Region, terminator: str) -> None:
        places = [index for index, inner in enumerate(region.ops) if inner.name == terminator]
        if places != [len(region.ops) - 1]:
            self._report("E217", op, f"a region of {op.name} must have one {terminator}, at its end")

    def _op_uses(self, op: Op) -> None:
        users = self.users
        for value in op.values():
            known = users.get(value)
            if known is None:
                users[value] = [op]
            else:
                known.append(op)

    def _define_result(self, value: Value, op: Op) -> None:
        if value.producer is not op:
            self._report("E215", op, f"{op.name} lists %{value.name or '?'}, whose producer is {value.producer}")
        if value in self.defined:
            self._report("E213", op, f"{op.name} defines %{value.name or '?'}, which is defined already")
        if value.type is None:
            self._report("E219", op, f"{op.name} gives %{value.name or '?'} no type")
        self.defined[value] = op

    def _define_argument(self, value: Value) -> None:
        if value.producer is not None:
            self._report("E215", value.producer, f"the argument %{value.name or '?'} has a producer")
        if value in self.defined:
            self._report("E213", None, f"the argument %{value.name or '?'} is defined already")
        if value.type is None:
            self._report("E219", None, f"the argument %{value.name or '?'} has no type")
        self.defined[value] = None

    def _report(self, code: str, op: Op | None, message: str) -> None:
        self.findings.append(_finding(code, op, message))

    def use_list_findings(self) -> Iterator[Diagnostic]:
        """Compare the use-lists of all values that occur with the users that were found."""
        for value in self.defined:
            if value not in self.users and value.uses:
                yield self._wrong_use_list(value, [])
        for value, users in self.users.items():
            # Equal lists are the rule (order of registration is text order); otherwise the order may differ.
            if value.uses != users and sorted(map(id, value.uses)) != sorted(map(id, users)):
                yield self._wrong_use_list(value, users)

    @staticmethod
    def _wrong_use_list(value: Value, users: list[Op]) -> Diagnostic:
        listed, found = len(value.uses), len(users)
        counts = f"{listed} listed, {found} found" if listed != found else "the same number, but other ops"
        message = f"the use-list of %{value.name or '?'} is not what uses it: {counts}"
        return _finding("E212", value.producer, message)


def _definition_findings(region: Region) -> Iterator[Diagnostic]:
    hooks: dict[int, Any] = {}
    yield from _ask_definitions(region, hooks)


def _ask_definitions(region: Region, hooks: dict[int, Any]) -> Iterator[Diagnostic]:
    for op in region.ops:
        definition = op.definition
        hook = hooks.get(id(definition), _MISSING)
        if hook is _MISSING:
            hook = hooks[id(definition)] = getattr(definition, "verify", None)
        if hook is not None:
            for diagnostic in hook(op):
                yield diagnostic if diagnostic.location is not None else replace(diagnostic, location=op.location)
        for inner in op.regions:
            yield from _ask_definitions(inner, hooks)
