"""python -m bench.calibration.calibrate [GROUP ...]: predicted against measured, errors per group (make calibrate)."""

from __future__ import annotations

import sys

from bench.calibration.compare import error, merging, report
from bench.calibration.goals import goals
from bench.calibration.groups import classify, fold
from bench.calibration.predict import predictions


def main(groups: tuple[str, ...]) -> None:
    """Predict every case of the groups (all by default) and print the comparison."""
    found: dict[str, float] = {}
    merged: dict[str, float] = {}
    covered: dict[str, list[bool]] = {}
    for case, predicted in predictions(groups):
        entry, off = case.entry, error(case.entry, predicted.us)
        found[entry.id] = predicted.us
        if predicted.merged_us is not None:
            merged[entry.id] = predicted.merged_us
        if predicted.error_bar is not None and fold(entry) == "held out":
            inside = abs(entry.us - predicted.us) <= predicted.error_bar * predicted.us
            covered.setdefault(entry.group, []).append(inside)
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
    every = [inside for group in covered.values() for inside in group]
    for group, inside in covered.items():
        print(f"held out, within their error bar: {sum(inside):3d} of {len(inside):3d}  {group}")
    if every:
        print(f"held out, within their error bar: {sum(every):3d} of {len(every):3d}  {sum(every) / len(every):.0%}")
    print(f"\n{goals(found, (sum(every), len(every)))}")
    if merged:
        print(f"\n{merging(found, merged)}")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
