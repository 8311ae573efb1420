"""python -m bench.calibration.calibrate [GROUP ...]: predicted against measured, errors per group (make calibrate)."""

from __future__ import annotations

import sys

from bench.calibration.compare import error, report
from bench.calibration.groups import classify, fold
from bench.calibration.predict import predictions


def main(groups: tuple[str, ...]) -> None:
    """Predict every case of the groups (all by default) and print the comparison."""
    found: dict[str, float] = {}
    covered: list[bool] = []
    for case, predicted in predictions(groups):
        entry, off = case.entry, error(case.entry, predicted.us)
        found[entry.id] = predicted.us
        if predicted.error_bar is not None and fold(entry) == "held out":
            covered.append(abs(entry.us - predicted.us) <= predicted.error_bar * predicted.us)
        shape = "x".join(map(str, entry.shape.values()))
        variant = ",".join(map(str, entry.variant.values()))
        bar = "" if predicted.error_bar is None else f"± {predicted.error_bar:.0%}"
        print(
            f"{entry.id:26} {entry.kernel[:30]:30} {shape:18} {variant:10} {classify(entry):8} {fold(entry):8} "
            f"measured {entry.us:10.2f}  predicted {predicted.us:10.2f} us {bar:7} {off:+7.1%}",
            flush=True,
        )
    print(f"\n{report(found)}")
    if covered:
        share = sum(covered) / len(covered)
        print(f"held-out kernels within their error bar: {sum(covered)} of {len(covered)} ({share:.0%})")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
