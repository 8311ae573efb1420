"""Walking over a graph, what is defined where, sorting, and removing what nothing needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tilewright.errors import fail
from tilewright.ir.core import Graph, Op, Region, Value
from tilewright.ir.definition import has_side_effects, is_terminator


def walk(root: Graph | Region | Op, post: bool = False) -> Iterator[Op]:
    """Every op of `root` in text order: before the ops of its regions, or after them with `post`.

    The ops of a region are listed when the walk reaches it, so that the region may be edited during the walk.
    """
    if isinstance(root, Op):
        if not post:
            yield root
        for region in root.regions:
            yield from walk(region, post)
        if post:
            yield root
        return
    region = root.body if isinstance(root, Graph) else root
    for op in tuple(region.ops):
        if op.regions:
            yield from walk(op, post)
        else:
            yield op


def undefined_uses(graph: Graph) -> Iterator[tuple[Op, Value]]:
    """Every use of a value that is not defined at that point: (user, value), in text order.

    An inner region sees what is defined before it in the regions around it; what it defines ends with it.
    """
    defined = {*graph.inputs, *graph.declared}
    yield from _undefined_in(graph.body, defined, {graph.body})
    for value in graph.output_op.values():
        if value not in defined:
            yield graph.output_op, value


def _undefined_in(region: Region, defined: set[Value], open_regions: set[Region]) -> Iterator[tuple[Op, Value]]:
    """As `undefined_uses`, for one region; adds what the region defines to `defined`."""
    for op in region.ops:
        for value in op.values():
            if value not in defined:
                yield op, value
        for inner in op.regions:
            if inner in open_regions:  # a region inside itself: the verifier names it, here it must only end
                continue
            local = [v for v in _definitions(inner) if v not in defined]
            defined.update(inner.arguments)
            open_regions.add(inner)
            yield from _undefined_in(inner, defined, open_regions)
            open_regions.discard(inner)
            defined.difference_update(local)
        defined.update(op.results)


def _definitions(region: Region) -> Iterator[Value]:
    yield from region.arguments
    for op in region.ops:
        yield from op.results


def defined_before_use(graph: Graph) -> bool:
    """True when every use comes after its definition, in scope."""
    return next(undefined_uses(graph), None) is None


def topological_order(region: Region) -> list[Op]:
    """The ops of a region with definitions before uses and side effects in their present order.

    Stable: an order that already is right stays as it is. E218 when the ops depend on each other in a circle.
    """
    position = {op: index for index, op in enumerate(region.ops)}
    ancestor = _ancestor_in(region)
    needs: dict[Op, list[Op]] = {}
    last_effect: Op | None = None
    for op in region.ops:
        producers = (ancestor(value.producer) for user in walk(op) for value in user.values() if value.producer)
        needs[op] = sorted({p for p in producers if p is not None and p is not op}, key=position.__getitem__)
        if has_side_effects(op):
            if last_effect is not None:
                needs[op].append(last_effect)
            last_effect = op
    return _depth_first(region.ops, needs)


def _ancestor_in(region: Region) -> Callable[[Op], Op | None]:
    def find(op: Op) -> Op | None:
        at: Op | None = op
        while at is not None and at.parent is not region:
            at = at.parent.parent if at.parent is not None else None
        return at

    return find


def _depth_first(ops: Iterable[Op], needs: dict[Op, list[Op]]) -> list[Op]:
    done: dict[Op, None] = {}
    for root in ops:
        open_ops = {root: iter(needs[root])}  # insertion-ordered: the path from the root
        while open_ops:
            op, pending = next(reversed(open_ops.items()))
            need = next((n for n in pending if n not in done), None)
            if need is None:
                done[op] = None
                del open_ops[op]
            elif need in open_ops:
                raise fail("E218", f"{op.name} and {need.name} depend on each other", location=op.location)
            else:
                open_ops[need] = iter(needs[need])
    return list(done)


def sort_topologically(region: Region) -> None:
    """Put the ops of a region in `topological_order`."""
    region.ops[:] = topological_order(region)


def erase_all(ops: Iterable[Op]) -> None:
    """Erase ops, and all that stands in their regions, at once: linear where erasing one by one is not.

    Their results may be used only among themselves.
    """
    dead = {inner: None for op in ops for inner in walk(op)}
    regions = {op.parent: None for op in dead if op.parent is not None}
    values = {value: None for op in dead for value in op.values()}
    for op in dead:
        for value in op.results:
            outside = next((user for user in value.uses if user not in dead), None)
            assert outside is None, f"cannot erase {op.name}: its result {value} is used by {outside}"
    for value in values:
        value.uses = [op for op in value.uses if op not in dead]
    for region in regions:
        region.ops[:] = [op for op in region.ops if op not in dead]
    for op in dead:
        op.parent = None


def eliminate_dead_code(graph: Graph) -> int:
    """Erase every op that neither an output nor a side effect needs; says how many.

    A region's terminator is needed when the op around it is, and the op around a needed op is needed.
    """
    live: set[Op] = set()
    pending = [graph.output_op]
    pending += [op for op in walk(graph) if not op.regions and has_side_effects(op) and not is_terminator(op)]
    pending += [op for op in walk(graph) if op.regions and getattr(op.definition, "has_side_effects", False)]
    while pending:
        op = pending.pop()
        if op in live:
            continue
        live.add(op)
        pending += [value.producer for value in op.values() if value.producer is not None]
        if op.parent is not None and op.parent.parent is not None:
            pending.append(op.parent.parent)
        pending += [region.ops[-1] for region in op.regions if region.ops and is_terminator(region.ops[-1])]
    dead = [op for op in walk(graph) if op not in live]
    erase_all(dead)
    return len(dead)
