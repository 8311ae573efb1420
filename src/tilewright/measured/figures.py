"""The figures of a target that a measured profile determines by itself, without the kernel's source.

An instruction's duration is its elements over the rate of its engine, what its kind takes beyond a copy, and a copy's
latency; the time to the next one of its kind, where nothing else held that up, its elements and an overhead. Waits only
add to either, so that the least that comes often (`_floor`) is taken. A DMA engine's time with a descriptor is its
duration, by size. The launch is what goes by before the first instruction and after the last transfer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tilewright.measured.export import Executed, Measured
from tilewright.measured.opcodes import tells
from tilewright.target import Target

FEW = 4
"""Fewer samples tell nothing."""

AGREE = 0.05
"""Samples that lie apart by more than this share of the whole time tell nothing either."""

ALIKE = 16
"""Descriptors of one size that are enough to know what they take."""

WINDOW_NS = 2000.0
"""Windows in which DMA engines are looked at; in some `FEW` of them all must be busy to tell the bandwidth."""

FULL = 0.95


@dataclass(frozen=True, slots=True)
class Told:
    """A figure as a profile has it: value and unit as in the target, from how many samples, which lie so far apart.

    value None: the profile has such instructions and still does not tell; `why` says it.
    """

    key: str
    value: Any
    samples: int
    spread: float
    why: str = ""


def told(measured: Measured, target: Target) -> list[Told]:
    """Every figure that the profile says something of, in the order of the target's file."""
    found = [
        *_launch(measured),
        *_table_load(measured),
        *_instructions(measured, target),
        *_descriptors(measured, target),
    ]
    found += _bandwidth(measured, target)
    place = {key: number for number, key in enumerate(target)}
    return sorted(_best(found), key=lambda each: place[each.key])


def _best(found: Sequence[Told]) -> list[Told]:
    """One word per figure: several kinds of instructions may tell it; that with most samples counts."""
    best: dict[str, Told] = {}
    for each in found:
        other = best.get(each.key)
        if other is None or (each.value is not None, each.samples) > (other.value is not None, other.samples):
            best[each.key] = each
    return list(best.values())


def _origin(measured: Measured) -> float:
    return min((each.start_ns for each in measured.instructions), default=0.0)


def _launch(measured: Measured) -> Iterator[Told]:
    starts = [each.start_ns for each in measured.instructions if each.is_work or each.opcode.startswith("DMA_")]
    if starts:
        yield Told("launch.first_instruction_us", round((min(starts) - _origin(measured)) / 1e3, 2), 1, 0.0)
        yield from _argument_transfers(measured, min(starts))
    if measured.packets and measured.instructions:
        last = max(each.start_ns + each.duration_ns for each in measured.packets) - _origin(measured)
        after = measured.total_us - last / 1e3
        why = "" if after > 0 else "transfers go on after the end"
        yield Told("launch.after_last_dma_us", round(after, 2) if after > 0 else None, 1, 0.0, why)


def _argument_transfers(measured: Measured, first: float) -> Iterator[Told]:
    """When GpSimd issues its first transfer, unless it may have waited for a result."""
    issued = [
        each.start_ns for each in measured.instructions if each.engine == "gpsimd" and each.opcode.startswith("DMA_")
    ]
    done = [each.start_ns + each.duration_ns for each in measured.instructions if each.is_work]
    if issued and min(issued) <= min(done, default=min(issued)):
        yield Told("launch.argument_transfers_ns", round(min(issued) - first), 1, 0.0)


def _table_load(measured: Measured) -> Iterator[Told]:
    times = [each.duration_ns for each in measured.instructions if each.opcode.endswith("TABLE_LOAD")]
    if times:
        middle = float(np.median(times))
        yield Told("scalar.table_load_ns", round(middle), len(times), float(np.ptp(times)) / middle)


def _instructions(measured: Measured, target: Target) -> Iterator[Told]:
    for row in tells():
        # Of short instructions an engine's least interval hides the overhead.
        least = target[f"{row.engine}.min_interval_cycles"]
        chosen = [each for each in measured.instructions if row.fits(each) and each.elements >= least]
        if not chosen:
            continue
        work = _Work(
            target[row.cycles] if row.cycles else 1 / target[row.rate],
            target[f"clock_ghz.{row.engine}"],
            target["tensor.throttle_fraction"] if row.cycles else 1.0,
        )
        pairs = [pair for pair in _pairs(measured, row.engine, chosen) if work.at_full_clock(*pair)]
        if row.cycles:
            chosen = [first for first, _ in pairs]
        # A result comes later by what its kind takes beyond a copy.
        slower = target[row.interval] - target[row.copy] if row.copy else 0.0
        beyond = [each.duration_ns - (work.cycles(each) + slower) / work.clock for each in chosen]
        yield _floor(row.latency, beyond, [each.duration_ns for each in chosen])
        gaps = [(later.start_ns - first.start_ns) * work.clock for first, later in pairs]
        more = [gap - work.cycles(first) for gap, (first, _) in zip(gaps, pairs, strict=True)]
        yield _floor(row.interval, more, gaps)


@dataclass(frozen=True, slots=True)
class _Work:
    """Cycles per element, GHz, and the share of the clock at which an engine may have run instead."""

    per_element: float
    clock: float
    throttled: float

    def cycles(self, each: Executed) -> float:
        return each.elements * self.per_element

    def at_full_clock(self, first: Executed, later: Executed) -> bool:
        """False where the clock was down, or may have been."""
        gap = (later.start_ns - first.start_ns) * self.clock
        return self.throttled == 1.0 or gap < self.cycles(first) * (1 + 1 / self.throttled) / 2


def _pairs(measured: Measured, engine: str, chosen: Sequence[Executed]) -> Iterator[tuple[Executed, Executed]]:
    """Instructions of a kind of which the later one began before the first had ended: it waited for nothing else."""
    wanted = {id(each) for each in chosen}
    stream = sorted((each for each in measured.work if each.engine == engine), key=lambda each: each.start_ns)
    for first, later in pairwise(stream):
        if id(first) in wanted and id(later) in wanted and first.elements == later.elements:
            if later.start_ns < first.start_ns + first.duration_ns:
                yield first, later


def _floor(key: str, samples: Sequence[float], wholes: Sequence[float]) -> Told:
    """The least that comes often: a tenth of the samples lie below it, and the next ones near."""
    count = len(samples)
    if count < FEW:
        return Told(key, None, count, 0.0, f"{count} sample{'s' * (count != 1)}")
    low, near = (float(np.quantile(samples, share)) for share in (0.1, 0.25))
    spread = (near - low) / float(np.median(wholes))
    if spread > AGREE:
        return Told(key, None, count, spread, "samples lie apart: each waited for something else")
    if low <= 0:
        return Told(key, None, count, spread, "shorter than its elements take: another rate than the target's")
    return Told(key, round(low, 1), count, spread)


def _descriptors(measured: Measured, target: Target) -> Iterator[Told]:
    """Times of descriptors at the sizes that came often; elsewhere the target's, scaled as those next to them.

    Short ones tell nothing: into HBM they are read first, and an export does not say which way they go.
    """
    sizes: dict[int, list[float]] = {}
    for packet in measured.packets:
        if packet.bytes > target["dma.small_hbm_write_below"]:
            sizes.setdefault(packet.bytes, []).append(packet.duration_ns)
    often = {size: _floor("", times, times) for size, times in sizes.items() if len(times) >= ALIKE}
    known = {size: each.value for size, each in often.items() if each.value is not None}
    count = sum(len(sizes[size]) for size in often)
    if not known:
        if often:
            yield Told("dma.descriptor_ns", None, count, 0.0, "descriptors of one size lie apart: they waited")
        return
    stated = target["dma.descriptor_ns"]
    at, ns = zip(*stated, strict=True)
    places = sorted(known)
    ratios = [known[size] / float(np.interp(size, at, ns)) for size in places]
    longer = [point for point in stated if point[0] > target["dma.small_hbm_write_below"]]
    scaled = {size: time * float(np.interp(np.log(size), np.log(places), ratios)) for size, time in longer}
    table = sorted({**dict(stated), **scaled, **known}.items())
    times = np.maximum.accumulate([time for _, time in table])
    value = tuple((size, round(float(time), 1)) for (size, _), time in zip(table, times, strict=True))
    yield Told("dma.descriptor_ns", value, count, max(often[size].spread for size in places))


def _bandwidth(measured: Measured, target: Target) -> Iterator[Told]:
    """GB/s in the windows in which all DMA engines were busy."""
    if not measured.packets:
        return
    origin = min(each.start_ns for each in measured.packets)
    count = int((max(each.start_ns for each in measured.packets) - origin) // WINDOW_NS) + 1
    busy, moved = np.zeros(count), np.zeros(count)
    for each in measured.packets:
        window = int((each.start_ns - origin) // WINDOW_NS)
        busy[window] += each.duration_ns
        moved[window] += each.bytes
    engines = target["dma.engines_per_core"]
    full = busy >= FULL * WINDOW_NS * engines
    # What began in a window may end in the next: bytes over the engines' time, not over the window.
    rates = moved[full] / busy[full] * engines
    if len(rates) < FEW:
        return
    low, middle, high = (float(np.quantile(rates, share)) for share in (0.2, 0.5, 0.8))
    spread = (high - low) / middle
    why = "" if spread <= AGREE else "windows lie apart"
    yield Told("dma.core_bandwidth", None if why else round(middle, 1), len(rates), spread, why)
