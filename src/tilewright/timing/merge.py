"""What the compiler may leave out, and how long the kernel takes without it.

The compiler is known to remove loads of data that is already on chip and to merge copies; when it does is not known. So
the kernel is replayed a second time without them, which gives the other end of what to expect. Left out are

- loads of a part of a tensor in HBM that was loaded before in the same form and not written since, while the earlier
  copy is unchanged in SBUF: it is still in use, or there would have been room to keep it. Both copies must be of
  buffers that only transfers write.
- the first of two copies where nothing else uses what is between them (`timing.chains`),
- zeroing of PSUM that products are then added to (`timing.zeroing`),
- what was computed before of the same operands, while the result lies in SBUF or there would have been room to keep it
  (`timing.repeated`), and what serves nothing else.

Whether there is room depends on program order alone. The oldest copies make way first.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from tilewright.errors import Location
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.walk import walk
from tilewright.target import Target
from tilewright.tile.memory import SBUF, Buffer
from tilewright.tile.ops import ALLOC, DEALLOC
from tilewright.tile.overlap import Extent
from tilewright.tile.patterns import byte_dims
from tilewright.tile.record import Attributes
from tilewright.tile.view import View
from tilewright.timing.chains import Chain, chains, writes
from tilewright.timing.instance import Access, Instance
from tilewright.timing.node import Node
from tilewright.timing.repeated import repeats, result_of
from tilewright.timing.replay import SCHEDULED, Replay
from tilewright.timing.stream import Choice, Plan, Stream
from tilewright.timing.traffic import Traffic
from tilewright.timing.zeroing import zeroings

LOAD, COPY, ZEROING, REPEAT = "repeated load", "copy", "zeroing", "repeated instruction"
EVERYTHING = (LOAD, COPY, ZEROING, REPEAT)
"""All that may be left out."""


@dataclass(frozen=True, slots=True)
class Removable:
    """Executions of a source line that the compiler may leave out.

    what: "repeated load", "copy", "zeroing" or "repeated instruction". other: the line that makes it needless: the
    earlier load, the other copy, the product, the first of the same instructions.
    """

    what: str
    instruction: str
    line: Location | None
    other: Location | None
    executed: int
    bytes: int


class Copy:
    """A part of a tensor in HBM that lies unchanged in SBUF: where, and who loaded it.

    What was computed and may be wanted again is a copy, too: its source is the tile that holds it, its key who made it.
    """

    __slots__ = ("extent", "instance", "key", "line", "source", "writer")

    def __init__(
        self, source: Buffer, key: Hashable, instance: Instance, extent: Extent, writer: Node, line: Location | None
    ) -> None:
        self.source = source
        self.key = key
        self.instance = instance
        self.extent = extent
        self.writer = writer
        self.line = line


class Load(NamedTuple):
    """What a plan needs to know about its transfer: what is written; of a load from HBM, what tells it from others."""

    stores: tuple[Buffer, ...]
    source: View | None
    facts: Hashable
    bytes: int


class Kept:
    """Copies of one instance; tells when its life is over (`Instance.life`)."""

    __slots__ = ("copies", "instance", "owner")

    def __init__(self, owner: Merged, instance: Instance) -> None:
        self.owner = owner
        self.instance = instance
        self.copies: list[Copy] = []

    def finish(self) -> None:
        """The buffer's last access has been admitted."""
        self.owner.keep(self)

    def follow(self, earlier: object) -> None:
        """Copies that are kept lie elsewhere."""


class Merged(Stream):
    """A stream that leaves out what the compiler may leave out, or some kinds of it, and counts it."""

    def __init__(
        self,
        target: Target,
        order: str = SCHEDULED,
        choose: Choice | None = None,
        by_line: bool = True,
        kinds: tuple[str, ...] = EVERYTHING,
    ) -> None:
        super().__init__(target, Replay(target, order), choose, by_line)
        self._what = kinds
        self._room = target["memory.sbuf_usable_bytes"]
        self._chains: dict[Op, Chain] = {}
        self._firsts: set[Op] = set()
        self._sources: set[Value] = set()
        self._zeroings: dict[Op, Op] = {}
        self._repeats: dict[Op, Op] = {}
        self._repeated: set[Op] = set()
        self._copies: dict[Buffer, dict[Hashable, Copy]] = {}
        self._kept: dict[Kept, int] = {}
        self._kept_bytes = 0
        self._only_loaded: dict[Buffer, bool] = {}
        self._removed: dict[tuple[str, str, Location | None, Location | None], list[int]] = {}

    def find(self, graph: Graph) -> bool:
        """Look for what can be told without a replay; False when there is nothing of that."""
        self._repeats = repeats(graph) if REPEAT in self._what else {}
        self._repeated = {first for first in self._repeats.values() if result_of(first).memory is SBUF}
        found = chains(graph, self.target) if COPY in self._what else {}
        computed = {*self._repeats, *self._repeats.values()}
        self._chains = {op: chain for op, chain in found.items() if computed.isdisjoint((op, chain.first))}
        self._firsts = {chain.first for chain in self._chains.values()}
        self._sources = {value for chain in self._chains.values() for value in chain.merged.values()}
        self._zeroings = zeroings(graph) if ZEROING in self._what else {}
        return bool(self._chains or self._zeroings or self._repeats)

    def removed(self) -> tuple[Removable, ...]:
        """What was left out, most bytes first."""
        found = [Removable(*key, count, size) for key, (count, size) in self._removed.items()]
        return tuple(sorted(found, key=lambda each: -each.bytes))

    def instruction(self, op: Op) -> None:
        """Replay one instruction."""
        product = self._zeroings.get(op)
        if product is not None:
            self._note(ZEROING, op.name, op.location, product.location, op.operands[0].nbytes)
            self.replay.skip(self._accesses(self.plan(op)))
            return
        if op in self._repeats and self._is_needless(op):
            self._leave_out_repeat(op, self._repeats[op])
            return
        chain = self._chains.get(op)
        if chain is not None:
            gone, other = chain.removed, chain.second if chain.removed is chain.first else chain.first
            self._note(COPY, gone.name, gone.location, other.location, gone.operands[0].nbytes)
        if op not in self._firsts:
            super().instruction(op if chain is None else chain.merged)

    def _is_needless(self, op: Op) -> bool:
        """True when what an instruction computes is at hand, or serves only others that are left out."""
        first = self._repeats[op]
        if first in self._repeated and (first,) in self._copies.get(result_of(first).buffer, ()):
            return True
        uses = [use for use in result_of(op).buffer.uses if use is not op and use.definition is not DEALLOC]
        return bool(uses) and all(use in self._repeats and self._is_needless(use) for use in uses)

    def _leave_out_repeat(self, op: Op, first: Op) -> None:
        """Who reads the result waits for the instruction that computed it first."""
        self._note(REPEAT, op.name, op.location, first.location, 0)
        plan = self.plan(op)
        accesses = self._accesses(plan)
        known = self._copies.get(result_of(first).buffer, {}).get((first,))
        if known is not None:
            for instance, extent, _, written in accesses:
                if written:
                    self._use_again(known, instance, extent)
        self.replay.skip(accesses)

    def dealloc(self, op: Op, buffer: Buffer) -> None:
        """A buffer's life is over, unless a merged copy reads it later than the first of the two would have."""
        if buffer not in self._sources:
            super().dealloc(op, buffer)

    def _note(self, what: str, name: str, line: Location | None, earlier: Location | None, size: int) -> None:
        count = self._removed.setdefault((what, name, self._line(line), self._line(earlier)), [0, 0])
        count[0] += 1
        count[1] += size

    def plan(self, op: Op) -> Plan:
        """What all executions of an op share."""
        plan = super().plan(op)
        if plan.kind.is_transfer and LOAD in self._what:
            plan.tag = self._load(op)
        return plan

    def _load(self, op: Op) -> Load:
        accessed = self.accessed(op)
        stores = tuple([view.buffer for view, _, writes in accessed if writes and not view.on_chip])
        nothing = Load(stores, None, None, 0)
        if len(accessed) != 2 or accessed[0][1:] != (False, True) or accessed[1][1:] != (True, False):
            return nothing
        dst, src = accessed[0][0], accessed[1][0]
        if dst.memory is not SBUF or src.on_chip or dst.dynamic is not None or src.dynamic is not None:
            return nothing
        if dst.buffer.address is not None or not self._is_only_loaded(dst.buffer):
            # What lies at an address is not moved, and others may lie there too.
            return nothing
        record, attrs = op.definition, op.attrs
        form = (dst.sizes, dst.dtype, byte_dims(src.sizes, src.strides, src.dtype.itemsize), src.dtype)
        what = attrs.number if attrs.__class__ is Attributes else tuple(attrs.values())  # type: ignore[attr-defined]
        return Load(stores, src, (record.name, what, form), dst.nbytes)

    def _is_only_loaded(self, buffer: Buffer) -> bool:
        known = self._only_loaded.get(buffer)
        if known is None:
            writers = [use.definition for use in buffer.uses if writes(use, buffer)]
            known = self._only_loaded[buffer] = all("dma" in record.engines for record in writers)
        return known

    def step(self, plan: Plan, accesses: list[Access]) -> None:
        """Hand one execution to the replay, unless what it loads is there."""
        load: Load | None = plan.tag
        if load is None:
            self.replay.step(plan.kind, accesses)
            if plan.op in self._repeated:
                instance, extent = next((access[0], access[1]) for access in accesses if access[3])
                self._remember(instance.buffer, (plan.op,), instance, extent, plan.kind.line)
            return
        for buffer in load.stores:
            self._forget_source(buffer)
        if load.source is None:
            self._forget_overwritten(accesses)
            self.replay.step(plan.kind, accesses)
            return
        instance, extent = next((access[0], access[1]) for access in accesses if access[3])
        source = load.source.buffer
        key = (load.facts, self.offset(load.source), extent.pattern[0])
        known = self._copies.setdefault(source, {}).get(key)
        if known is not None:
            self._leave_out(plan, load, known, accesses, instance, extent)
            return
        self._forget_overwritten(accesses)
        self.replay.step(plan.kind, accesses)
        self._remember(source, key, instance, extent, plan.kind.line)

    def _remember(
        self, source: Buffer, key: Hashable, instance: Instance, extent: Extent, line: Location | None
    ) -> None:
        """What was just written to a tile may be wanted again."""
        writer = instance.region(extent).writer
        assert writer is not None
        life = instance.life
        assert isinstance(life, Kept)
        made = Copy(source, key, instance, extent, writer, line)
        self._copies.setdefault(source, {})[key] = made
        life.copies.append(made)
        if not instance.remaining:
            # Nobody reads it: its life was over before its copy was noted.
            self.keep(life)
        self._make_room()

    def _leave_out(
        self, plan: Plan, load: Load, known: Copy, accesses: list[Access], instance: Instance, extent: Extent
    ) -> None:
        """The destination is where the earlier copy is; who reads it waits for the earlier load."""
        self._note(LOAD, plan.kind.name, plan.kind.line, known.line, load.bytes)
        self._use_again(known, instance, extent)
        self.replay.skip(accesses)

    def _use_again(self, known: Copy, instance: Instance, extent: Extent) -> None:
        """A tile that would have been written is where the copy is."""
        if known.instance is not instance or known.extent is not extent:
            instance.region(extent).write(known.writer)
        life = known.instance.life
        assert isinstance(life, Kept)
        if life in self._kept:
            # Used again: the last to make way.
            self._kept[life] = self._kept.pop(life)

    def _begin(self, value: Value) -> Instance | None:
        made = super()._begin(value)
        if made is not None and made.buffer.memory is SBUF:
            made.life = Kept(self, made)
        return made

    def keep(self, life: Kept) -> None:
        """A buffer's life is over: its copies stay as long as there is room."""
        if life.copies and life not in self._kept:
            self._kept[life] = life.instance.buffer.row_bytes
            self._kept_bytes += self._kept[life]
            self._make_room()

    def _make_room(self) -> None:
        while self._kept and self.replay.room.sbuf_used + self._kept_bytes > self._room:
            life = next(iter(self._kept))
            self._kept_bytes -= self._kept.pop(life)
            for copy in life.copies:
                del self._copies[copy.source][copy.key]
            life.copies = []

    def _forget_source(self, buffer: Buffer) -> None:
        for copy in self._copies.pop(buffer, {}).values():
            life = copy.instance.life
            assert isinstance(life, Kept)
            life.copies.remove(copy)

    def _forget_overwritten(self, accesses: list[Access]) -> None:
        for instance, extent, _, written in accesses:
            life = instance.life
            if not written or not isinstance(life, Kept):
                continue
            gone = [copy for copy in life.copies if copy.extent.meets(extent)]
            for copy in gone:
                life.copies.remove(copy)
                del self._copies[copy.source][copy.key]


def _is_loose(graph: Graph) -> bool:
    """True when there are tiles in SBUF without addresses: what has one is not moved, and loaded as often as said."""
    buffers = (op.result for op in walk(graph.body) if op.definition is ALLOC)
    return any(isinstance(each, Buffer) and each.memory is SBUF and each.address is None for each in buffers)


def merge(
    graph: Graph,
    traffic: Traffic,
    target: Target,
    order: str,
    choose: Choice | None = None,
    by_line: bool = True,
    kinds: tuple[str, ...] = EVERYTHING,
) -> Merged | None:
    """A kernel replayed without what the compiler may leave out; None when there is nothing of these kinds.

    traffic: what a replay of the kernel as it is has moved.
    """
    merged = Merged(target, order, choose, by_line, kinds)
    loads = LOAD in kinds and _is_loose(graph) and any(moved.repeats() for moved in traffic.reads.values())
    if not merged.find(graph) and not loads:
        return None
    merged.run(graph)
    return merged if merged.removed() else None
