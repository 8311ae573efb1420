"""Physical sense on random streams: bounds, more work, more dependencies, smaller dtypes, anomalies of scheduling."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.kit import nisa, nl
from tilewright.dtypes import as_dtype
from tilewright.errors import Location
from tilewright.target import get_target
from tilewright.tile.memory import PSUM, SBUF, Buffer
from tilewright.tile.overlap import extent
from tilewright.tile.record import Cost
from tilewright.timing.instance import Access, Instance
from tilewright.timing.replay import SCHEDULED, WRITTEN, Replay

TARGET = get_target("trn2").replace({"tensor.throttle_fraction": 1})
BUFFERS, ENGINES = 6, ("tensor", "vector", "scalar", "gpsimd", "dma")
# More of them: TILEWRIGHT_FUZZ=1 TILEWRIGHT_EXAMPLES=1000.
LIMIT = settings(
    max_examples=int(os.environ.get("TILEWRIGHT_EXAMPLES", "50")), suppress_health_check=[HealthCheck.too_slow]
)


class Instruction(NamedTuple):
    """engine, cost, and (buffer, first byte, bytes, whether it is written) of each access; line: a transfer's queue.

    Buffers below BUFFERS live as long as the stream. A higher number is a tile: written here for the first time, or
    read by a later instruction; tiles live from their first to their last access, and share rings and banks.
    """

    engine: str
    cost: Cost
    accesses: tuple[tuple[int, int, int, bool], ...]
    line: int


@st.composite
def costs(draw: st.DrawFn, engine: str) -> Cost:
    times = st.integers(1, 2000)
    interval = draw(times)
    if engine != "dma":
        return Cost(interval, interval + draw(times))
    moved, start, end, busy = draw(st.integers(1, 1 << 18)), draw(times), draw(times), draw(times)
    queue = busy + draw(times)
    return Cost(interval, start + queue + end, ("dma",), ((moved, 1),), start, busy, queue)


@st.composite
def instructions(draw: st.DrawFn) -> Instruction:
    engine = draw(st.sampled_from(ENGINES))
    cost = draw(costs(engine))
    access = st.tuples(
        st.integers(0, BUFFERS - 1), st.sampled_from([0, 64, 100]), st.sampled_from([32, 64, 156]), st.booleans()
    )
    return Instruction(engine, cost, tuple(draw(st.lists(access, max_size=3))), draw(st.integers(0, 3)))


@st.composite
def streams(draw: st.DrawFn) -> list[Instruction]:
    """Instructions on buffers that stay; in some streams also tiles, each written once and read by the next few."""
    stream = draw(st.lists(instructions(), min_size=1, max_size=30))
    if draw(st.booleans()):
        return stream
    found: list[Instruction] = []
    for number, each in enumerate(stream):
        tiles = [(BUFFERS + number, 0, 256, True)] if draw(st.booleans()) else []
        earlier = [access[0] for other in found[-4:] for access in other.accesses if access[0] >= BUFFERS and access[3]]
        if earlier:
            tiles += [(draw(st.sampled_from(earlier)), 0, 256, False)]
        found.append(each._replace(accesses=(*each.accesses, *tiles)))
    return found


STREAMS = streams()


def end_of(stream: list[Instruction], order: str) -> float:
    """When the last result of a stream is there. Every other buffer is in PSUM."""
    replay = Replay(TARGET, order)
    uses: dict[int, int] = {}
    for access in (access for each in stream for access in each.accesses):
        uses[access[0]] = uses.get(access[0], 0) + 1
    instances: dict[int, Instance] = {}
    for number in (*range(BUFFERS), *[number for number in uses if number >= BUFFERS]):
        stays = number < BUFFERS
        line = number if stays else BUFFERS + number % 3
        buffer = Buffer(as_dtype("uint8"), (128, 256), PSUM if number % 2 else SBUF, location=Location("b", line))
        instances[number] = Instance(buffer, -1 if stays else uses[number])
    # What stays has its place from the beginning, whoever writes it first.
    for number in range(BUFFERS):
        replay.room.place(instances[number])
    for each in stream:
        accesses: list[Access] = [
            (instances[number], extent((0, 128, start, ((size, 1),), 1)), not written, written)
            for number, start, size, written in each.accesses
        ]
        replay.step(replay.kind("op", each.engine, each.cost, Location("kernel", each.line)), accesses)
    replay.finish()
    assert replay.instructions == len(stream)
    return replay.end


def bound_of(stream: list[Instruction]) -> float:
    """The busiest engine, and the bytes over the bandwidth."""
    busy = {engine: sum(each.cost.interval_ns for each in stream if each.engine == engine) for engine in ENGINES[:-1]}
    moved = sum(size for each in stream for size, _ in each.cost.descriptors)
    return max(*busy.values(), moved / TARGET["dma.core_bandwidth"], *(each.cost.latency_ns for each in stream))


@LIMIT
@given(STREAMS, st.sampled_from([SCHEDULED, WRITTEN]))
def test_no_stream_is_faster_than_its_bound(stream: list[Instruction], order: str):
    end = end_of(stream, order)
    assert end >= bound_of(stream) * (1 - 1e-9)
    assert end <= serial_of(stream) + 1e-6


def serial_of(stream: list[Instruction]) -> float:
    """One instruction after the other: each with its latency, its bytes, its turn and a semaphore."""
    return sum(
        max(each.cost.interval_ns, each.cost.latency_ns)
        + max(each.cost.busy_ns, sum(n for n, _ in each.cost.descriptors) / TARGET["dma.core_bandwidth"])
        + TARGET["semaphore.engine_ns"]
        for each in stream
    )


@LIMIT
@given(STREAMS, instructions(), st.data())
def test_one_more_instruction_is_never_faster_as_written(stream: list[Instruction], extra: Instruction, data: Any):
    at = data.draw(st.integers(0, len(stream)))
    longer = [*stream[:at], extra, *stream[at:]]
    assert end_of(longer, WRITTEN) >= end_of(stream, WRITTEN) - 1e-6


@LIMIT
@given(STREAMS, st.floats(1, 3), st.data())
def test_a_longer_instruction_is_never_faster_as_written(stream: list[Instruction], factor: float, data: Any):
    at = data.draw(st.integers(0, len(stream) - 1))
    old = stream[at].cost
    names = ("interval_ns", "latency_ns", "start_ns", "busy_ns", "queue_ns")
    cost = replace(
        old,
        descriptors=tuple((int(size * factor), count) for size, count in old.descriptors),
        **{name: getattr(old, name) * factor for name in names},
    )
    longer = [*stream[:at], stream[at]._replace(cost=cost), *stream[at + 1 :]]
    assert end_of(longer, WRITTEN) >= end_of(stream, WRITTEN) - 1e-6


@LIMIT
@given(STREAMS, st.data())
def test_one_more_dependency_is_never_faster_as_written(stream: list[Instruction], data: Any):
    at = data.draw(st.integers(0, len(stream) - 1))
    buffer = data.draw(st.integers(0, BUFFERS - 1))
    access = (buffer, 0, 256, data.draw(st.booleans()))
    tied = [*stream[:at], stream[at]._replace(accesses=(*stream[at].accesses, access)), *stream[at + 1 :]]
    assert end_of(tied, WRITTEN) >= end_of(stream, WRITTEN) - 1e-6


@LIMIT
@given(STREAMS)
def test_scheduling_loses_no_more_than_it_can(stream: list[Instruction]):
    """Taking the oldest that is ready may start a long instruction just before a more urgent one becomes ready.

    At any moment some engine or transfer is at work, or a result is on its way to who waits for it: so no schedule
    takes longer than all instructions one after the other. How much longer than the written order it may take is not
    proven.
    """
    scheduled, written = (end_of(stream, order) for order in (SCHEDULED, WRITTEN))
    assert scheduled <= serial_of(stream) + 1e-6
    assert scheduled <= OBSERVED * written


OBSERVED = 2.0
"""Times the written order. Searches for the worst among some 10,000 streams of this kind ended at 1.6."""


def test_what_the_written_order_promises_scheduling_breaks():
    """Held up by one more dependency, a long instruction lets an urgent one pass: faster when scheduled, only then."""

    def quick(engine: str, *accesses: tuple[int, int, int, bool]) -> Instruction:
        return Instruction(engine, Cost(10, 10), accesses, 0)

    def stream(*dependency: tuple[int, int, int, bool]) -> list[Instruction]:
        return [
            Instruction("gpsimd", Cost(200, 200), ((4, 0, 64, True),), 0),
            quick("scalar", (0, 0, 64, True)),
            Instruction("vector", Cost(1000, 1000), dependency, 0),
            quick("vector", (0, 0, 64, False), (2, 0, 64, True)),
            Instruction("scalar", Cost(1000, 1000), ((2, 0, 64, False),), 0),
        ]

    free, tied = stream(), stream((4, 0, 64, False))
    assert end_of(tied, WRITTEN) > end_of(free, WRITTEN)
    assert end_of(tied, SCHEDULED) < 0.7 * end_of(free, SCHEDULED)
    # The bound on such anomalies is not idle either.
    assert end_of(free, SCHEDULED) == end_of(free, WRITTEN) and end_of(tied, SCHEDULED) < end_of(tied, WRITTEN)


def moving(inputs: int, width: int, tiles: int, function: bool) -> Any:
    """A kernel that does little but move: out = a, or a + b, or exp(a + b), in tiles [128, width]."""

    def kernel(a, b):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for number in range(tiles):
            rows = slice(number * 128, number * 128 + 128)
            loaded = [nl.ndarray((128, width), dtype=a.dtype, buffer=nl.sbuf) for _ in range(inputs)]
            for tile, tensor in zip(loaded, (a, b), strict=False):
                nisa.dma_copy(dst=tile, src=tensor[rows])
            if inputs == 2:
                nisa.tensor_tensor(dst=loaded[0], data1=loaded[0], data2=loaded[1], op=nl.add)
            if function:
                nisa.activation(dst=loaded[0], op=nl.exp, data=loaded[0])
            nisa.dma_copy(dst=out[rows], src=loaded[0])
        return out

    return kernel


@settings(LIMIT, max_examples=LIMIT.max_examples // 4 + 1)
@given(
    st.integers(1, 2),
    st.integers(512, 2048).map(lambda width: width // 32 * 32),
    st.integers(1, 6),
    st.booleans(),
    st.sampled_from(["trn1", "trn2", "trn3"]),
    st.sampled_from([SCHEDULED, WRITTEN]),
)
def test_half_a_dtype_is_never_slower_when_transfers_bind(
    inputs: int, width: int, tiles: int, function: bool, target: str, order: str
):
    """Rows of the narrower kind have 1 KiB or more."""
    kernel = moving(inputs, width, tiles, function)
    wide, narrow = (
        tw.profile(kernel, *[tw.spec((128 * tiles, width), dtype)] * 2, target=target, order=order)
        for dtype in ("float32", "bfloat16")
    )
    assert narrow.latency_us <= wide.latency_us + 1e-9


@LIMIT
@given(st.lists(st.integers(1, 500), min_size=1, max_size=50), st.lists(st.integers(1, 500), min_size=1, max_size=50))
def test_independent_engines_overlap(first: list[int], second: list[int]):
    """Two chains, each on its engine and its buffer, take as long as the longer one."""
    chains = [
        [Instruction(engine, Cost(n, n), ((buffer, 0, 256, True),), 0) for n in times]
        for engine, buffer, times in (("vector", 0, first), ("scalar", 1, second))
    ]
    for order in (SCHEDULED, WRITTEN):
        assert end_of(chains[0] + chains[1], order) == max(sum(first), sum(second))
