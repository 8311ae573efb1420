"""The SSA core both IRs are made of: values, ops, regions, graphs. It knows no op by name.

A `Value` is defined once: by an op (its `producer`), as an argument of a region, or by the header of a graph. An `Op`
is a definition with operands, results, attributes and regions. Uses are recorded while an op stands in a region, so an
eager front end may create ops, run them and never pay for bookkeeping.

An operand is a `Value`, a plain constant (None, bool, int, float, str, tuple) or any object with the two methods of
`Operand`, such as a strided view whose offset depends on loop indices.

Cost is kept in view: an op without results takes about 100 bytes beyond its operand tuple and its attributes, and
attributes may be shared (they are never changed in place: assign `op.attrs = {**op.attrs, "name": value}`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tilewright.errors import Location

CONSTANTS: frozenset[type] = frozenset({type(None), bool, int, float, str, tuple})
"""Classes of operands that hold no values."""

_SEARCH_BACK = 32

NO_ATTRS: Mapping[str, Any] = MappingProxyType({})


class Operand(Protocol):
    """What an operand other than a constant can do. A `Value` is its own trivial operand."""

    def values(self) -> tuple[Value, ...]:
        """Every value the operand refers to, one entry per occurrence."""
        ...

    def substitute(self, mapping: Mapping[Value, Any]) -> Any:
        """The operand with the values of `mapping` replaced; itself when none occurs."""
        ...


class OpDef(Protocol):
    """What the core needs from a definition; `tilewright.ir.definition` lists the hooks it looks for besides."""

    @property
    def name(self) -> str: ...


class Shower(Protocol):
    """What `str(graph)` needs: a dialect."""

    def show(self, graph: Graph) -> str: ...


class Value:
    """A value of any type. `uses` holds one op per use, in the order of registration, duplicates included."""

    __slots__ = ("_near", "name", "producer", "type", "uses")

    def __init__(self, type: Any, name: str | None = None) -> None:
        self.type = type
        self.name = name
        self.producer: Op | None = None
        self.uses: list[Op] = []
        self._near = 0  # where the last use was removed

    def values(self) -> tuple[Value, ...]:
        """The operand protocol: a value refers to itself."""
        return (self,)

    def substitute(self, mapping: Mapping[Value, Any]) -> Any:
        """The operand protocol: the replacement of this value, or itself."""
        return mapping.get(self, self)

    def remove_use(self, op: Op) -> None:
        """Take one entry of `op` out of `uses`.

        Passes go through a kernel in one direction, and a buffer may have as many uses as the kernel has instructions:
        the search starts where the last one ended.
        """
        uses = self.uses
        if uses[-1] is op:
            uses.pop()
            return
        try:
            at = uses.index(op, max(self._near - _SEARCH_BACK, 0))
        except ValueError:
            at = uses.index(op)
        del uses[at]
        self._near = at

    def fresh(self) -> Value:
        """A new value like this one, without producer and uses. Subclasses with fields of their own override it."""
        return Value(self.type, self.name)

    def replace_all_uses(self, new: Any, keep: Op | None = None) -> None:
        """Make every user read `new` (a value or another operand) instead, except the op `keep`."""
        if new is self:
            return
        users = dict.fromkeys(self.uses)
        kept = [] if keep is None else [op for op in self.uses if op is keep]
        self.uses = kept
        mapping: dict[Value, Any] = {self: new}
        for op in users:
            if op is not keep:
                op._substitute(mapping, forgotten=self)

    def __repr__(self) -> str:
        return f"<%{self.name or '?'}: {self.type}>"


def values_of(operand: Any) -> tuple[Value, ...]:
    """The values an operand refers to: none for a constant."""
    return () if operand.__class__ in CONSTANTS else operand.values()


class Op:
    """An operation: a definition applied to operands. Creating one registers nothing; `Region.append` does."""

    __slots__ = ("attrs", "definition", "location", "operands", "parent", "regions", "results")

    def __init__(
        self,
        definition: Any,
        operands: Iterable[Any] = (),
        results: Iterable[Value] = (),
        attrs: Mapping[str, Any] | None = None,
        regions: Iterable[Region] = (),
        location: Location | None = None,
    ) -> None:
        self.definition = definition
        self.operands: tuple[Any, ...] = tuple(operands)
        self.results: tuple[Value, ...] = tuple(results) if results else ()
        self.attrs: Mapping[str, Any] = attrs or NO_ATTRS
        self.regions: tuple[Region, ...] = tuple(regions) if regions else ()
        self.location = location
        self.parent: Region | None = None
        for value in self.results:
            assert value.producer is None, f"{value} already is a result of {value.producer}"
            value.producer = self
        for region in self.regions:
            assert region.parent is None and region.graph is None, "a region belongs to one op"
            region.parent = self

    @property
    def name(self) -> str:
        """The name of the definition."""
        return self.definition.name

    @property
    def result(self) -> Value:
        """The only result."""
        assert len(self.results) == 1, f"{self.name} has {len(self.results)} results, not one"
        return self.results[0]

    def values(self) -> list[Value]:
        """The values of all operands, one entry per occurrence: what this op adds to use-lists."""
        found: list[Value] = []
        for operand in self.operands:
            if operand.__class__ not in CONSTANTS:
                found += operand.values()
        return found

    def replace_operands(self, operands: Iterable[Any]) -> None:
        """Give the op other operands, and its region's use-lists the difference."""
        new = tuple(operands)
        if self.parent is not None:
            before = [value for operand in self.operands for value in values_of(operand)]
            after = [value for operand in new for value in values_of(operand)]
            self._move_uses(before, after, None)
        self.operands = new

    def replace_operand(self, index: int, operand: Any) -> None:
        """Give the op another operand at `index`."""
        new = list(self.operands)
        new[index] = operand
        self.replace_operands(new)

    def erase(self) -> None:
        """Take the op, with what stands in its regions, out of its region. Refused while a result is used."""
        for value in self.results:
            assert not value.uses, f"cannot erase {self.name}: its result {value} is used by {value.uses[0].name}"
        self.detach()
        self.drop_inner_uses()

    def detach(self) -> None:
        """Take the op out of its region, results and inner ops kept, so that it can be put elsewhere."""
        if self.parent is None:
            return
        ops = self.parent.ops
        del ops[-1 if ops[-1] is self else ops.index(self)]
        self.unregister()

    def register(self, region: Region) -> None:
        """Belong to `region` and enter its use-lists; the caller lists the op in `region.ops`."""
        assert self.parent is None, f"{self} already stands in a region"
        self.parent = region
        for operand in self.operands:
            if operand.__class__ in CONSTANTS:
                continue
            for value in operand.values():
                value.uses.append(self)

    def unregister(self) -> None:
        """Undo `register`; the caller takes the op out of its region's list."""
        self.parent = None
        for value in self.values():
            value.remove_use(self)

    def drop_inner_uses(self) -> None:
        """Unregister what the ops of this op's regions use; part of erasing it."""
        for region in self.regions:
            for op in region.ops:
                op.unregister()
                op.drop_inner_uses()
            region.ops.clear()

    def _substitute(self, mapping: Mapping[Value, Any], forgotten: Value) -> None:
        """Substitute in every operand; `forgotten` no longer lists this op, so that only additions are made to it."""
        changed = list(self.operands)
        for index, operand in enumerate(changed):
            # Most operands are other values: an op may have thousands, which are replaced one after the other.
            if operand.__class__ is Value and operand not in mapping:
                continue
            if operand.__class__ in CONSTANTS:
                continue
            new = operand.substitute(mapping)
            if new is not operand:
                self._move_uses(list(operand.values()), list(values_of(new)), forgotten)
                changed[index] = new
        self.operands = tuple(changed)

    def _move_uses(self, before: list[Value], after: list[Value], forgotten: Value | None) -> None:
        """Register `after` and unregister `before`, touching only their difference."""
        for value in after:
            if value in before and value is not forgotten:
                before.remove(value)
            else:
                value.uses.append(self)
        for value in before:
            if value is not forgotten:
                value.remove_use(self)

    def __repr__(self) -> str:
        return f"<{self.name} at {self.location}>" if self.location else f"<{self.name}>"


class Region:
    """Ops in order, with arguments such as a loop index. Belongs to an op, or is the body of a graph."""

    __slots__ = ("arguments", "graph", "ops", "parent")

    def __init__(self, arguments: Iterable[Value] = ()) -> None:
        self.arguments: list[Value] = list(arguments)
        self.ops: list[Op] = []
        self.parent: Op | None = None
        self.graph: Graph | None = None

    def append(self, op: Op) -> Op:
        """Put an op at the end and register its uses."""
        op.register(self)
        self.ops.append(op)
        return op

    def extend(self, ops: Iterable[Op]) -> None:
        """Append several ops."""
        for op in ops:
            self.append(op)

    def insert(self, index: int, op: Op) -> Op:
        """Put an op at a position and register its uses."""
        op.register(self)
        self.ops.insert(index, op)
        return op

    def insert_before(self, anchor: Op, op: Op) -> Op:
        """Put an op right before `anchor`, which stands in this region."""
        return self.insert(self.ops.index(anchor), op)

    def insert_after(self, anchor: Op, op: Op) -> Op:
        """Put an op right after `anchor`, which stands in this region."""
        return self.insert(self.ops.index(anchor) + 1, op)

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    def __len__(self) -> int:
        return len(self.ops)

    def __repr__(self) -> str:
        return f"<region of {len(self.ops)} ops>"


class _Outputs:
    """The definition of the pseudo-op that holds a graph's outputs, so that use-lists know them."""

    __slots__ = ()
    name = "outputs"
    has_side_effects = True


OUTPUTS = _Outputs()


class Graph:
    """A function: inputs, a body, outputs.

    An output is a value of the body, an input, or a value that only the header declares (a result buffer the body
    writes to). Outputs are the operands of `output_op`, which stands after the body's last op without being listed in
    it: replacing all uses of a value also replaces it as an output, and an output is never unused.
    """

    __slots__ = ("attrs", "body", "dialect", "location", "name", "output_op")

    def __init__(
        self,
        name: str,
        inputs: Iterable[Value] = (),
        outputs: Iterable[Value] = (),
        attrs: Mapping[str, Any] | None = None,
        dialect: Shower | None = None,
        location: Location | None = None,
    ) -> None:
        self.name = name
        self.body = Region(inputs)
        self.body.graph = self
        self.attrs: Mapping[str, Any] = attrs or NO_ATTRS
        self.dialect = dialect
        self.location = location
        self.output_op = Op(OUTPUTS, outputs)
        self.output_op.register(self.body)

    @property
    def inputs(self) -> list[Value]:
        """The arguments of the body."""
        return self.body.arguments

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values the graph returns, in order; assign to change them."""
        return self.output_op.operands

    @outputs.setter
    def outputs(self, values: Sequence[Value]) -> None:
        self.output_op.replace_operands(values)

    @property
    def declared(self) -> tuple[Value, ...]:
        """Outputs that only the header declares: neither an input nor a result of the body."""
        known = set(self.inputs)
        return tuple(dict.fromkeys(v for v in self.outputs if v.producer is None and v not in known))

    @property
    def ops(self) -> list[Op]:
        """The ops of the body (not those inside their regions: see `walk`)."""
        return self.body.ops

    def append(self, op: Op) -> Op:
        """Put an op at the end of the body."""
        return self.body.append(op)

    def clone(self) -> Graph:
        """A copy that shares only types, attributes, locations and definitions."""
        mapping: dict[Value, Any] = {}
        inputs = [_copy_value(value, mapping) for value in self.inputs]
        for value in self.declared:
            _copy_value(value, mapping)
        graph = Graph(self.name, inputs, (), self.attrs, self.dialect, self.location)
        clone_ops(self.body.ops, graph.body, mapping)
        graph.outputs = [mapping[value] for value in self.outputs]
        return graph

    def __str__(self) -> str:
        return repr(self) if self.dialect is None else self.dialect.show(self)

    def __repr__(self) -> str:
        return f"<graph {self.name} of {len(self.ops)} ops>"


def clone_ops(ops: Iterable[Op], region: Region, mapping: dict[Value, Any]) -> None:
    """Append copies of `ops` to `region`; `mapping` replaces outer values and learns the new ones."""
    for op in ops:
        region.append(clone_op(op, mapping))


def clone_op(op: Op, mapping: dict[Value, Any]) -> Op:
    """A detached copy of an op and of its regions; `mapping` replaces outer values and learns the new ones."""
    operands = [x if x.__class__ in CONSTANTS else x.substitute(mapping) for x in op.operands]
    regions: list[Region] = []
    for region in op.regions:
        copy = Region(_copy_value(value, mapping) for value in region.arguments)
        clone_ops(region.ops, copy, mapping)
        regions.append(copy)
    results = [_copy_value(value, mapping) for value in op.results]
    return Op(op.definition, operands, results, op.attrs, regions, op.location)


def _copy_value(value: Value, mapping: dict[Value, Any]) -> Value:
    copy = mapping[value] = value.fresh()
    assert copy.__class__ is value.__class__, f"{type(value).__name__} must override fresh()"
    return copy
