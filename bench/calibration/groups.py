"""What kind of measurement each point is, and which points a fit may use."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator
from itertools import combinations
from math import ceil
from typing import Literal

from bench.calibration.measured import Entry, baseline, entries
from tilewright.dtypes import as_dtype
from tilewright.target import get_target

GRID = "labs-grid-fp32"
HARD_ABOVE = 0.05
"""A clean grid point is hard when it took longer than the baseline by more than this share."""

HELD_OUT = 3
"""One in this many points is left out of every fit."""

Class = Literal["easy", "hard", "spilled", "removed", "other"]


def classify(entry: Entry) -> Class:
    """Clean grid points are easy or hard. Those whose data show spills or removed transfers are kept apart."""
    if entry.group != GRID:
        return "other"
    moved, stated = entry.counters["dma_bytes"], stated_bytes(entry)
    if sbuf_bytes(entry) > get_target(entry.target)["memory.sbuf_usable_bytes"] or moved > stated:
        return "spilled"
    if moved < stated:
        return "removed"
    return "hard" if entry.us > (1 + HARD_ABOVE) * baseline_us(entry) else "easy"


def is_clean(entry: Entry) -> bool:
    """A grid point that moves what its source states: easy or hard."""
    return classify(entry) in ("easy", "hard")


def fold(entry: Entry) -> Literal["fit", "held out"]:
    """Whether a fit may use the point. One in HELD_OUT points of every stratum is left out, chosen by hash."""
    return "held out" if _subject(entry) in _held_out() and entry.id not in FITTED else "fit"


FITTED = frozenset({"sdk-matmul-trn1/0637"})
"""Points that a figure of a target was fitted on although their hash would leave them out."""


FITTED_ON = frozenset({GRID, "sdk-kernelopt-trn2", "sdk-matmul-trn1", "fusion-profile-trn2"})
"""Groups that figures of a target were fitted on, or read off (the last one: its profiles give latencies)."""


def left_out(entry: Entry) -> bool:
    """True of points that no figure has seen: held-out ones, and all of groups that no figure was fitted on."""
    return fold(entry) == "held out" or entry.group not in FITTED_ON


@functools.cache
def _held_out() -> frozenset[str]:
    """The subjects left out: in every stratum, sorted by hash, every HELD_OUT-th."""
    strata: dict[str, set[str]] = {}
    for entry in entries():
        kind = classify(entry)
        strata.setdefault(entry.target if kind == "other" else kind, set()).add(_subject(entry))
    ranked = [sorted(subjects, key=_digest) for _, subjects in sorted(strata.items())]
    return frozenset(subject for subjects in ranked for subject in subjects[HELD_OUT - 1 :: HELD_OUT])


def _subject(entry: Entry) -> str:
    """What was measured: repeated measurements of it are either all left out or none."""
    sizes = sorted({**entry.shape, **entry.variant}.items())
    return " ".join([entry.kernel, entry.target, entry.dtype, *(f"{name}={size}" for name, size in sizes)])


def _digest(subject: str) -> bytes:
    return hashlib.sha256(subject.encode()).digest()


def ordered_pairs(group: Iterable[Entry], gap: float) -> Iterator[tuple[Entry, Entry]]:
    """Pairs (faster, slower) whose times differ by more than the share `gap` of the faster one, by metric.

    Times of different metrics are not compared: they leave different parts of the launch out.
    """
    for first, second in combinations(group, 2):
        fast, slow = (first, second) if first.us <= second.us else (second, first)
        if fast.group == slow.group and fast.metric == slow.metric and slow.us > (1 + gap) * fast.us:
            yield fast, slow


# The grid's kernel (kernels/matmul_blocked.py) in closed form.


def tensor_us(entry: Entry) -> float:
    """Tensor-engine time of a matmul [K, M] x [K, N] at the full clock: rows of tiles times columns times cycles."""
    target = get_target(entry.target)
    tiles = ceil(entry.shape["K"] / target["limits.matmul_contraction_max"])
    tiles *= ceil(entry.shape["M"] / target["limits.matmul_stationary_free_max"])
    cycles = tiles * entry.shape["N"] * target[f"tensor.cycles_per_column.{entry.dtype}"]
    return cycles / target["clock_ghz.tensor"] / 1000


def baseline_us(entry: Entry) -> float:
    """The prediction without a model: slope x Tensor-engine time + offset."""
    formula = baseline()
    return formula.slope * tensor_us(entry) + formula.offset_us


def sbuf_bytes(entry: Entry) -> int:
    """Bytes per partition that a grid point keeps in SBUF: results of a block of N, one block of rhs, one of lhsT."""
    size, width, columns = _tile(entry)
    block_m, block_n, block_k = _blocks(entry)
    results = entry.shape["M"] // width * block_n * columns
    return size * (results + block_k * block_n * columns + block_k * block_m * width)


def stated_bytes(entry: Entry) -> int:
    """Bytes that a grid point's source moves: rhs and the result once, lhsT once per block of N."""
    size, _, columns = _tile(entry)
    k, m, n = (entry.shape[dim] for dim in "KMN")
    return size * (k * n + m * n + k * m * (n // (columns * _blocks(entry)[1])))


def stated_transfers(entry: Entry) -> int:
    """DMA instructions that a grid point's source issues."""
    _, width, columns = _tile(entry)
    block_m, block_n, _ = _blocks(entry)
    k_tiles = entry.shape["K"] // get_target(entry.target)["limits.matmul_contraction_max"]
    m_tiles, n_blocks = entry.shape["M"] // width, entry.shape["N"] // (columns * block_n)
    return n_blocks * (k_tiles + k_tiles * (m_tiles // block_m) + m_tiles)


def _tile(entry: Entry) -> tuple[int, int, int]:
    """Bytes per element, columns of the stationary tile, columns of the moving tile."""
    target = get_target(entry.target)
    width = target["limits.matmul_stationary_free_max"]
    return as_dtype(entry.dtype).itemsize, width, target[f"limits.matmul_moving_free_max.{entry.dtype}"]


def _blocks(entry: Entry) -> tuple[int, int, int]:
    return tuple(entry.variant[f"TILES_IN_BLOCK_{dim}"] for dim in "MNK")  # type: ignore[return-value]
