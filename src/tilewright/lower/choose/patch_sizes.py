"""Into which patches a region of neighbours is cut: the sizes that take the least time by a closed form.

Larger patches have less border, which is read and computed twice; more of them overlap with each other's transfers, and
have to fit on chip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import inf, prod

import numpy as np

from tilewright.ir.core import Value
from tilewright.lower.nest.patched import chunk_count
from tilewright.lower.regions.patches import Along, Dim, Patches, Run, loads_of, over
from tilewright.lower.regions.stencils import Stencil
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import device_dtype
from tilewright.target import Target


def patch_sizes(stencil: Stencil, target: Target) -> list[Patches]:
    """The best few, the best first; none where nothing fits."""
    dims = [Dim(stencil, d) for d in range(stencil.rank)]
    lanes = target["limits.partitions"]
    costs = _Costs(stencil, dims, target)
    options = [list(_options(dim, lanes)) for dim in dims]
    spans = [[costs.lengths(dim, along) for along in each] for dim, each in zip(dims, options, strict=True)]
    found: dict[int, list[tuple[float, tuple[int, ...]]]] = {}
    for chosen in product(*(range(len(each)) for each in options)):
        along = [each[i] for each, i in zip(options, chosen, strict=True)]
        count = chunk_count(along, lanes)
        if count > TUNING.patch_chunks:
            continue
        lengths = prod(each[i] for each, i in zip(spans, chosen, strict=True))
        time = costs.time(np.asarray(lengths), along, count)
        if time is not None:
            found.setdefault(count.bit_length(), []).append((time, chosen))
    # The closed form says little about how well chunks overlap: of each number of them, about, the best.
    likely: list[tuple[float, int, Patches]] = []
    least = inf
    for some in found.values():
        best: tuple[float, int, Patches] | None = None
        for i, (time, chosen) in enumerate(sorted(some)[: 4 * TUNING.patch_tries]):
            # Patches may take thousands of transfers: they are counted only as far as they may win.
            most = min(TUNING.rough * least, inf if best is None else best[0])
            patches = Patches.of(stencil, dims, [each[i] for each, i in zip(options, chosen, strict=True)])
            time += _issued(patches, target, most - time)
            if best is None or time < best[0]:
                best = time, len(likely) + i, patches
                least = min(least, time)
        if best is not None:
            likely.append(best)
    likely = [each for each in sorted(likely, key=lambda each: each[:2]) if each[0] <= TUNING.rough * least]
    return [patches for _, _, patches in likely[: TUNING.patch_tries]]


def _issued(patches: Patches, target: Target, most: float) -> float:
    """What transfers take beyond their bytes, in ns: each has its turn at being issued. What is laid over the ends.

    most: ns beyond which it does not matter, and is infinite.
    """
    total, interval = 0, target["dma.core_interval_ns"]
    for count in _transfers(patches):
        total += count
        if total * interval > most:
            return inf
    return total * interval + _laid_over(patches) / target["clock_ghz.vector"]


def _transfers(patches: Patches) -> Iterator[int]:
    """How many transfers bring what is read and take away what is made, for each part of patches."""
    stencil, dims, along = patches.stencil, patches.dims, patches.along
    counts, made = [each.count for each in along], {op.result for op in stencil.ops}
    for x in patches.needs:
        if x not in made:
            yield from (_pieces(runs, counts) for runs in loads_of(patches, x))
    for x in stencil.results:
        each = zip(dims, along, strict=True)
        runs = [list(over((0, dim.size(x)), dim.made(x, cut), cut)) for dim, cut in each]
        yield from (_pieces(parts, counts) for parts in product(*runs))


def _laid_over(patches: Patches) -> float:
    """Elements per partition that take as long as what lies over the ends of arrays, with a mask for each."""
    total = 0
    for x, assembly in patches.stencil.assembled.items():
        if x not in patches.needs:
            continue
        for patch in assembly.patches:
            each = zip(patches.dims, patches.needs[x], patches.along, strict=True)
            runs = [[run for run, _ in dim.patched(x, patch, span, along)] for dim, span, along in each]
            total += sum(2 * prod(run.length for run in parts) + TUNING.block_cost / 2 for parts in product(*runs))
    return total


def _pieces(runs: Sequence[Run], counts: list[int]) -> int:
    """Transfers of some parts of patches: those of neighbours are one."""
    cut = max((d for d, run in enumerate(runs) if run.count != counts[d]), default=0)
    return prod(run.count for run in runs[:cut])


def _options(dim: Dim, lanes: int) -> Iterator[Along]:
    """Ways to cut a dim, about evenly."""
    count, seen = 1, set[int]()
    while count <= min(dim.extent, lanes * TUNING.patch_chunks):
        size = -(-dim.extent // count)
        if size not in seen:
            seen.add(size)
            yield Along(size, -(-dim.extent // size), dim.ring)
        if dim.is_whole:
            return
        count *= 2
    if dim.extent <= lanes and 1 not in seen:
        yield Along(1, dim.extent, dim.ring)


class _Costs:
    """What a region takes, by the lengths of its values' patches."""

    def __init__(self, stencil: Stencil, dims: list[Dim], target: Target) -> None:
        self.target = target
        self.lanes = target["limits.partitions"]
        self.stencil = stencil
        inside = {op.result for op in stencil.ops}
        ops = [op for op in stencil.ops if op not in stencil.idle]
        plain = [op for op in ops if op.result not in stencil.shifted and op.result not in stencil.assembled]
        seen = [x for op in ops for x in (*op.values(), op.result)]
        self.values = list(dict.fromkeys([*seen, *map(self._root, seen)]))
        self.index = {x: i for i, x in enumerate(self.values)}
        self.computed = np.array([x in {op.result for op in plain} for x in self.values], float)
        self.loaded = np.array([self._size(x) if x not in inside else 0 for x in self.values], float)
        self.width = np.array([self._size(x) for x in self.values], float)
        self.written = sum(x.type.size * self._size(x) for x in stencil.results)
        self.alive = self._alive(ops)

    def _size(self, x: Value) -> int:
        return device_dtype(x.type.dtype).itemsize

    def _alive(self, ops: list) -> np.ndarray:
        """[ops, values]: whose tile is needed when an op runs."""
        last: dict[Value, int] = {}
        first: dict[Value, int] = {}
        for i, op in enumerate(ops):
            for x in (*op.values(), op.result):
                root = self._root(x)
                first.setdefault(root, i)
                last[root] = i
        made = np.zeros((len(ops), len(self.values)))
        for x in last:
            made[first[x] : last[x] + 1, self.index[x]] = 1
        return made

    def _root(self, x: Value) -> Value:
        while True:
            if x in self.stencil.shifted:
                x = self.stencil.shifted[x][0]
            elif x in self.stencil.assembled:
                x = self.stencil.assembled[x].main
            else:
                return x

    def lengths(self, dim: Dim, along: Along) -> np.ndarray:
        """Places of each value along a dim."""
        needs = dim.needs(along)
        return np.array([float(needs[x][1] - needs[x][0]) if x in needs else 0.0 for x in self.values])

    def run(self, along: list[Along]) -> int:
        """Bytes that lie together in HBM, about."""
        size = 1
        for each in reversed(along):
            size *= each.size
            if each.count > 1:
                break
        return size * int(self.width.max())

    def time(self, lengths: np.ndarray, along: list[Along], count: int) -> float | None:
        """About how long it takes, in ns; None where it does not fit."""
        target, cells = self.target, prod(each.count for each in along)
        held = float((self.alive @ (lengths * self.width)).max())
        room = target["memory.sbuf_usable_bytes"]
        if held > room:
            return None
        engines = 2 * target["clock_ghz.vector"]
        work = count * (float(self.computed @ lengths) / engines + float(self.computed.sum()) * TUNING.block_cost / 4)
        moved = (cells * float(self.loaded @ lengths) + self.written) / target["dma.core_bandwidth"]
        run = self.run(along)
        moved *= max(1.0, target["dma.efficient_bytes_minimum"] / run)
        parts = count if 2 * held <= room else 1
        return max(work, moved) + min(work, moved) / max(parts, 2)
