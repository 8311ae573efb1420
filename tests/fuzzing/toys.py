"""Toy targets (toys.toml): so small that small arrays reach every decision, thresholds scaled down with them.

A `Setting` is what a program is compiled for: a target, a toy one or the real one, and the thresholds that differ.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.cache import VARIABLE
from tilewright.lower.tuning import Tuning, tuned
from tilewright.target import Target, get_target, tomllib

FILE = Path(__file__).with_name("toys.toml")
REAL = ("trn1", "trn2", "trn3")


def toy_target(name: str, base: str, partitions: int, sbuf_bytes: int, psum_banks: int, psum_bank_bytes: int) -> Target:
    """A generation of the hardware with fewer partitions and less memory; what depends on them follows."""
    quarter, half = partitions // 4, partitions // 2
    columns = psum_bank_bytes // 4
    starts = [[quarter, list(range(0, partitions, quarter))], [half, [0, half]], [partitions, [0]]]
    figures = {
        "limits.partitions": partitions,
        "limits.half_partitions": half,
        "limits.quadrant_partitions": quarter,
        "limits.pe_rows": partitions,
        "limits.pe_columns": partitions,
        "limits.pe_tile_sizes": [quarter, half, partitions],
        "limits.matmul_contraction_max": partitions,
        "limits.matmul_stationary_free_max": partitions,
        **{f"limits.matmul_moving_free_max.{kind}": columns for kind in ("float32", "bfloat16", "float16")},
        "limits.transpose_tensor_max": partitions,
        "limits.transpose_vector_max": quarter,
        "limits.shuffle_width": quarter,
        "limits.gpsimd_group_partitions": quarter,
        "limits.vector_free_max_psum": psum_banks * columns,
        "memory.sbuf_bytes": sbuf_bytes,
        "memory.sbuf_usable_bytes": sbuf_bytes,
        "memory.psum_banks": psum_banks,
        "memory.psum_banks_with_pe_dma_transpose": psum_banks - 1,
        "memory.psum_bank_bytes": psum_bank_bytes,
        "memory.psum_bytes": psum_banks * psum_bank_bytes,
        "memory.partition_starts": starts,
    }
    return get_target(base).replace(figures, name)


@functools.cache
def _file() -> Mapping[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


@functools.cache
def toys() -> dict[str, Target]:
    """The toy targets by name."""
    return {each["name"]: toy_target(**each) for each in _file()["toy"]}


@functools.cache
def small_tuning() -> dict[str, Any]:
    """The thresholds of toy targets."""
    given = {name: tuple(x) if isinstance(x, list) else x for name, x in _file()["tuning"].items()}
    return {name: given[name] for name in Tuning.__slots__ if name in given}


@dataclass(frozen=True)
class Setting:
    """What a program is compiled for: a toy target with small thresholds or a real one, some thresholds changed."""

    target: str
    changed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_toy(self) -> bool:
        """False for the hardware as it is."""
        return self.target in toys()

    @property
    def machine(self) -> Target:
        """The target itself."""
        return toys()[self.target] if self.is_toy else get_target(self.target)

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Lowering decides by these thresholds for a while, without the cache, whose keys they are no part of."""
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = "off"
        try:
            with tuned(**({**small_tuning(), **self.changed} if self.is_toy else self.changed)):
                yield
        finally:
            if before is None:
                del os.environ[VARIABLE]
            else:
                os.environ[VARIABLE] = before

    def __str__(self) -> str:
        changed = "".join(f", {name}={x!r}" for name, x in self.changed.items())
        return f"{self.target}{changed}"


def random_setting(rng: np.random.Generator) -> Setting:
    """A toy target; every third time some thresholds are moved up or down by up to a factor of four."""
    target = str(rng.choice(list(toys())))
    if rng.random() < 0.67:
        return Setting(target)
    numbers = small_tuning()
    names = rng.choice([n for n, x in numbers.items() if isinstance(x, int)], int(rng.integers(1, 6)), replace=False)
    return Setting(target, {str(n): max(int(numbers[str(n)] * 2.0 ** rng.uniform(-2, 2)), 1) for n in names})
