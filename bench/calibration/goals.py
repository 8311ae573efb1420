"""What the model is meant to reach on the measurements, and whether it does."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bench.calibration.compare import error, mean_error, ordering, parts, summary
from bench.calibration.groups import GRID, fold
from bench.calibration.measured import by_id

ENOUGH = 5
"""Points that must be left out of a group before their mean error says something about it."""

LIMITS = {
    # name -> row of the report, which of its figures, at most
    "clean grid points, median": (f"{GRID}, clean", "median", 0.02),
    "clean grid points, 90th percentile": (f"{GRID}, clean", "p90", 0.12),
    "hard grid points, median": (f"{GRID}, hard", "median", 0.08),
    "hard grid points, 90th percentile": (f"{GRID}, hard", "p90", 0.20),
    "tutorial matmuls on trn2, worst": ("sdk-kernelopt-trn2", "worst", 0.10),
    "tutorial matmuls on trn1, worst": ("sdk-matmul-trn1", "worst", 0.25),
}


def goals(predictions: Mapping[str, float], within_bar: tuple[int, int]) -> str:
    """A line for each goal; `within_bar`: how many held-out kernels are within their error bar, of how many."""
    errors: dict[str, dict[str, float]] = {}
    for id, predicted in predictions.items():
        for name in parts(by_id()[id]):
            errors.setdefault(name, {})[id] = error(by_id()[id], predicted)
    lines: list[str] = []
    for goal, (row, figure, limit) in LIMITS.items():
        found = summary(errors.get(row, {}).values())
        if found is not None:
            lines.append(_line(goal, getattr(found, figure), limit, getattr(found, figure) <= limit))
    right, count = ordering(predictions, 0.15)
    if count:
        lines.append(_line("pairs 15% apart in order, at least", right / count, 0.9, right / count >= 0.9))
    good, held_out = within_bar
    if held_out:
        lines.append(_line("left-out kernels within their error bar", good / held_out, 0.8, good / held_out >= 0.8))
    for row, found in errors.items():
        fit, apart = ([each for id, each in found.items() if fold(by_id()[id]) == side] for side in ("fit", "held out"))
        if len(apart) >= ENOUGH and fit:
            times = mean_error(apart) / mean_error(fit) if mean_error(fit) else float(np.any(apart))
            lines.append(
                f"{'holds ' if times <= 1.5 else 'MISSES'} left-out points against others, {row}: {times:.2f} of 1.5"
            )
    return "\n".join(lines)


def _line(goal: str, value: float, limit: float, holds: bool) -> str:
    return f"{'holds ' if holds else 'MISSES'} {goal}: {value:.1%} of {limit:.0%}"
