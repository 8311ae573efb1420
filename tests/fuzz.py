"""Random NumPy programs through the whole compiler: `make fuzz`, or `python -m tests.fuzz`.

Every program is compared with NumPy as it is traced, printed, read back, narrowed, simplified and decomposed
(tests/front/fuzz.py); then its kernels for all targets are verified, one is run on the simulator and as emitted source
(tests/lower/fuzz.py). Programs run on all cores. A failure is reported with its seed, the fewest lines that still show
it, and the command that runs it again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field

from tests.front.fuzz import MOST_STEPS, Difference, Program, check_program, generate, minimise
from tests.lower.fuzz import check_lowered, sizes_of, target_of

TOGETHER = 20
"""Programs that a process runs before it reports."""


@dataclass(slots=True)
class Found:
    """What some programs showed: reports of failures, ops used, how many kernels ran and their instructions."""

    programs: int = 0
    failures: list[tuple[int, str, str]] = field(default_factory=list)
    used: Counter[str] = field(default_factory=Counter)
    kernels: int = 0
    instructions: int = 0

    def add(self, other: Found) -> None:
        """Take over what other programs showed."""
        self.programs += other.programs
        self.failures += other.failures
        self.used += other.used
        self.kernels += other.kernels
        self.instructions += other.instructions


def check_both(program: Program) -> Counter[str]:
    """Everything there is to compare; raises Difference."""
    used = check_program(program)
    used["kernels"] = 0
    executed = check_lowered(program)
    if executed:
        used["kernels"], used["instructions"] = 1, executed
    return used


def run(first: int, count: int, steps: int, shrink: bool = True) -> Found:
    """Run programs of consecutive seeds."""
    found = Found()
    kinds: set[str] = set()
    for seed in range(first, first + count):
        program = generate(seed, steps, sizes_of(seed))
        found.programs += 1
        try:
            used = check_both(program)
        except Difference as difference:
            report = "again"
            if difference.kind not in kinds:
                small = minimise(program, difference.kind, check_both) if shrink else program
                report = f"{difference}\n{_shown(small)}"
            kinds.add(difference.kind)
            found.failures.append((seed, difference.kind, report))
            continue
        found.kernels += used.pop("kernels", 0)
        found.instructions += used.pop("instructions", 0)
        found.used += used
    return found


def _shown(program: Program) -> str:
    """A program with its inputs, or with their shapes where they are long."""
    if sum(x.size for x in program.inputs.values()) <= 64:
        return program.script()
    shapes = ", ".join(f"{name}: {x.dtype}{list(x.shape)}" for name, x in program.inputs.items())
    return f"# {shapes}\n{program.source()}"


def fuzz(count: int, seed: int, steps: int, jobs: int, shrink: bool = True) -> Found:
    """Run programs on several processes, saying how far they are."""
    total = Found()
    start = shown = time.perf_counter()
    with ProcessPoolExecutor(jobs) as pool:
        parts = [
            pool.submit(run, first, min(TOGETHER, seed + count - first), steps, shrink)
            for first in range(seed, seed + count, TOGETHER)
        ]
        for part in as_completed(parts):
            total.add(part.result())
            now = time.perf_counter()
            if now - shown > 10 and total.programs < count:
                shown = now
                left = (now - start) / total.programs * (count - total.programs)
                print(
                    f"{total.programs} of {count} programs, {len(total.failures)} failures, {left / 60:.0f} min left",
                    file=sys.stderr,
                )
    return total


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: how many programs, from which seed."""
    parser = argparse.ArgumentParser(prog="fuzz", description="random NumPy programs through the whole compiler")
    parser.add_argument("-n", "--count", type=int, default=10_000, help="how many programs (10000)")
    parser.add_argument("-s", "--seed", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--steps", type=int, default=MOST_STEPS, help="the most steps of a program (30)")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="processes (one for each core)")
    parser.add_argument("--show", action="store_true", help="print the programs instead of running them")
    parser.add_argument("--whole", action="store_true", help="show failing programs as they are, without shrinking")
    given = parser.parse_args(arguments)
    if given.show:
        for seed in range(given.seed, given.seed + given.count):
            print(f"# seed {seed}, run on {target_of(seed)}\n{generate(seed, given.steps, sizes_of(seed)).script()}")
        return 0
    start = time.perf_counter()
    found = fuzz(given.count, given.seed, given.steps, given.jobs, not given.whole)
    told: set[str] = set()
    for seed, kind, report in sorted(found.failures):
        again = f"python -m tests.fuzz -n 1 -s {seed} --steps {given.steps} -j 1"
        if kind in told or report == "again":
            print(f"seed {seed}: {kind} again ({again})\n")
            continue
        told.add(kind)
        print(f"seed {seed}: {report}\nto run it: {again}\n")
    seconds = time.perf_counter() - start
    print(
        f"{found.programs} programs from seed {given.seed}: {len(found.failures)} failures; {found.used.total()} ops "
        f"of {len(found.used)} kinds; {found.kernels} kernels run, {found.instructions} instructions; {seconds:.0f} s"
    )
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
