"""The random programs that `make test` runs: sizes and seed of each, the same every time."""

from __future__ import annotations

TOYS, SMALL, LARGE = 240, 24, 4
SAMPLE: tuple[tuple[str, int], ...] = (
    *(("toy", seed) for seed in range(TOYS)),
    *(("small", seed) for seed in range(SMALL)),
    *(("large", seed) for seed in range(LARGE)),
)
