"""Does the test suite find faults? `make mutate`, or `python -m tests.mutation`.

Faults that places.py picks are put into lowering one by one. Each has to be found by the random programs of `make test`
or by the tests of lowering, neither of which lets kernels check themselves. It is tried on those that reach its place,
which a first run finds out (reach.py), the quickest first. The table of all of them is written to results.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.inject import VARIABLE
from tests.mutation.places import AREAS, Fault
from tests.mutation.reach import FOUND, places

RESULTS = Path(__file__).with_name("results.md")
ROOT = Path(__file__).parents[2]
PYTEST = ("-m", "tests.mutation.tested")
MOST = {"programs": 40, "tests": 25}
"""Programs and tests that a fault is tried on."""
SECONDS = 240
"""CPU time after which a run does not end."""


@dataclass(frozen=True)
class Result:
    """What found a fault, and how; None: it survived.    reached: programs and tests that came by."""

    fault: Fault
    by: str | None
    how: str
    reached: int


def examine(fault: Fault, reached: dict[str, dict[str, list[str]]]) -> Result:
    """Put a fault in and run what comes by it."""
    programs, tests = (reached.get(kind, {}).get(fault.key, []) for kind in MOST)
    count = len(programs) + len(tests)
    chosen = [word for name in programs[: MOST["programs"]] for word in name.split()]
    for by, command, some in (
        ("programs", ("-m", "tests.mutation.detect", *chosen), chosen),
        ("tests", (*PYTEST, *tests[: MOST["tests"]]), tests),
    ):
        found = _run(command, fault) if some else None
        if found is not None:
            return Result(fault, by, found, count)
    return Result(fault, None, "", count)


def _run(command: Sequence[str], fault: Fault) -> str | None:
    """What a run with a fault in it tells; None where it finds nothing."""
    environment = {**os.environ, VARIABLE: fault.key, "TILEWRIGHT_CACHE": "off"}

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    arguments = [sys.executable, *command]
    done = subprocess.run(arguments, env=environment, cwd=ROOT, capture_output=True, text=True, preexec_fn=limit)
    if done.returncode == 0:
        return None
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return "does not end"
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("FAILED", "ERROR", "program "))] or lines[-1:]
    return told[0].split(" - ")[0][:100] if told else ""


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
        nothing = "**nothing**" if result.reached else "**nothing: not reached**"
        cells.append(f"{result.by}: {result.how}" if result.by else nothing)
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: how many faults of each area."""
    parser = argparse.ArgumentParser(prog="mutation", description="are faults in lowering found by the tests?")
    parser.add_argument("-n", "--count", type=int, default=10, help="faults of each area (10)")
    parser.add_argument("-s", "--seed", type=int, default=0, help="another choice of places")
    parser.add_argument("--area", choices=list(AREAS), help="only one area")
    parser.add_argument("--place", default="", help="only places that begin so")
    parser.add_argument("--again", action="store_true", help="find out again what reaches which place")
    parser.add_argument("--list", action="store_true", help="print the faults instead of trying them")
    given = parser.parse_args(arguments)
    picked = [fault for fault in places(given.count, given.seed) if given.area in (None, fault.area)]
    picked = [fault for fault in picked if fault.key.startswith(given.place)]
    if given.list:
        for fault in picked:
            print(f"{fault.area:10} {fault.key:60} {fault.before}  ->  {fault.after}")
        return 0
    if given.again or not FOUND.exists():
        for kind in MOST:
            command = ["-m", "tests.mutation.reach", kind, "-n", str(given.count), "-s", str(given.seed)]
            subprocess.run([sys.executable, *command], cwd=ROOT, check=True)
    reached = json.loads(FOUND.read_text(encoding="utf-8"))
    results: list[Result] = []
    for fault in picked:
        results.append(examine(fault, reached))
        print(f"{len(results)} of {len(picked)}: {fault.key}: {results[-1].by} {results[-1].how}", flush=True)
        if not given.place and given.area is None:
            RESULTS.write_text(table(results), encoding="utf-8")
    return 0 if all(result.by for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
