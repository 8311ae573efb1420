"""Predictions against measurements: errors by group and class, points left out of fits apart, and ordering of pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from bench.calibration.groups import FITTED_ON, classify, fold, ordered_pairs
from bench.calibration.measured import Entry, by_id


@dataclass(frozen=True, slots=True)
class Summary:
    """Sizes of relative errors: how many, median, 90th percentile, worst."""

    count: int
    median: float
    p90: float
    worst: float

    def __str__(self) -> str:
        return f"{self.count:4d} {self.median:7.1%} {self.p90:7.1%} {self.worst:7.1%}"


def error(entry: Entry, predicted_us: float) -> float:
    """Predicted over measured, minus 1; 0 within the resolution of the measurement."""
    low, high = entry.us - entry.resolution_us, entry.us + entry.resolution_us
    if low <= predicted_us <= high:
        return 0.0
    return predicted_us / entry.us - 1


def summary(errors: Iterable[float]) -> Summary | None:
    """Median, 90th percentile and worst of the sizes of errors; None of none."""
    sizes = np.abs(np.fromiter(errors, float))
    if not sizes.size:
        return None
    return Summary(sizes.size, float(np.median(sizes)), float(np.percentile(sizes, 90)), float(sizes.max()))


def ordering(predictions: Mapping[str, float], gap: float) -> tuple[int, int]:
    """Pairs of one group, measured more than `gap` apart, that are predicted in order; and how many pairs there are."""
    known = [entry for id, entry in by_id().items() if id in predictions]
    pairs = list(ordered_pairs(known, gap))
    right = sum(predictions[fast.id] < predictions[slow.id] for fast, slow in pairs)
    return right, len(pairs)


def parts(entry: Entry) -> tuple[str, ...]:
    """Rows of a report that the point counts in: its group; in the grid its class, hard points as clean ones too."""
    kind = classify(entry)
    if kind == "other":
        return (entry.group,)
    kinds = {"easy": ("clean",), "hard": ("clean", "hard")}.get(kind, (kind,))
    return tuple(f"{entry.group}, {each}" for each in kinds)


def report(predictions: Mapping[str, float]) -> str:
    """The table of a calibration: errors of each group and class, of all points and of those left out of fits."""
    rows: dict[str, dict[str, list[float]]] = {}
    for id, predicted in predictions.items():
        entry = by_id()[id]
        for name in parts(entry):
            rows.setdefault(name, {"fit": [], "held out": []})[fold(entry)].append(error(entry, predicted))
    columns = "   n  median     p90   worst"
    lines = [f"{'':34} {'all':^28}   {'held out':^28}   against", f"{'':34} {columns:28}   {columns:28}   the fit"]
    for name, folds in rows.items():
        everything, apart = summary(folds["fit"] + folds["held out"]), summary(folds["held out"])
        fitted = name.partition(",")[0] in FITTED_ON
        worse = worse_by(folds["fit"], folds["held out"]) if fitted else "nothing fitted"
        lines.append(f"{name:34} {everything}   {'' if apart is None else apart!s:28}   {worse}".rstrip())
    return "\n".join(lines + [_order_line(predictions, gap) for gap in (0.15, 0.05)])


def mean_error(errors: list[float]) -> float:
    """The mean size of errors: of few points it says more than their median, which jumps."""
    return float(np.mean(np.abs(errors)))


def worse_by(fit: list[float], held_out: list[float]) -> str:
    """How many times worse points left out of fits are than the others."""
    if not fit or not held_out or not mean_error(fit):
        return ""
    return f"{mean_error(held_out) / mean_error(fit):5.2f}x"


def coverage(within_bar: Mapping[str, bool]) -> str:
    """How many kernels of each group were measured within their error bar, those left out of fits apart."""
    rows: dict[str, dict[str, list[bool]]] = {}
    for id, inside in within_bar.items():
        for name in (by_id()[id].group, "all"):
            rows.setdefault(name, {"fit": [], "held out": []})[fold(by_id()[id])].append(inside)
    rows["all"] = rows.pop("all", {"fit": [], "held out": []})
    lines = [f"{'within their error bar':34}       held out         others"]
    for name, folds in rows.items():
        apart, others = (f"{sum(folds[side]):3d} of {len(folds[side]):3d}" for side in ("held out", "fit"))
        lines.append(f"{name:34}     {apart}     {others}")
    return "\n".join(lines)


def merging(predictions: Mapping[str, float], merged: Mapping[str, float]) -> str:
    """Both predictions where the compiler may leave something out: which is closer, and is the measured one between?"""
    rows: dict[str, list[tuple[float, float]]] = {}
    for id, us in merged.items():
        entry = by_id()[id]
        for name in parts(entry):
            rows.setdefault(name, []).append((error(entry, predictions[id]), error(entry, us)))
    lines = [f"{'left out or not':34}    n  as written  left out   closer  between"]
    for name, pairs in rows.items():
        plain, without = (float(np.median(np.abs([pair[i] for pair in pairs]))) for i in (0, 1))
        closer = sum(abs(b) < abs(a) for a, b in pairs)
        between = sum(a >= 0 >= b or b >= 0 >= a for a, b in pairs)
        lines.append(f"{name:34} {len(pairs):4d} {plain:11.1%} {without:9.1%} {closer:8d} {between:8d}")
    return "\n".join(lines)


def _order_line(predictions: Mapping[str, float], gap: float) -> str:
    right, count = ordering(predictions, gap)
    share = f" ({right / count:.1%})" if count else ""
    return f"pairs more than {gap:.0%} apart in order: {right} of {count}{share}"
