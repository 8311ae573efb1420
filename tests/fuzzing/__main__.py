"""Random programs that reuse what they compute, on toy targets and real ones: `make fuzz`, `python -m tests.fuzzing`.

Programs run on all cores. A failure is shown as the smallest NumPy function found that fails alike, with its arguments,
its seed, its target and the thresholds that were moved. The summary has failures and refusals by kind, and how often
each decision of lowering was reached.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field

import numpy as np

from tests.fuzzing.check import Failure, check
from tests.fuzzing.decisions import declared
from tests.fuzzing.grow import grow
from tests.fuzzing.program import Program
from tests.fuzzing.shrink import shrink
from tests.fuzzing.sizes import SIZES
from tests.fuzzing.toys import REAL, Setting, random_setting
from tests.fuzzing.variants import VARIANTS

TOGETHER = 25
"""Programs that a process runs before it reports."""
SOURCES = 10
"""The emitted source of every so many programs is run."""
OTHERS = 8
"""Every so many programs are compared with another form of themselves."""


@dataclass(slots=True)
class Found:
    """What some programs showed."""

    programs: int = 0
    reused: int = 0
    failures: list[tuple[int, str, str]] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    decisions: Counter[str] = field(default_factory=Counter)

    def add(self, other: Found) -> None:
        """Take over what other programs showed."""
        self.programs += other.programs
        self.reused += other.reused
        self.failures += other.failures
        self.refused += other.refused
        self.decisions += other.decisions


def program_of(seed: int, sizes: str, only: Sequence[str] = ()) -> Program:
    """The program of a seed: on a toy target, or on one of the real ones.    only: statements that it begins with."""
    rng = np.random.default_rng([seed, 1])
    setting = random_setting(rng) if sizes == "toy" else Setting(REAL[seed % len(REAL)])
    return grow(seed, SIZES[sizes], setting, only)


def variant_of(program: Program) -> Program | None:
    """Another form of a program, if it is one of those that are compared with one."""
    if program.seed % OTHERS != 3:
        return None
    rng = np.random.default_rng([program.seed, 2])
    return VARIANTS[int(rng.integers(len(VARIANTS)))](program, rng)


def run(first: int, count: int, sizes: str = "toy", seconds: float = 60.0, only: Sequence[str] = ()) -> Found:
    """Run programs of consecutive seeds.    seconds: how long a failure may be shrunk; 0: not at all."""
    found = Found()
    kinds: set[str] = set()
    for seed in range(first, first + count):
        program = program_of(seed, sizes, only)
        found.programs += 1
        found.reused += program.reuses()
        try:
            outcome = check(program, seed % SOURCES == 0, variant_of(program))
        except Failure as failure:
            report = "again"
            if failure.kind not in kinds:
                again = functools.partial(check, source=failure.kind.startswith("source"))
                small = program if failure.kind == "variant" else shrink(program, failure, again, seconds)
                report = f"{failure}\n{small}"
            kinds.add(failure.kind)
            found.failures.append((seed, failure.kind, report))
            print(f"seed {seed}: {failure.kind}", file=sys.stderr, flush=True)
            continue
        found.decisions += outcome.decisions
        if outcome.refused is not None:
            found.refused[outcome.refused] += 1
    return found


def fuzz(
    count: int, seed: int, jobs: int, sizes: str = "toy", seconds: float = 60.0, only: Sequence[str] = ()
) -> Found:
    """Run programs on several processes, saying how far they are."""
    total = Found()
    start = shown = time.perf_counter()
    with ProcessPoolExecutor(jobs) as pool:
        firsts = range(seed, seed + count, TOGETHER)
        parts = [pool.submit(run, first, min(TOGETHER, seed + count - first), sizes, seconds, only) for first in firsts]
        for part in as_completed(parts):
            total.add(part.result())
            now = time.perf_counter()
            if now - shown > 10 and total.programs < count:
                shown = now
                left = (now - start) / total.programs * (count - total.programs)
                told = f"{total.programs} of {count} programs, {len(total.failures)} failures, {left / 60:.0f} min left"
                print(told, file=sys.stderr, flush=True)
    return total


def summary(found: Found, sizes: str, seed: int, seconds: float) -> str:
    """A table of what was found."""
    lines = [f"{found.programs} programs ({sizes}) from seed {seed}: {len(found.failures)} failures; {seconds:.0f} s"]
    lines.append(f"{found.reused / max(found.programs, 1):.0%} read a value three times or more")
    for kind, count in Counter(kind for _, kind, _ in found.failures).most_common():
        lines.append(f"  failed  {count:7}  {kind}")
    for reason, count in found.refused.most_common():
        lines.append(f"  refused {count:7}  {reason}")
    lines += [f"  reached {found.decisions[name]:7}  {name}" for name in declared()]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: how many programs, from which seed."""
    parser = argparse.ArgumentParser(prog="fuzzing", description="random programs that reuse what they compute")
    parser.add_argument("-n", "--count", type=int, default=10_000, help="how many programs (10000)")
    parser.add_argument("-s", "--seed", type=int, default=None, help="the first seed (by the clock)")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="processes (one for each core)")
    parser.add_argument(
        "--sizes", choices=list(SIZES), default="toy", help="toy targets, or real ones with arrays so large"
    )
    parser.add_argument("--only", default="", help="statements that programs begin with, by name: taps,sorted_rows")
    parser.add_argument("--show", action="store_true", help="print the programs instead of running them")
    parser.add_argument("--whole", action="store_true", help="show failing programs as they are, without shrinking")
    given = parser.parse_args(arguments)
    seed = int(time.time()) % 1_000_000 * 1000 if given.seed is None else given.seed
    only = tuple(filter(None, given.only.split(",")))
    if given.show:
        for each in range(seed, seed + given.count):
            print(program_of(each, given.sizes, only))
        return 0
    start = time.perf_counter()
    found = fuzz(given.count, seed, given.jobs, given.sizes, 0.0 if given.whole else 60.0, only)
    told: set[str] = set()
    for each, kind, report in sorted(found.failures):
        again = f"python -m tests.fuzzing -n 1 -s {each} -j 1 --sizes {given.sizes}" + f" --only {given.only}" * bool(
            only
        )
        shown = f"{kind} again ({again})" if kind in told or report == "again" else f"{report}\nto run it: {again}"
        told.add(kind)
        print(f"seed {each}: {shown}\n")
    print(summary(found, given.sizes, seed, time.perf_counter() - start))
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
