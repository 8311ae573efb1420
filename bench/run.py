"""make bench: how long users wait for the package itself, beside what NumPy takes on the same machine.

Figures are printed, asserted nowhere. `python bench/run.py simulator` runs one part.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

Row = tuple[str, float, str]


def baseline() -> list[Row]:
    """This machine: what NumPy takes, so that ratios can be compared across machines."""
    import numpy as np

    a = np.random.default_rng(0).standard_normal((2048, 2048), dtype=np.float32)
    small = np.ones((128, 8), np.float32)
    return [
        ("2048^3 float32 matmul in NumPy", 1e3 * best(lambda: a @ a, 3), "ms"),
        ("add of two [128, 8] float32 tiles in NumPy", 1e6 * best(lambda: small + small, 2000), "us"),
    ]


def imports() -> list[Row]:
    """Starting up: `import numpy` alone, and the package."""

    def seconds(statement: str) -> float:
        return best(lambda: subprocess.run([sys.executable, "-c", statement], check=True, cwd=ROOT), 3)

    bare, numpy, package = (seconds(text) for text in ("pass", "import numpy", "import tilewright"))
    return [("import numpy", 1e3 * (numpy - bare), "ms"), ("import tilewright", 1e3 * (package - bare), "ms")]


def best(action: Callable[[], object], times: int) -> float:
    """Seconds of the fastest of so many runs."""
    fastest = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        action()
        fastest = min(fastest, time.perf_counter() - start)
    return fastest


def parts() -> dict[str, Callable[[], list[Row]]]:
    """The parts in the order they are run; imported here, so that `import tilewright` is measured cold."""
    from bench import ir, simulator, timing

    return {"baseline": baseline, "import": imports, "ir": ir.rows, "simulator": simulator.rows, "timing": timing.rows}


def main(wanted: list[str]) -> int:
    """Run the parts named (all by default) and print their rows as they come."""
    known = parts()
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"no part named {unknown[0]}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    print(f"Python {platform.python_version()}, {platform.machine()}")
    for name in wanted or known:
        print(f"\n{name}")
        for what, value, unit in known[name]():
            print(f"  {what:60} {value:10.3g} {unit}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
