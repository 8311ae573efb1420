"""Into which patches a region of neighbours is cut: the sizes that take the least time by a closed form.

Larger patches have less border, which is read and computed twice; more of them overlap with each other's transfers, and
have to fit on chip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import inf, prod
from typing import NamedTuple

import numpy as np

from tilewright.ir.core import Value
from tilewright.lower.nest.patched import chunk_count
from tilewright.lower.regions.patches import Along, Dim, Patches
from tilewright.lower.regions.stencils import Stencil
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import device_dtype
from tilewright.target import Target


def patch_sizes(stencil: Stencil, target: Target, is_roomy: bool) -> list[Patches]:
    """The best few, the best first; none where nothing fits.

    is_roomy: only those of which several parts fit on chip, so that each can be loaded while the one before is in work.
    The clock that compares ways knows nothing of room.
    """
    dims = [Dim(stencil, d) for d in range(stencil.rank)]
    lanes = target["limits.partitions"]
    costs = _Costs(stencil, dims, target)
    # Dims that lie in patches of one element leave so many partitions to each patch of another one.
    ones = {dim.extent for dim in dims if 1 < dim.extent <= lanes and not dim.is_whole}
    shares = sorted({lanes // prod(some) for k in (1, 2) for some in combinations(ones, k)} - {0, 1})
    options = [list(_options(dim, lanes, shares)) for dim in dims]
    spans = [[costs.lengths(dim, along) for along in each] for dim, each in zip(dims, options, strict=True)]
    found: dict[int, list[tuple[_Time, tuple[int, ...]]]] = {}
    for chosen in product(*(range(len(each)) for each in options)):
        along = [each[i] for each, i in zip(options, chosen, strict=True)]
        parts = chunk_count(along, lanes)
        if parts > TUNING.patch_chunks:
            continue
        lengths = prod(each[i] for each, i in zip(spans, chosen, strict=True))
        time = costs.time(np.asarray(lengths), along, parts)
        if time is not None and (time.is_roomy or not is_roomy):
            found.setdefault(parts.bit_length(), []).append((time, chosen))
    # The closed form says little about how well chunks overlap: of each number of them, about, the best.
    likely: list[tuple[float, int, Patches]] = []
    least = inf
    for some in found.values():
        best: tuple[float, int, Patches] | None = None
        for i, (time, chosen) in enumerate(
            sorted(some, key=lambda each: each[0].ns(is_roomy))[: 4 * TUNING.patch_tries]
        ):
            # Patches may take thousands of transfers: they are counted only as far as they may win.
            most = min(TUNING.rough * least, inf if best is None else best[0])
            patches = Patches.of(stencil, dims, [each[i] for each, i in zip(options, chosen, strict=True)])
            ns = _with_transfers(time, patches, target, most).ns(is_roomy)
            if best is None or ns < best[0]:
                best = ns, len(likely) + i, patches
                least = min(least, ns)
        if best is not None:
            likely.append(best)
    likely = [each for each in sorted(likely, key=lambda each: each[:2]) if each[0] <= TUNING.rough * least]
    return [patches for _, _, patches in likely[: TUNING.patch_tries]]


class _Time(NamedTuple):
    """About how long patches take, in ns: their engines, their transfers, what it takes to issue these, and in how many
    parts all of that overlaps.

    is_roomy: whether more than one part fits on chip, and there are more.
    """

    work: float
    moved: float
    parts: int
    is_roomy: bool
    issued: float = 0.0

    def ns(self, with_issue: bool) -> float:
        """The time of everything.    with_issue: whether issuing overlaps too; it begins before anything else."""
        parts = max(self.parts, 2) if self.is_roomy else 2
        if not with_issue:
            return max(self.work, self.moved) + min(self.work, self.moved) / parts + self.issued
        moved = max(self.moved, self.issued)
        return max(self.work, moved) + (min(self.work, moved) + self.issued) / parts


def _with_transfers(time: _Time, patches: Patches, target: Target, most: float) -> _Time:
    """The same, where each transfer has its turn at being issued, and what is laid over the ends takes time too.

    most: ns beyond which it does not matter.
    """
    issued, interval = 0.0, target["dma.core_interval_ns"]
    for count in patches.transfers():
        issued += count * interval
        if issued > most:
            return time._replace(issued=inf)
    return time._replace(work=time.work + _laid_over(patches) / target["clock_ghz.vector"], issued=issued)


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


def _options(dim: Dim, lanes: int, shares: Sequence[int]) -> Iterator[Along]:
    """Ways to cut a dim, about evenly; shares: numbers of parts that fill the partitions together with other dims."""
    seen = set[int]()
    most = 1 if dim.is_whole else min(dim.extent, lanes * TUNING.patch_chunks)
    doubled = [2**k for k in range(most.bit_length())]
    for parts in (*doubled, *(n for n in shares if n <= most)):
        size = -(-dim.extent // parts)
        if size not in seen:
            seen.add(size)
            yield Along(size, -(-dim.extent // size), dim.ring)
    if not dim.is_whole and dim.extent <= lanes and 1 not in seen:
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

    def time(self, lengths: np.ndarray, along: list[Along], count: int) -> _Time | None:
        """About how long it takes; None where it does not fit."""
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
        return _Time(work, moved, count, count > 1 and 2 * held <= room)
