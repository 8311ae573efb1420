"""python -m bench.calibration.calibrate [GROUP ...]: predicted against measured, errors per group (make calibrate).

Every group left out in turn comes first, from what `bench.calibration.record` wrote down.
"""

from __future__ import annotations

import sys

from bench.calibration.bars import Predicted, within
from bench.calibration.compare import coverage, error, merging, report
from bench.calibration.goals import goals
from bench.calibration.groups import classify, fold
from bench.calibration.leave import shown
from bench.calibration.predict import predictions
from bench.calibration.record import measured, outdated, recorded


def main(groups: tuple[str, ...]) -> None:
    """Predict every case of the groups (all by default) and print the comparison."""
    known = recorded()
    rest = sorted({each.group for each in measured()} - {each.group for each in known})
    print(f"{shown(known)}\nnot recorded, kernels are too large: {', '.join(rest) or 'none'}\n", flush=True)
    found: dict[str, float] = {}
    merged: dict[str, float] = {}
    covered: dict[str, bool] = {}
    points: dict[str, Predicted] = {}
    for case, predicted in predictions(groups):
        entry, off = case.entry, error(case.entry, predicted.us)
        found[entry.id] = predicted.us
        if predicted.merged_us is not None:
            merged[entry.id] = predicted.merged_us
        if predicted.error_bar is not None:
            points[entry.id] = Predicted(predicted.us, predicted.spills)
            covered[entry.id] = abs(entry.us - predicted.us) <= predicted.error_bar * predicted.us
        shape = "x".join(map(str, entry.shape.values()))
        variant = ",".join(map(str, entry.variant.values()))
        bar = "" if predicted.error_bar is None else f"± {predicted.error_bar:.0%}"
        without = "" if predicted.merged_us is None else f"  left out {error(entry, predicted.merged_us):+7.1%}"
        print(
            f"{entry.id:26} {entry.kernel[:30]:30} {shape:18} {variant:10} {classify(entry):8} {fold(entry):8} "
            f"measured {entry.us:10.2f}  predicted {predicted.us:10.2f} us {bar:7} {off:+7.1%}{without}",
            flush=True,
        )
    print(f"\n{report(found)}\n")
    print(f"{coverage(covered)}\n\n{goals(found, covered, within(points))}")
    if merged:
        print(f"\n{merging(found, merged)}")
    print(f"\n{outdated(known, found)}")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
