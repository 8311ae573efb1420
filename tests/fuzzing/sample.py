"""The random programs that `make test` runs, always the same; TILEWRIGHT_FUZZ=1 runs more. Sizes and seed of each."""

from __future__ import annotations

import os

TOYS, SMALL, LARGE = (240, 24, 4) if os.environ.get("TILEWRIGHT_FUZZ") else (144, 16, 3)
SAMPLE: tuple[tuple[str, int], ...] = (
    *(("toy", seed) for seed in range(TOYS)),
    *(("small", seed) for seed in range(SMALL)),
    *(("large", seed) for seed in range(LARGE)),
)
