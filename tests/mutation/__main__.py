"""Does the test suite find faults? `make mutate`, or `python -m tests.mutation`.

Faults that places.py picks are put into lowering one by one. Each has to be found: first by the random programs of
`make test`, then by the tests of lowering. The table of all of them is written to results.md; survivors are listed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.inject import VARIABLE
from tests.mutation.places import AREAS, Fault, faults

RESULTS = Path(__file__).with_name("results.md")
ROOT = Path(__file__).parents[2]
RUNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("programs", ("-m", "tests.mutation.detect")),
    ("tests", ("-m", "pytest", "-q", "-x", "-p", "tests.mutation.inject", "-p", "no:cacheprovider", "tests/lower")),
)


@dataclass(frozen=True)
class Result:
    """What found a fault, and how; None: it survived."""

    fault: Fault
    by: str | None
    how: str
    seconds: float


def examine(fault: Fault, timeout: float, runs: int = len(RUNS)) -> Result:
    """Put a fault in and run what should find it, the fastest first."""
    start = time.perf_counter()
    environment = {**os.environ, VARIABLE: fault.key, "TILEWRIGHT_CACHE": "off"}
    for by, command in RUNS[:runs]:
        try:
            done = subprocess.run(
                [sys.executable, *command], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=timeout
            )
        except subprocess.TimeoutExpired:
            return Result(fault, by, "does not end", time.perf_counter() - start)
        if done.returncode:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            told = [line for line in lines if line.startswith(("FAILED", "ERROR", "program "))] or lines[-1:]
            return Result(fault, by, told[0][:100] if told else "", time.perf_counter() - start)
    return Result(fault, None, "", time.perf_counter() - start)


def table(results: Sequence[Result]) -> str:
    """All faults as a table, survivors first."""
    found = sum(result.by is not None for result in results)
    lines = [
        "# Faults put into lowering, and what finds them",
        "",
        f"`make mutate`: {found} of {len(results)} faults found. Places are picked from the source (places.py).",
        "",
        "| area | place | fault | before | after | found by |",
        "|---|---|---|---|---|---|",
    ]
    for result in sorted(results, key=lambda each: (each.by is not None, each.fault.area, each.fault.file)):
        fault = result.fault
        cells = [fault.area, f"{fault.file}:{fault.line}", fault.kind, f"`{fault.before}`", f"`{fault.after}`"]
        cells.append(f"{result.by}: {result.how}" if result.by else "**nothing**")
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: how many faults of each area."""
    parser = argparse.ArgumentParser(prog="mutation", description="are faults in lowering found by the tests?")
    parser.add_argument("-n", "--count", type=int, default=16, help="faults of each area (16)")
    parser.add_argument("-s", "--seed", type=int, default=0, help="another choice of places")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="processes (one for each core)")
    parser.add_argument("--area", choices=list(AREAS), help="only one area")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds after which a run does not end")
    parser.add_argument("--programs", action="store_true", help="only the random programs, not the tests of lowering")
    parser.add_argument("--list", action="store_true", help="print the faults instead of trying them")
    given = parser.parse_args(arguments)
    by_area = [faults(area, given.count, given.seed) for area in AREAS if given.area in (None, area)]
    picked = [fault for some in zip(*by_area, strict=True) for fault in some]
    runs = 1 if given.programs else len(RUNS)
    if given.list:
        for fault in picked:
            print(f"{fault.area:10} {fault.key:60} {fault.before}  ->  {fault.after}")
        return 0
    results: list[Result] = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for result in pool.map(lambda fault: examine(fault, given.timeout, runs), picked):
            results.append(result)
            print(f"{len(results)} of {len(picked)}: {result.fault.key}: {result.by} {result.how}", flush=True)
            RESULTS.write_text(table(results), encoding="utf-8")
    return 0 if all(result.by for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
