"""make bench: how good the compiled corpus is, and how long users wait, beside what NumPy takes on the same machine.

Counts and model times of kernels are asserted by tests/bench; seconds are printed and asserted nowhere.
`python bench/run.py compiler -k attention --target trn3` measures some programs on another target.
"""

from __future__ import annotations

import argparse
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


def ir() -> list[Row]:
    """The IR core, per op."""
    from bench import ir

    return ir.rows()


def simulator() -> list[Row]:
    """The simulator, per instruction."""
    from bench import simulator

    return simulator.rows()


def timing() -> list[Row]:
    """The timing model, per instruction."""
    from bench import timing

    return timing.rows()


ROWS: dict[str, Callable[[], list[Row]]] = {
    "baseline": baseline,
    "import": imports,
    "ir": ir,
    "simulator": simulator,
    "timing": timing,
}
PARTS = ("compiler", "library", *ROWS)


def options(arguments: list[str]) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="bench/run.py", description="Measure the compiler, and what users wait for.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all by default")
    parser.add_argument(
        "-k",
        dest="programs",
        action="append",
        default=[],
        metavar="NAME",
        help="programs with this in their name, may be given several times",
    )
    parser.add_argument("--target", default="trn2", help="target of the compiler, trn2 by default")
    parser.add_argument("--no-check", action="store_true", help="do not compare results with NumPy")
    parser.add_argument("--json", action="store_true", help="the compiler's figures as JSON, and nothing else")
    found = parser.parse_args(arguments)
    unknown = [name for name in found.parts if name not in PARTS]
    if unknown:
        parser.error(f"no part named {unknown[0]}; there are {', '.join(PARTS)}")
    if found.json:
        found.parts = ["compiler"]
    return found


def main(arguments: list[str]) -> int:
    """Run the parts named (all by default) and print what they find as it comes."""
    asked = options(arguments)
    if not asked.json:
        print(f"Python {platform.python_version()}, {platform.machine()}")
    for name in asked.parts or PARTS:
        if not asked.json:
            print(f"\n{name}")
        if name == "compiler":
            from bench import compiler

            compiler.run(asked.programs, asked.target, not asked.no_check, asked.json)
            continue
        if name == "library":
            from bench import library

            library.run(asked.programs)
            continue
        for what, value, unit in ROWS[name]():
            print(f"  {what:60} {value:10.3g} {unit}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
