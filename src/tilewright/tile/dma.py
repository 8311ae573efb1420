"""DMA transfers: who writes their descriptors, and what they cost.

A transfer is cut into descriptors, one per run of bytes that is contiguous on both sides. They are dealt to the DMA
engines of the core, or each engine moves those of its own partitions, as the compiler has it. Figures come from the
target file; the formulas are in docs/timing.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from tilewright.target import Target
from tilewright.tile.memory import SBUF
from tilewright.tile.record import Call, Cost
from tilewright.tile.view import View

Run = tuple[int, int]


def is_indirect(view: View) -> bool:
    """A gather or scatter: one run-time index per row."""
    return view.dynamic is not None and view.dynamic.kind == "vector"


def row_indices(view: View) -> View | None:
    """The tile that holds the row indices of a gather or scatter."""
    dynamic = view.dynamic
    return (
        dynamic.index if dynamic is not None and dynamic.kind == "vector" and isinstance(dynamic.index, View) else None
    )


def descriptor_source(call: Call) -> str:
    """Who writes the descriptors: the given `dge_mode`, or the target's choice for this kind of transfer."""
    given = call.attrs.get("dge_mode", "unknown")
    if given != "unknown":
        return given
    views = [view for _, view in call.tensors()]
    dynamic = any(view.dynamic is not None for view in views)
    casts = len({view.dtype for view in views}) > 1
    if any(is_indirect(view) for view in views) or (dynamic and casts):
        return call.target["engines.dge_indirect"]
    kind = "dynamic" if dynamic else "cast" if casts else "static"
    return call.target[f"engines.dge_{kind}"]


def contiguous_runs(view: View) -> Run:
    """(bytes, count) of the contiguous runs of an access. On chip a run ends at a partition."""
    length = 1
    dims = list(zip(view.sizes, view.strides, strict=True))
    for size, stride in reversed(dims[1:] if view.on_chip or is_indirect(view) else dims):
        if size != 1 and stride != length:
            break
        length *= size
    return length * view.dtype.itemsize, view.size // length


def common_runs(src: View, dst: View) -> Run:
    """(bytes, count) of the descriptors of a copy: runs that are contiguous on both sides."""
    count = max(contiguous_runs(src)[1], contiguous_runs(dst)[1])
    return -(-max(src.nbytes, dst.nbytes) // count), count


def descriptor_ns(target: Target, size: int, key: str = "dma.descriptor_ns") -> float:
    """Time of one descriptor on one DMA engine, interpolated between the measured sizes."""
    points = target[key]
    low = points[0]
    for high in points[1:]:
        if size <= high[0]:
            share = max(0.0, (size - low[0]) / (high[0] - low[0]))
            return low[1] + share * (high[1] - low[1])
        low = high
    return low[1] * size / low[0]


class Served(NamedTuple):
    """The DMA engines of a transfer, from the first on, and how many of its descriptors, out of how many, one has."""

    first: int
    engines: int
    busiest: int
    of: int

    def most(self, descriptors: int) -> int:
        """How many of so many descriptors the busiest engine has."""
        return -(-descriptors * self.busiest // self.of)


def served_by(call: Call) -> Served:
    """Where every DMA engine has partitions of its own, those of the transfer; else, and within HBM, all of them."""
    target = call.target
    engines: int = target["dma.engines_per_core"]
    lanes = call.dst if call.dst.on_chip else next((view for _, view in call.tensors() if view.on_chip), None)
    if lanes is None or not target["compiler.dma_by_partition"]:
        return Served(0, engines, 1, engines)
    each: int = target["limits.partitions"] // engines
    step = lanes.strides[0] // lanes.row
    found = Counter((lanes.start_partition + n * step) // each % engines for n in range(lanes.partitions))
    return Served(min(found), max(found) - min(found) + 1, max(found.values()), lanes.partitions)


def _busy_ns(target: Target, run: Run, dst: View, served: Served) -> float:
    """Time of the busiest engine; of its descriptors larger than what saturates it, pieces count."""
    size, count = run
    piece = target["dma.efficient_bytes_target"]
    each = descriptor_ns(target, min(size, piece))
    if not dst.on_chip:
        # A short write to HBM reads, changes and writes back; a longer one never takes less.
        each = max(each, target["dma.small_hbm_write_ns"])
    return max(served.most(count) * each, count * descriptor_ns(target, size) * served.busiest / served.of)


def _queue_ns(target: Target, run: Run, served: Served) -> float:
    """Time of the queue: each engine's descriptors one after the other, each with its round trip to memory."""
    size, count = run
    piece = target["dma.efficient_bytes_target"]
    pieces = count * -(-size // piece)
    each = descriptor_ns(target, min(size, piece), "dma.queue_descriptor_ns")
    return served.most(pieces) * each


def _transfer(call: Call, runs: Iterable[Run], fraction: float) -> Cost:
    """Start, the busiest engine at this fraction of the copying rate, completion."""
    target, dst, runs = call.target, call.dst, tuple(runs)
    mode, served = descriptor_source(call), served_by(call)
    busy = sum(_busy_ns(target, run, dst, served) for run in runs) / fraction
    interval = target["dma.core_interval_ns"]
    if mode == "swdge":
        start = target["dma.swdge_start_load_ns" if dst.on_chip else "dma.swdge_start_store_ns"]
        dynamic = any(view.dynamic is not None for _, view in call.tensors())
        interval = max(interval, target["dma.swdge_indirect_block_ns" if dynamic else "dma.swdge_interval_ns"])
    else:
        start = target["dma.hwdge_start_ns" if mode == "hwdge" else "dma.static_start_ns"]
    # Software writes descriptors ahead of their use: the queue does not wait for each of them.
    queue = busy if mode == "swdge" else max(busy, sum(_queue_ns(target, run, served) for run in runs) / fraction)
    latency = start + queue + target["dma.completion_ns"]
    return Cost(interval, latency, ("dma", f"dge:{mode}"), runs, start, busy, queue, engines=served[:2])


def copy_cost(call: Call) -> Cost:
    """dma_copy at the full rate."""
    return _transfer(call, (common_runs(call.src, call.dst),), 1.0)


def transpose_cost(call: Call) -> Cost:
    """dma_transpose: rows of the source at the transposing rate of its memory."""
    key = "dma.transpose_fraction_sbuf" if call.src.memory is SBUF else "dma.transpose_fraction_hbm"
    return _transfer(call, (contiguous_runs(call.src),), call.target[key])


def compute_cost(call: Call) -> Cost:
    """dma_compute: every source at the accumulating rate of the destination's memory."""
    key = "dma.compute_fraction_sbuf" if call.dst.memory is SBUF else "dma.compute_fraction"
    return _transfer(call, [common_runs(src, call.dst) for src in call.srcs], call.target[key])


def exchange_cost(call: Call) -> Cost:
    """sendrecv: a round trip between the cores, then the transfer."""
    target = call.target
    run, served = common_runs(call.src, call.dst), served_by(call)
    start, busy = target["chip.sendrecv_us"] * 1e3, _busy_ns(target, run, call.dst, served)
    queue = max(busy, _queue_ns(target, run, served))
    interval = target["dma.core_interval_ns"]
    return Cost(interval, start + queue, ("dma",), (run,), start, busy, queue, engines=served[:2])
