"""Inside the totals of published kernels: busy engines and bytes, predicted beside what profilers counted, by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bench.calibration.public import Predicted

DIALECTS = {"current": (0.08, 0.25), "legacy": (0.12, 0.35)}
"""Median and 90th percentile that the kernels of a dialect together are meant to reach."""
ORDER = 0.97
COVER = 0.8


def truth(found: Sequence[Predicted]) -> str:
    """For each group and what was counted there: points, and the median and 90th percentile of how far off it is."""
    lines: list[str] = []
    for group in dict.fromkeys(each.point.group for each in found):
        offs: dict[str, list[float]] = {}
        for each in (each for each in found if each.point.group == group):
            for name, share in each.point.shares.items():
                if not share:
                    continue  # An engine that a profiler saw idle has no relative error.
                offs.setdefault(f"{name} busy", []).append(each.busy.get(name, 0.0) / (share * each.point.us) - 1)
            if each.point.hbm_read:
                offs.setdefault("HBM bytes read", []).append(each.read / each.point.hbm_read - 1)
        for what, by in offs.items():
            size = np.abs(by)
            lines.append(
                f"{group:34} {what:16} {len(by):3d}   median {np.median(by):+6.1%}   "
                f"size {np.median(size):6.1%} {np.quantile(size, 0.9):7.1%}"
            )
    return "\n".join(lines)


def goals(found: Sequence[Predicted], pairs: tuple[int, int], forms: tuple[int, int]) -> str:
    """What published kernels are meant to show, line by line, and whether they do."""
    lines: list[str] = []
    for dialect, limits in DIALECTS.items():
        own = [abs(each.us / each.point.us - 1) for each in found if each.point.dialect == dialect]
        if own:
            figures = float(np.median(own)), float(np.quantile(own, 0.9))
            shown = ", ".join(f"{figure:.1%} of {limit:.0%}" for figure, limit in zip(figures, limits, strict=True))
            holds = all(figure <= limit for figure, limit in zip(figures, limits, strict=True))
            lines.append(_line(f"{dialect} dialect, median and 90th percentile", shown, holds))
    inside = sum(abs(each.us - each.point.us) <= each.bar * each.us for each in found)
    counts = (("pairs in order", pairs, ORDER), ("fused against unfused", forms, 1.0))
    for what, (right, count), least in (*counts, ("within their error bar", (inside, len(found)), COVER)):
        if count:
            lines.append(_line(what, f"{right} of {count}, {right / count:.1%} of {least:.0%}", right >= least * count))
    return "\n".join(lines)


def _line(goal: str, shown: str, holds: bool) -> str:
    return f"{'holds ' if holds else 'MISSES'} {goal}: {shown}"
