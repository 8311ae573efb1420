"""python -m bench.calibration.calibrate [GROUP ...]: predicted against measured, errors per group (make calibrate)."""

from __future__ import annotations

import sys

from bench.calibration.compare import error, report
from bench.calibration.groups import classify, fold
from bench.calibration.predict import predictions


def main(groups: tuple[str, ...]) -> None:
    """Predict every case of the groups (all by default) and print the comparison."""
    found: dict[str, float] = {}
    for case, predicted in predictions(groups):
        entry = case.entry
        found[entry.id] = predicted
        shape = "x".join(map(str, entry.shape.values()))
        variant = ",".join(map(str, entry.variant.values()))
        print(
            f"{entry.id:26} {entry.kernel[:30]:30} {shape:18} {variant:10} {classify(entry):8} {fold(entry):8} "
            f"measured {entry.us:10.2f}  predicted {predicted:10.2f} us  {error(entry, predicted):+7.1%}",
            flush=True,
        )
    print(f"\n{report(found)}")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
