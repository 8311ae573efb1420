"""Extents of random arrays: odd ones, and those around what the hardware and the thresholds of lowering count by."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from tests.fuzzing.readings import Shape


@dataclass(frozen=True)
class Sizes:
    """Extents to choose from, how many elements an array has at most, and how many dims one has, by weight."""

    extents: tuple[int, ...]
    around: tuple[int, ...]
    """Extents that are taken with one less and one more as well."""
    largest: int
    ranks: tuple[float, ...] = (0.02, 0.15, 0.5, 0.23, 0.08, 0.02)

    def dims(self, rng: np.random.Generator) -> tuple[int, ...]:
        """The few extents of a program, so that values fit together."""
        every = [*self.extents, *(n + d for n in self.around for d in (-1, 0, 1))]
        return tuple(int(rng.choice(every)) for _ in range(3))

    def shape(self, rng: np.random.Generator, dims: tuple[int, ...]) -> Shape:
        """A shape of a program; one extent is sometimes a little less, or another."""
        rank = int(rng.choice(len(self.ranks), p=self.ranks))
        shape = [int(rng.choice(dims)) for _ in range(rank)]
        if rank and rng.random() < 0.15:
            shape[int(rng.integers(rank))] = int(rng.choice([1, 2, 3, max(shape[0] - 1, 1)]))
        while prod(shape) > self.largest:
            del shape[0]
        return tuple(shape)


TOY = Sizes((1, 2, 3, 4, 5, 6, 7, 10, 12, 13, 30, 50, 80), (8, 16, 20, 24, 32, 64, 96), 2000)
SMALL = Sizes((1, 2, 3, 5, 12, 33, 100, 200), (32, 64, 128), 40_000)
LARGE = Sizes((64, 200, 300, 1500), (128, 512, 1025, 1024, 2048), 1 << 22, (0, 0.05, 0.75, 0.2))
SIZES = {"toy": TOY, "small": SMALL, "large": LARGE}
