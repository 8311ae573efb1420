"""python -m bench.calibration: what was measured, which cases stand for it, how the formula without a model does."""

from __future__ import annotations

from collections import Counter

from bench.calibration.cases import CASES, INEXPRESSIBLE
from bench.calibration.compare import parts, report
from bench.calibration.groups import GRID, baseline_us
from bench.calibration.measured import by_id, entries


def main() -> None:
    """Print the overview."""
    counts = Counter(name for entry in entries() for name in parts(entry))
    cases = Counter(name for case in CASES.values() for name in parts(case.entry))
    print(f"{'':34} measured  cases")
    for name, count in counts.items():
        print(f"{name:34} {count:8d} {cases[name]:6d}")
    print(f"{'':34} {len(entries()):8d} {len(CASES):6d}\n\nwithout a case:")
    for id, reason in INEXPRESSIBLE.items():
        print(f"  {id} {by_id()[id].kernel}: {reason}")
    print("\nthe formula without a model, on the grid:")
    print(report({entry.id: baseline_us(entry) for entry in entries() if entry.group == GRID}))


if __name__ == "__main__":
    main()
