"""What the model is meant to reach on the measurements, and whether it does."""

from __future__ import annotations

from collections.abc import Mapping

from bench.calibration.compare import error, mean_error, ordering, parts, summary
from bench.calibration.groups import FITTED_ON, GRID, fold, left_out
from bench.calibration.measured import by_id

WORSE = 1.5
"""How many times worse than the others points may be that no fit has seen."""

LIMITS = {
    # name -> row of the report, which of its figures, at most
    "clean grid points, median": (f"{GRID}, clean", "median", 0.02),
    "clean grid points, 90th percentile": (f"{GRID}, clean", "p90", 0.12),
    "hard grid points, median": (f"{GRID}, hard", "median", 0.08),
    "hard grid points, 90th percentile": (f"{GRID}, hard", "p90", 0.20),
    "tutorial matmuls on trn2, worst": ("sdk-kernelopt-trn2", "worst", 0.10),
    "tutorial matmuls on trn1, worst": ("sdk-matmul-trn1", "worst", 0.25),
}


def goals(
    predictions: Mapping[str, float], within_bar: Mapping[str, bool], unseen_bar: Mapping[str, bool] | None = None
) -> str:
    """A line for each goal; `within_bar`: whether a kernel's measured time is within its error bar.

    unseen_bar: the same of held-out kernels with bars that were made without them (bench.calibration.bars).
    """
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
    apart = [inside for id, inside in within_bar.items() if fold(by_id()[id]) == "held out"]
    unseen = [inside for id, inside in within_bar.items() if left_out(by_id()[id])]
    made_without = list((unseen_bar or {}).values())
    for goal, inside in (
        ("held-out kernels within their error bar", apart),
        ("held-out kernels within bars made from the others alone", made_without),
        ("held-out kernels and all of groups without a fitted figure within their error bar", unseen),
    ):
        if inside:
            share = sum(inside) / len(inside)
            lines.append(_line(f"{goal}, {sum(inside)} of {len(inside)}", share, 0.8, share >= 0.8))
    return "\n".join(lines + _left_out(predictions))


def verdict(holds: bool) -> str:
    """The first word of a goal's line."""
    return "holds " if holds else "MISSES"


def _left_out(predictions: Mapping[str, float]) -> list[str]:
    """How much worse held-out points of groups with fitted figures are, all together and row by row.

    Other groups have no points that a figure has seen: whatever their errors are, no fit made them look better.
    """
    every: dict[str, list[float]] = {"fit": [], "held out": []}
    rows: dict[str, dict[str, list[float]]] = {}
    for id, predicted in predictions.items():
        entry = by_id()[id]
        if entry.group in FITTED_ON:
            every[fold(entry)].append(error(entry, predicted))
            for name in parts(entry):
                row = rows.setdefault(name, {"fit": [], "held out": []})
                row[fold(entry)].append(error(entry, predicted))
    lines = [_times("held-out points against others, all", every, figure) for figure in ("median", "mean", "p90")]
    lines += [_times(f"held-out points against others, {name}", row, "mean") for name, row in rows.items()]
    return [line for line in lines if line]


def _times(goal: str, folds: Mapping[str, list[float]], figure: str) -> str:
    """A line that says how many times worse left-out points are by a figure; empty where one side has no points."""
    if not folds["fit"] or not folds["held out"]:
        return ""
    fit, apart = (_figure(folds[side], figure) for side in ("fit", "held out"))
    worse = apart / fit if fit else float(apart > 0)
    counts = f"{len(folds['held out'])} and {len(folds['fit'])} points"
    return f"{verdict(worse <= WORSE)} {goal}, {figure}: {worse:.2f} of {WORSE} ({apart:.1%} and {fit:.1%}, {counts})"


def _figure(errors: list[float], figure: str) -> float:
    return mean_error(errors) if figure == "mean" else getattr(summary(errors), figure)


def _line(goal: str, value: float, limit: float, holds: bool) -> str:
    return f"{verdict(holds)} {goal}: {value:.1%} of {limit:.0%}"
