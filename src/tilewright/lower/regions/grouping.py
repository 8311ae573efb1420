"""Which ops share a loop nest: they are computed together, block of rows by block of rows, without leaving the chip.

Expects decomposed tensor IR. Decides groups, and the roles of dims in each. Ops that no block of rows can be computed
for by itself (gathers, sorts, reductions over the rows, ...) form no group; they are lowered one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from types import MappingProxyType

from tilewright.ir.core import OUTPUTS, Graph, Op, Value
from tilewright.lower.decisions import decided
from tilewright.lower.regions.checks import looks_up
from tilewright.lower.regions.even import splits_well
from tilewright.lower.regions.in_place import awaited
from tilewright.lower.regions.later_views import torn
from tilewright.lower.regions.long_rows import long_axis
from tilewright.lower.regions.roles import PRODUCTS, Roles, carried, operand_roles, row_count, seed_fits, seeds
from tilewright.lower.regions.softmax_product import find_softmax_product, has_few_queries, ops_after
from tilewright.lower.regions.stencils import Stencil, find_stencils
from tilewright.lower.regions.tall import (
    Tall,
    channels_of,
    is_worth_it,
    reductions_ahead,
    tall_of,
    tall_reads,
    tall_roles,
    upright_seeds,
)
from tilewright.lower.regions.totals import totals_of
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import is_view, reshaped_rows, trimmed


@dataclass(slots=True)
class Group:
    """Ops that share a loop nest; `roles` has every value that they compute."""

    ops: list[Op]
    roles: dict[Value, Roles]
    batch: tuple[int, ...]
    rows: int
    reads: dict[Value, None] = field(default_factory=dict)
    shared: list[Op] = field(default_factory=list)
    """Small ops without rows that only this group reads: computed on every partition, before the loops."""
    tall: Tall | None = None
    """Where all rows are in work at once: which they are."""
    others: list[tuple[Value, Roles, int]] = field(default_factory=list)
    """Groups that would have begun with the same op, with other dims of its result as rows: their numbers of ops."""

    stencil: Stencil | None = None
    """Where elements are read with their neighbours: which."""

    twins: list[Group] = field(default_factory=list)
    """The same ops with other dims as rows, which may take less time."""
    totals: list[Op] = field(default_factory=list)
    """What goes over all rows of what it makes and takes in block after block, with the views that this reads."""

    @property
    def inside(self) -> set[Op]:
        """All that it computes by blocks of rows."""
        return {*self.ops, *self.totals}

    @property
    def own(self) -> list[Op]:
        """Shared ops that nothing else reads."""
        inside = {*self.ops, *self.shared}
        return [op for op in self.shared if all(use in inside for use in op.result.uses)]

    @property
    def results(self) -> list[Value]:
        """Values that something outside of the group uses."""
        inside = self.inside
        return [op.result for op in self.ops if any(use not in inside for use in op.result.uses)]


MOVES = ("concatenate", "pad", "update_slice")
"""Ops that put data together without computing."""

CHANNELS = (1, 2)
"""The dim of a convolution's result that lies on partitions."""

Step = Group | Op
"""A group, or an op that is lowered by itself."""

NO_WAITS: Mapping[Op, Sequence[Value]] = MappingProxyType({})


def schedule(graph: Graph, lanes: int, room: int, patched: bool = False) -> list[Step]:
    """The program as steps in an order in which each finds its operands ready.

    room: elements per partition of PSUM that products over the rows of a group may take. patched: regions of neighbours
    are steps.
    """
    ready: set[Value] = {*graph.inputs, *(op.result for op in graph.ops if op.definition.family == "creation")}
    regions = [_region(stencil) for stencil in find_stencils(graph, lanes)] if patched else []
    return _steps_around(graph, regions, ready, lanes, room)


def schedule_around(graph: Graph, given: Sequence[Step], lanes: int, room: int, patched: bool = False) -> list[Step]:
    """The same where some steps are given, in their order: all others are found around them."""
    ready: set[Value] = {*graph.inputs, *(op.result for op in graph.ops if op.definition.family == "creation")}
    taken = {op for step in given for op in made_by(step)}
    regions = [_region(stencil) for stencil in find_stencils(graph, lanes)] if patched else []
    regions = [region for region in regions if taken.isdisjoint(region.inside)]
    return _steps_around(graph, regions, ready, lanes, room, given)


def _steps_around(
    graph: Graph, regions: Sequence[Step], ready: set[Value], lanes: int, room: int, given: Sequence[Step] = ()
) -> list[Step]:
    """Steps of a program around those that are decided; what is written in place comes by itself."""
    inside = {op for step in (*given, *regions) for op in made_by(step)}
    behind = {op: values for op, values in awaited(graph).items() if op not in inside}
    order = {
        op: i
        for i, op in enumerate(graph.ops)
        if op.definition.family != "creation" and op not in inside and op not in behind
    }
    steps = [*regions, *behind]
    return _steps(order, ready, lanes, set(), {}, regions=steps, room=room, given=given, behind=behind)


def groups_of(order: dict[Op, int], ops: Sequence[Op], ready: set[Value], lanes: int) -> list[Group]:
    """Groups that some ops alone can form, one for each layout and op to begin with.

    order: these and what may be computed for them on every partition, with their places in the program.
    """
    waiting = {op: {v for v in op.values() if v not in ready} for op in order}
    open_ = {op for op, missing in waiting.items() if _may_share(missing)}
    able = {op: i for op, i in order.items() if op in set(ops)}
    found: list[Group] = []
    for first in able:
        if first in open_ and len(first.results) == 1 and not is_view(first):
            found += [_grow(first, roles, able, ready, open_, lanes, is_given=True) for roles in seeds(first)]
            found += _around_reductions(first, able, ready, open_, lanes, is_given=True)
    return found


def _region(stencil: Stencil) -> Group:
    """A region of neighbours as a group: no dim of any value is rows."""
    roles = {op.result: Roles((0, 0)) for op in stencil.ops}
    rows = max(op.result.type.shape[0] for op in stencil.ops)
    reads = dict.fromkeys(stencil.reads)
    return Group(list(stencil.ops), roles, (), max(rows, 2), reads, stencil=stencil, totals=list(stencil.totals))


def subdivide(group: Group, lanes: int, alone: set[Op], room: int | None = None) -> list[Step]:
    """The ops of a group as steps of their own, those in `alone` each by itself; room: as `_steps` has it."""
    return _apart(group, lanes, [[*group.shared, *group.ops]], alone, room)


def totals_apart(group: Group, lanes: int) -> list[Step]:
    """A group, then what goes over its rows."""
    order = {op: i for i, op in enumerate(group.totals)}
    ready = {x for op in order for x in op.values() if x.producer not in order}
    return [replace(group, totals=[]), *_steps(order, ready, lanes, set(), {})]


def middle(group: Group) -> list[int]:
    """Where a group may be cut in two, each with a third of the work at least; nowhere where it has few ops."""
    makers = [i for i, op in enumerate(group.ops) if not is_view(op)]
    least = len(makers) // 3
    return makers[least : len(makers) - least] if least else []


def in_two(group: Group, lanes: int) -> list[Step]:
    """A group as two, cut where the fewest bytes pass from one to the other."""
    cut = min(middle(group), key=lambda i: _passing(group.ops[:i], group.ops[i:]))
    return _apart(group, lanes, [[*group.shared, *group.ops[:cut]], group.ops[cut:]], set())


def _passing(before: Sequence[Op], after: Sequence[Op]) -> int:
    """Bytes of what some ops make and others read."""
    made, read = set(before), dict[Value, None]()
    for op in after:
        for x in op.values():
            while x.producer is not None and is_view(x.producer):
                (x,) = x.producer.values()
            if x.producer in made:
                read[x] = None
    return sum(x.type.size * x.type.dtype.itemsize for x in read)


def _apart(group: Group, lanes: int, parts: list[list[Op]], alone: set[Op], room: int | None = None) -> list[Step]:
    """Steps for the ops of a group, those of each part after those of the one before."""
    ops = [op for part in parts for op in part]
    inside, others = set(ops), set(group.shared) - set(group.own)
    ready = {v for op in ops for v in op.values() if v.producer not in inside}
    order = {op: i for i, op in enumerate(ops)}
    steps: list[Step] = []
    for part in parts:
        some = {op: order[op] for op in part}
        steps += _steps(some, ready, lanes, alone, {}, may_be_tall=group.tall is None, room=room)
    # What is read elsewhere too is computed here only where a step reads it and does not compute it for itself.
    read = {v for step in steps for v in (step.reads if isinstance(step, Group) else step.values())}
    return [
        each for each in steps if not others.issuperset(_made_by(each)) or read & {op.result for op in _made_by(each)}
    ]


def _made_by(step: Step) -> list[Op]:
    return step.ops if isinstance(step, Group) else [step]


def made_by(step: Step) -> list[Op]:
    """All ops that a step computes, and nothing else does."""
    return [*step.own, *step.ops, *step.totals] if isinstance(step, Group) else [step]


def computed_by(step: Step) -> list[Op]:
    """All ops that a step computes, those that others compute for themselves too among them."""
    return [*step.shared, *step.ops, *step.totals] if isinstance(step, Group) else [step]


def needs(step: Step) -> list[Value]:
    """What has to be there before a step."""
    if isinstance(step, Op):
        return step.values()
    inside = set(made_by(step))
    beside = (v for op in step.totals for v in op.values() if v.producer not in inside)
    return [*dict.fromkeys((*step.reads, *beside))]


def _steps(
    order: dict[Op, int],
    ready: set[Value],
    lanes: int,
    alone: set[Op],
    lies: dict[Value, tuple[int, int]],
    may_be_tall: bool = True,
    regions: Sequence[Step] = (),
    room: int | None = None,
    given: Sequence[Step] = (),
    behind: Mapping[Op, Sequence[Value]] = NO_WAITS,
) -> list[Step]:
    """Steps for some ops; lies: the dims of a value that are rows where it was made; regions: steps that are given;
    room: for what goes over the rows of a group and comes with it, None: nothing does; given: further steps, in their
    order; behind: what steps have to wait for beside what they read."""
    waiting = {op: {v for v in op.values() if v not in ready} for op in order}
    able = [op for op, missing in waiting.items() if not missing]
    # Ops that could join a group without another member's result.
    open_ = {op for op, missing in waiting.items() if _may_share(missing)}
    steps: list[Step] = []
    joining: set[Op] = set()
    left, queue = list(regions), list(given)

    def is_ready(step: Step) -> bool:
        return ready.issuperset(needs(step)) and (isinstance(step, Group) or ready.issuperset(behind.get(step, ())))

    def begin(op: Op) -> Group | None:
        return _best_group(op, order, ready, lanes, alone, open_, lies, may_be_tall)

    while able or left or queue:
        region = next((each for each in (*queue[:1], *left) if is_ready(each)), None)
        if region is not None:
            steps.append(region)
            (queue if queue and region is queue[0] else left).remove(region)
            able += _made_ready([v for op in made_by(region) for v in op.results], ready, waiting, open_)
            able.sort(key=lambda op: order[op])
            continue
        # Views of what is ready cost nothing, and what reads them can join a group. What is put together of inputs by
        # itself is there before any group begins that reads it too. Then the smallest first: what is computed beside
        # the main work is ready when that reads it.
        views = (op for op in able if is_view(op))
        early = next(views, None) or next((op for op in able if _is_of_inputs(op) and op not in joining), None)
        first = early or min(able, key=lambda op: _urgency(op, ready))
        group = None if is_view(first) else _with_small(first, able, order, ready, begin) or begin(first)
        if group is not None and all(_only_moves(op) for op in group.ops):
            # Nothing is computed: transfers alone do it.
            group = None
        if early is not None and group is not None:
            # It joins what computes with it, in its turn.
            joining.add(first)
            continue
        before = set() if group is None else _awaited(group, order, ready, lanes)
        if before:
            decided("group: waits for a small operand")
            apart = {op: i for op, i in order.items() if op in before}
            steps += _steps(apart, ready, lanes, alone, lies, may_be_tall, room=room)
            taken = before
        else:
            if group is not None and room is not None:
                group.totals = totals_of(group, order, ready, lanes, room)
                # They go over the rows of this layout.
                group.twins = [] if group.totals else group.twins
            taken = {first} if group is None else {*group.inside, *group.own}
            steps.append(first if group is None else group)
            lies.update(_rows_made(steps[-1]))
        for op in taken:
            del waiting[op]
            del order[op]
        able = [op for op in able if op not in taken]
        able += _made_ready([v for op in taken for v in op.results], ready, waiting, open_)
        able.sort(key=lambda op: order[op])
    assert not order, "every op becomes ready"
    return steps


def _made_ready(fresh: Sequence[Value], ready: set[Value], waiting: dict[Op, set[Value]], open_: set[Op]) -> list[Op]:
    """Note that some values are there; the ops that have all they read by that."""
    ready.update(fresh)
    able: list[Op] = []
    for v in fresh:
        for use in v.uses:
            missing = waiting.get(use)
            if missing is None or v not in missing:
                continue
            missing.discard(v)
            if not missing:
                able.append(use)
            if _may_share(missing):
                open_.add(use)
    return able


def _with_small(
    op: Op, able: Sequence[Op], order: dict[Op, int], ready: set[Value], begin: Callable[[Op], Group | None]
) -> Group | None:
    """Where only small ops are left that others compute for themselves: a group that does, beginning with a reader."""
    if not _is_sharable(op):
        return None
    readers = [use for use in op.result.uses if use in order]
    ready_with = [use for use in readers if all(v in ready or v.producer in able for v in use.values())]
    groups = (begin(use) for use in sorted(set(ready_with), key=lambda use: order[use]))
    return next((group for group in groups if group is not None and op in group.shared), None)


def _is_of_inputs(op: Op) -> bool:
    """True for data that is put together from inputs of the program, or of parts of them, and that readers need as a
    whole: products, and whoever looks beyond the edges."""
    if op.name not in MOVES or not all(_is_input(x) for x in op.values()):
        return False
    return op.name == "pad" or _is_multiplied(op.result)


def _is_multiplied(x: Value) -> bool:
    """True where products alone read a value, beside who called the program."""
    readers = [use for use in x.uses if use.definition is not OUTPUTS]
    return all(use.name in PRODUCTS or (is_view(use) and _is_multiplied(use.result)) for use in readers)


def _is_input(x: Value) -> bool:
    return x.producer is None or (is_view(x.producer) and all(_is_input(y) for y in x.producer.values()))


def _awaited(group: Group, order: dict[Op, int], ready: set[Value], lanes: int) -> set[Op]:
    """What to compute before a group, so that readers of its results can join it: less than they read of the group."""
    if group.tall is not None:
        return set()
    found: set[Op] = set()
    together = _attention(group.ops[0], group, lanes)
    for user in dict.fromkeys(use for op in group.ops for use in op.result.uses if use in order):
        if len(user.results) != 1 or user.result in group.roles:
            continue
        missing = [v for v in user.values() if v not in ready and v not in group.roles]
        read = [v for v in user.values() if v in group.roles]
        much = max(sum(v.type.size for v in read), user.result.type.size)
        if not missing or sum(v.type.size for v in missing) >= much:
            continue
        makers = _makers(missing, ready)
        # Ops of the group that they are made of come first with them, where that is little too.
        apart = all(
            v.type.size * TUNING.few_makers <= much for op in makers.intersection(group.ops) for v in op.results
        )
        # What a region of neighbours makes comes when that can: it is no op of its own here.
        if makers <= order.keys() and apart and _join(user, group, {}, lanes, user in together) is not None:
            found |= makers
    return found


def _makers(values: list[Value], ready: set[Value]) -> set[Op]:
    """All ops that are left to do for some values."""
    found: set[Op] = set()
    work = list(values)
    while work:
        op = work.pop().producer
        if op is not None and op not in found:
            found.add(op)
            work += [v for v in op.values() if v not in ready]
    return found


def _rows_made(step: Step) -> dict[Value, tuple[int, int]]:
    """The dims that a step leaves on partitions, by result."""
    if isinstance(step, Group):
        return {} if step.tall is not None else {value: step.roles[value].rows for value in step.results}
    return {step.result: CHANNELS} if step.name == "conv" else {}


def _may_share(missing: set[Value]) -> bool:
    """True when all that is missing is so small that a reader may compute it for itself."""
    return all(v.producer is not None and _is_sharable(v.producer) for v in missing)


def _urgency(op: Op, ready: set[Value]) -> tuple[bool, bool, int]:
    """Small ops first, but those that their readers can compute for themselves, or with themselves, last of all."""
    return _is_sharable(op), _waits_for_right(op, ready), op.results[0].type.size


def _waits_for_right(op: Op, ready: set[Value]) -> bool:
    """True for an elementwise op whose rows a product multiplies: it joins that once the right operand is there."""
    if op.definition.family != "elementwise":
        return False
    products = [use for use in op.result.uses if use.name in PRODUCTS and use.operands[0] is op.result]
    return any(use.operands[1] not in ready and use.operands[1] is not op.result for use in products)


def _is_sharable(op: Op) -> bool:
    """True for a small op whose readers are larger and read it again for each of their rows."""
    if op.definition.family != "elementwise" or len(op.results) != 1 or op.result.type.size > TUNING.shared_elements:
        return False
    users = op.result.uses
    return bool(users) and all(
        use.definition is not OUTPUTS
        and use.definition.family == "elementwise"
        and use.result.type.size > op.result.type.size
        for use in users
    )


def _best_group(
    first: Op,
    order: dict[Op, int],
    ready: set[Value],
    lanes: int,
    alone: set[Op],
    open_: set[Op],
    lies: dict[Value, tuple[int, int]],
    may_be_tall: bool,
) -> Group | None:
    """The largest group that begins with an op; of equal ones the one whose rows fill the partitions best."""
    able = {} if first in alone else {op: i for op, i in order.items() if op not in alone} if alone else order
    found = [_grow(first, roles, {first: 0, **able} if alone else able, ready, open_, lanes) for roles in seeds(first)]
    if may_be_tall and first not in alone:
        found += _around_reductions(first, able, ready, open_, lanes)
    found = [group for group in found if _has_all(first, group, ready)]
    quick = sorted(_without_slow(found, lanes, lies), key=lambda group: _merit(group, lanes, lies), reverse=True)
    best = quick[0] if quick else None
    if best is not None:
        same = [each for each in quick[1:] if each.ops == best.ops and each.tall is None]
        most = _torn(best, lanes)
        same = [each for each in same if each.rows >= lanes or _torn(each, lanes) < most]
        best.twins = [] if best.tall is not None else same[: TUNING.twins]
        # A group around a reduction may do without the op that it was looked for from.
        others = [each for each in found if each is not best and first.result in each.roles]
        best.others = [(first.result, each.roles[first.result], len(each.ops)) for each in others]
    return best


def _torn(group: Group, lanes: int) -> int:
    """Elements of its results that later views bring to other rows by way of HBM."""
    return sum(torn(value, group.roles[value].rows, lanes) for value in group.results if value in group.roles)


def _has_all(first: Op, group: Group, ready: set[Value]) -> bool:
    """True where a group has what its first op reads, be it on every partition."""
    missing = [v for v in first.values() if v not in ready]
    if missing and (first.result not in group.roles or (group.tall is not None and group.tall.channels > 1)):
        return False
    return all(_is_same_for_all(v, first, group.roles[first.result], group) for v in missing)


def _without_slow(groups: list[Group], lanes: int, lies: dict[Value, tuple[int, int]]) -> list[Group]:
    """Groups that leave out none of the work to speak of and take not much longer for all of it than another one.

    Estimates are rough: of those that are left, the one that computes more decides.
    """
    union = {op for group in groups for op in group.ops if not is_view(op)}
    times = [_takes(group, union, lanes) + _moving(group, lanes, lies) for group in groups]
    return [group for group, time in zip(groups, times, strict=True) if time <= TUNING.rough * min(times)]


def _takes(group: Group, union: set[Op], lanes: int) -> float:
    """About how long all ops take, in elements per partition, where a group computes some of them.

    The others are computed by all partitions, products by as many as they have rows, and what they share with the group
    is moved between.
    """
    inside = set(group.ops)
    used = _partitions(group, lanes)
    time, moved = float(TUNING.block_cost * _blocks(group, lanes, from_chip=False)), dict[Value, None]()
    for op in union:
        size = max(v.type.size for v in (op.result, *op.values())) if _reduces(op) else op.result.type.size
        rows = min(op.result.type.shape[-2], lanes) if op.name in PRODUCTS else lanes
        time += size / (min(used, rows) if op in inside else rows)
        for v in op.values():
            if v.producer in union and (v.producer in inside) != (op in inside):
                moved[v] = None
    return time + sum(TUNING.block_cost + TUNING.moved_cost * v.type.size / lanes for v in moved)


def _partitions(group: Group, lanes: int) -> float:
    """How many partitions are at work on average, where a group is computed."""
    if group.tall is not None:
        return lanes
    axis = long_axis(group)
    if axis is not None and axis.back == 1 and splits_well(axis.size, group.rows, lanes):
        return lanes
    return group.rows / -(-group.rows // lanes)


def _around_reductions(
    first: Op, order: dict[Op, int], ready: set[Value], open_: set[Op], lanes: int, is_given: bool = False
) -> Iterator[Group]:
    """Groups that begin with an op and reach over reductions of dims which come first."""
    ahead = reductions_ahead(first)
    for tall in dict.fromkeys(found for op in ahead for found in (channels_of(op, lanes), tall_of(op, lanes))):
        roles = None if tall is None else tall_roles(first, tall, {})
        if tall is None or roles is None or tall_reads_apart(first, tall, {}):
            continue
        group = _grow(first, roles, order, ready, open_, lanes, tall, is_given)
        if is_worth_it(group.ops, group.roles, tall):
            yield group
    for own in dict.fromkeys(roles for op in ahead for roles in upright_seeds(op)):
        roles = carried(first, {first.operands[0]: own}) if first in ahead else own
        if roles is not None and (first in ahead or seed_fits(first, roles)):
            yield _grow(first, roles, order, ready, open_, lanes, is_given=is_given)


def tall_reads_apart(op: Op, tall: Tall, known: dict[Value, Roles]) -> bool:
    """True when neighbours of an operand from outside would go to different partitions one by one."""
    for x, roles in tall_reads(op, tall, known).items():
        dim = _dense_dim(x)[1]
        if dim is not None and roles.rows[0] <= dim < roles.rows[1] and tall.rows < x.type.size:
            return True
    return False


def _merit(group: Group, lanes: int, lies: dict[Value, tuple[int, int]]) -> tuple[float, ...]:
    """More ops first, then less time: blocks of rows, each with a fixed part and its elements per partition; what lies
    otherwise is brought there."""
    computing = sum(not is_view(op) for op in group.ops)
    first = group.ops[0].result
    rows, batch = max(group.rows, 1), max(prod(group.batch), 1)
    # A reduction reads more than it makes.
    size = (
        max(first.type.size, *(v.type.size for v in group.ops[0].values()))
        if _reduces(group.ops[0])
        else first.type.size
    )
    free = max(size // (rows * batch), 1)
    blocks = _blocks(group, lanes)
    if blocks == batch:
        free *= -(-rows // lanes)
    time = -blocks * (TUNING.block_cost + free) - _moving(group, lanes, lies)
    spread = -len(group.roles[first].batch), min(group.rows, lanes)
    return computing, _suits_searches(group), time, _suits_products(group), *spread


def _blocks(group: Group, lanes: int, from_chip: bool = True) -> int:
    """How many blocks of rows a group has, about, where some of what it reads may be on chip."""
    # Several rows per partition are possible where everything comes from HBM and nothing but elements is computed, or
    # looked up.
    given = all(v.producer is None or v.producer.name in ("full", "constant") for v in group.reads)
    others = [op for op in group.ops if op.definition.family != "elementwise"]
    plain = given or not from_chip if not others else given and all(op.name == "take" and looks_up(op) for op in others)
    each = 1 if plain or group.tall is not None else -(-max(group.rows, 1) // lanes)
    return each * max(prod(group.batch), 1)


def _moving(group: Group, lanes: int, lies: dict[Value, tuple[int, int]]) -> float:
    """About how long it takes to bring what lies otherwise on chip to where a group reads it, per partition."""
    if group.tall is not None:
        return 0.0
    read: dict[Value, Roles] = {}
    for op in group.ops:
        read.update(rows_read(op, group.roles[op.result]))
    moved = sum(v.type.size for v, roles in read.items() if v in lies and lies[v] != roles.rows)
    return TUNING.moved_cost * moved / lanes


def _suits_products(group: Group) -> int:
    """How many products find a result as they read their right operand: with the contracted dim on partitions."""
    found = [(v, own) for v in group.results for own in (v, *_parts(v)) for use in own.uses if _is_right(use, own)]
    return sum(group.roles[v].rows == (v.type.rank - 2, v.type.rank - 1) for v, _ in found)


def _parts(x: Value) -> list[Value]:
    return [use.result for use in x.uses if use.name == "slice"]


def _is_right(op: Op, x: Value) -> bool:
    return op.name in PRODUCTS and op.operands[1] is x


def _suits_searches(group: Group) -> int:
    """How many searches for the best, which no group computes, find a result as they read it: by rows of the axis."""
    found = [(v, use.attrs["axis"]) for v in group.results for use in v.uses if use.name == "topk"]
    return sum(group.roles[v].is_free(a) and group.rows * v.type.shape[a] == v.type.size for v, a in found)


def _reduces(op: Op) -> bool:
    return op.definition.family in ("reduction", "scan")


def _grow(
    first: Op,
    roles: Roles,
    order: dict[Op, int],
    ready: set[Value],
    open_: set[Op],
    lanes: int,
    tall: Tall | None = None,
    is_given: bool = False,
) -> Group:
    """The group that begins with an op: its readers that can join, their readers, and what reads the same rows.

    is_given: it is to have all of them, whether that is worth it or not.
    """
    shape = first.result.type.shape
    batch = tuple(shape[d] for d in roles.batch)
    count = row_count(shape, roles) if tall is None else tall.rows
    group = Group([first], {first.result: roles}, batch, count, tall=tall)
    # Small enough that it computes them for itself.
    group.shared = list(dict.fromkeys(v.producer for v in first.values() if v not in ready and v.producer is not None))
    rows = rows_read(first, roles) if tall is None else tall_reads(first, tall, {})
    tried: set[Op] = set()
    together = _attention(first, group, lanes)
    work = _neighbours(first, rows, order, open_)

    def joined(op: Op, fresh: dict[Value, Roles], beside: Sequence[Value]) -> list[Op]:
        """What to try after an op has joined; what was tried is tried again only when what it reads has changed."""
        changed = [op.result, *beside, *(v for v, roles in fresh.items() if rows.get(v) != roles)]
        rows.update(fresh)
        again = {use for v in changed for use in v.uses if use in tried}
        tried.difference_update(again)
        return sorted({*work, *_neighbours(op, fresh, order, open_), *again} - {op}, key=lambda each: order[each])

    while work:
        op = work.pop(0)
        if op.results[0] in group.roles or op in group.shared or op in tried:
            continue
        missing = [v.producer for v in op.values() if v not in ready and v not in group.roles]
        if not all(
            p in group.shared or (p is not None and _is_sharable(p) and all(v in ready for v in p.values()))
            for p in missing
        ):
            # A producer that can be computed row by row as well is pulled in; then its readers are tried again.
            pulled = {} if tall is not None else _pulled(op, group, order, ready, rows, lanes)
            for p, made in pulled.items():
                group.roles[p.result] = made
                work = joined(p, rows_read(p, made), ())
            continue
        if missing and tall is not None and tall.channels > 1:
            # They would be on every partition, where each has but its own channel.
            continue
        made = _join(op, group, rows, lanes, op in together)
        if made is None or not all(_is_same_for_all(v, op, made, group) for v in op.values() if v.producer in missing):
            tried.add(op)
            continue
        shared = [p for p in dict.fromkeys(missing) if p is not None and p not in group.shared]
        group.shared += shared
        group.roles[op.result] = made
        fresh = rows_read(op, made) if tall is None else tall_reads(op, tall, group.roles)
        work = joined(op, fresh, [p.result for p in shared])
    group.ops = sorted((v.producer for v in group.roles if v.producer is not None), key=lambda op: order[op])
    _trim(group, is_given)
    inside = set(group.ops)
    # What something else reads as well is not this group's alone.
    group.shared = [op for op in group.shared if any(use in inside for use in op.result.uses)]
    made_here = {op.result for op in group.shared}
    for op in (*group.ops, *group.shared):
        group.reads.update(dict.fromkeys(v for v in op.values() if v not in group.roles and v not in made_here))
    return group


def _pulled(
    op: Op, group: Group, order: dict[Op, int], ready: set[Value], shared: dict[Value, Roles], lanes: int
) -> dict[Op, Roles]:
    """Producers of what an op lacks to join a group, with their roles, where all of them can join it before."""
    made = _join(op, group, shared, lanes) if any(v in group.roles for v in op.values()) else None
    if made is None:
        return {}
    found: dict[Op, Roles] = {}
    # What is put together of much more than the group has is work of its own, perhaps for other rows.
    most = max(v.type.size for v in group.roles)
    work = [(v, op, made) for v in op.values()]
    while work:
        value, reader, roles = work.pop()
        p = value.producer
        if value in ready or value in group.roles or p in found:
            if (p in found and found[p] != _read_as(value, reader, roles)) or not _is_left(value, reader, ready):
                return {}
            continue
        own = _read_as(value, reader, roles)
        if p is None or p not in order or own is None or not _can_be_pulled(p, own) or reads_apart(p, own, group):
            return {}
        if p.name in PRODUCTS and _blocks(group, lanes) == 1:
            # All rows are in work at once: what it gives stays on chip in any case.
            return {}
        if p.name in MOVES and value.type.size > most:
            return {}
        found[p] = own
        work += [(v, p, own) for v in p.values()]
    # Members are read as they lie: a row of the one may be a column of the other.
    known = {**group.roles, **{p.result: own for p, own in found.items()}}
    fits = (carried(p, known) == own for p, own in found.items() if any(v in known for v in p.values()))
    return found if all(fits) else {}


def _is_left(value: Value, reader: Op, ready: Container[Value]) -> bool:
    """False for a right operand of a product that is not there before: all rows read all of it."""
    return reader.name not in PRODUCTS or value in ready or value is not reader.operands[1]


def _can_be_pulled(op: Op, roles: Roles) -> bool:
    """True for what is computed row by row with these roles of its result."""
    if op.name in PRODUCTS:
        return roles in seeds(op)
    if op.definition.family == "elementwise" or op.name in MOVES:
        return seed_fits(op, roles)
    return op.name in ("reshape", "slice") or (_reduces(op) and roles in seeds(op))


def _read_as(value: Value, reader: Op, roles: Roles) -> Roles | None:
    """The roles of an operand that is read row by row, given those of the result; None for others."""
    if _reduces(reader):
        return operand_roles(reader, roles)
    if reader.name == "reshape":
        rows = None if roles.batch else reshaped_rows(reader.result.type.shape, roles.rows, value.type.shape)
        return None if rows is None else Roles(trimmed(value.type.shape, rows))
    left = reader.name in PRODUCTS and value is reader.operands[0] and value is not reader.operands[1]
    by_rows = left or reader.definition.family == "elementwise" or reader.name in (*MOVES, "slice")
    if not by_rows or value.type.rank != reader.result.type.rank:
        return None
    rows, batch = (roles.rows, roles.batch)
    same = all(value.type.shape[d] == reader.result.type.shape[d] for d in (*range(*rows), *batch))
    return roles if same else None


def _is_same_for_all(x: Value, op: Op, roles: Roles, group: Group) -> bool:
    """True for an operand that every row of every block reads as a whole."""
    if group.rows == 1:
        return False
    by = op.result.type.rank - x.type.rank
    return all(d < by or x.type.shape[d - by] == 1 for d in (*range(*roles.rows), *roles.batch))


def _neighbours(op: Op, rows: dict[Value, Roles], order: dict[Op, int], open_: set[Op]) -> list[Op]:
    """Readers of an op's result, and of what it reads by rows, that are not lowered yet, in the program's order."""
    found = {use for v in op.results for use in v.uses if use in order and use is not op}
    found |= {use for v in rows for use in v.uses if use in open_ and use in order and use is not op}
    return sorted((use for use in found if len(use.results) == 1), key=lambda each: order[each])


def _attention(first: Op, group: Group, lanes: int) -> set[Op]:
    """The ops of an attention of a few queries that begins here: however few they are, the keys fill the partitions."""
    if first.name not in PRODUCTS or group.rows > TUNING.few_queries or first.result.type.shape[-1] < TUNING.many_keys:
        return set()
    whole = Group(ops_after(first), group.roles, group.batch, group.rows)
    found = find_softmax_product(whole, lanes) if whole.ops else None
    return set(whole.ops) if found is not None and has_few_queries(whole, found) else set()


def _join(op: Op, group: Group, shared: dict[Value, Roles], lanes: int, together: bool = False) -> Roles | None:
    """The roles of an op's result in a group, or None where it cannot join."""
    if group.tall is not None:
        if tall_reads_apart(op, group.tall, group.roles) or (is_view(op) and op.operands[0] not in group.roles):
            return None
        return tall_roles(op, group.tall, group.roles)
    if any(v in group.roles for v in op.values()):
        made = carried(op, group.roles)
    else:
        # A sibling: it reads rows that a member reads as well, in the same way.
        wanted = [r for r in seeds(op) if any(shared.get(v) == s for v, s in rows_read(op, r).items())]
        made = wanted[0] if wanted and not is_view(op) and op.name not in MOVES else None
    if made is None or op.result.type.size == 0:
        return None
    shape = op.result.type.shape
    same = row_count(shape, made) == group.rows and tuple(shape[d] for d in made.batch) == group.batch
    # A few partitions would be long at work that many could share.
    narrow = (
        group.rows < TUNING.few_rows and op.result.type.size > TUNING.much_work and not is_view(op) and not together
    )
    # Unless each row lies across many of them.
    is_row = not made.batch and made.free_dims(len(shape)) == [len(shape) - 1]
    if narrow and is_row and op.definition.family in ("elementwise", "scan"):
        narrow = not (op.result.type.dtype.is_float and splits_well(shape[-1], group.rows, lanes))
    return made if same and not narrow and not reads_apart(op, made, group) else None


def reads_apart(op: Op, roles: Roles, group: Group) -> bool:
    """True when a large operand from outside would be loaded element by element: neighbours go to different rows."""
    if op.name in PRODUCTS:
        return False
    for x, own in rows_read(op, roles).items():
        if x in group.roles or x.type.size <= TUNING.few_elements:
            continue
        base, dim = _dense_dim(x)
        apart = dim is not None and own.rows[0] <= dim < own.rows[1] and row_count(x.type.shape, own) < x.type.size
        if apart and base.producer is None:
            return True
    return False


def _dense_dim(x: Value) -> tuple[Value, int | None]:
    """What a value is a view of, and its dim whose elements are neighbours in memory, as far as transposes tell."""
    perms: list[tuple[int, ...]] = []
    while x.producer is not None and x.producer.name == "transpose":
        perms.append(x.producer.attrs["perm"])
        x = x.producer.operands[0]
    dim = next((d for d in reversed(range(x.type.rank)) if x.type.shape[d] != 1), None)
    for perm in reversed(perms):
        dim = None if dim is None else perm.index(dim)
    return x, dim


def _only_moves(op: Op) -> bool:
    """True for an op that transfers alone do."""
    return op.name in MOVES or is_view(op) or (op.name == "take" and not looks_up(op))


def rows_read(op: Op, roles: Roles) -> dict[Value, Roles]:
    """Operands from outside that are read by blocks of rows, with their roles."""
    if op.definition.family in ("reduction", "scan") and len(op.operands) == 1:
        return {op.operands[0]: operand_roles(op, roles)}
    if op.name == "take":
        return {op.operands[1]: roles}
    rank = op.result.type.rank
    operands = op.operands[:1] if op.name in PRODUCTS else op.operands
    found: dict[Value, Roles] = {}
    for x in operands:
        if isinstance(x, Value) and x.type.rank == rank and row_count(x.type.shape, roles) > 1:
            found[x] = roles
    return found


def _only_grow(group: Group, last: list[Op]) -> Iterator[Op]:
    """Large results that are made of less, element by element, and that others read so as well: they make them
    themselves, of the little that they are made of."""
    if group.tall is not None:
        return
    # The fewest elements of the group's values that others can make a value of.
    made_of: dict[Value, int] = {group.ops[0].result: group.ops[0].result.type.size}
    for op in group.ops[1:]:
        size = op.result.type.size
        if op.definition.family == "elementwise" or is_view(op):
            own = [v for v in dict.fromkeys(op.values()) if v in made_of]
            size = min(size, sum(made_of[v] if len(v.uses) == 1 else v.type.size for v in own))
        made_of[op.result] = size
    for op in last:
        readers = op.result.uses
        by_element = op.definition.family == "elementwise" and all(
            use.results and (use.definition.family == "elementwise" or _reduces(use)) for use in readers
        )
        size = op.result.type.size
        if by_element and (max(made_of[op.result], TUNING.few_elements) < size or _is_made_of_kept(op, group)):
            yield op


def _is_made_of_kept(op: Op, group: Group) -> bool:
    """True for a large value that only one op reads, made of what others read besides, which is there for it anyway."""
    if len(op.result.uses) != 1 or op.result.type.size <= TUNING.few_elements:
        return False
    inside, work = set(group.ops), [op]
    while work:
        made = [v for v in work.pop().values() if v in group.roles]
        for v in made:
            if all(use in inside for use in v.uses):
                if v.producer is None or v.producer.name != "cast" or len(v.uses) != 1:
                    return False
                work.append(v.producer)
        if not made:
            return False
    return True


def _trim(group: Group, is_given: bool) -> None:
    """Views at the end that nothing inside uses are left to their readers, and so is what only grows there."""
    while True:
        inside = set(group.ops)
        last = [op for op in group.ops[1:] if not any(use in inside for use in op.result.uses)]
        idle = [*(op for op in last if is_view(op)), *(() if is_given else _only_grow(group, last))]
        if not idle:
            return
        group.ops = [op for op in group.ops if op not in idle]
        for op in idle:
            del group.roles[op.result]
