"""Random programs, small to large, against their own bound: `python -m tests.bounds.fuzz -n 1000`.

The generator of `tests.front.fuzz` makes them, that of `tests.fuzzing`, which is biased to reuse, every fourth. Of the
former, half return every variable, the others only those that nothing else uses: what is then not needed must not be
counted.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from tests.front.fuzz import NAMES, Program, generate, quiet
from tests.front.fuzz_choices import LARGE, SMALL, Sizes
from tests.fuzzing.__main__ import program_of
from tests.fuzzing.check import Failure, Outcome
from tests.fuzzing.check import compiled as as_compiled
from tests.lower.fuzz import instructions
from tilewright.compiler import Compiled
from tilewright.errors import TileError
from tilewright.front.function import trace

HUGE = Sizes(1 << 21, (1, 2, 3, 64, 128, 300, 1024, 2048, 4096), (3, 2, 2, 4, 5, 4, 5, 4, 3))
SIZES = (SMALL, LARGE, HUGE)
REUSING = ("small", "small", "large")
TARGETS = ("trn1", "trn2", "trn3")
STEPS = 12


def make(seed: int) -> Program:
    """The program of a seed."""
    return generate(seed, STEPS, SIZES[seed % len(SIZES)])


def source(program: Program, seed: int) -> str:
    """The program as a function of all its variables, or of those alone that no line reads."""
    whole = program.source()
    if seed // len(SIZES) % 2 == 0:
        return whole
    *lines, last = whole.rstrip().split("\n")
    names = [name for name in last.strip().removeprefix("return ").rstrip(",").split(", ") if name]
    body = "\n".join(lines[1:])
    unread = [name for name in names if len(re.findall(rf"\b{name}\b", body)) <= 1 and name not in program.inputs]
    return "\n".join([*lines, f"    return {', '.join(unread or names[-1:])},"])


REFUSED, CRASHED, LONG = "refused", "crashed", "long"


def reusing(seed: int) -> Compiled | str:
    """The compiled program of a seed of the generator that is biased to reuse."""
    program = program_of(seed, REUSING[seed // 4 % len(REUSING)])
    try:
        return as_compiled(program, Outcome()) or REFUSED
    except Failure:
        return CRASHED


def compiled(seed: int) -> Compiled | str:
    """The compiled program of a seed; REFUSED or CRASHED where there is no kernel (tests.fuzz asks why)."""
    if seed % 4 == 3:
        return reusing(seed)
    program = make(seed)
    if program.refused is not None:
        return REFUSED
    space = dict(NAMES)
    with quiet():
        try:
            exec(source(program, seed), space)
            arrays = [np.array(x) for x in program.inputs.values()]
            kernel = Compiled(trace(space["program"], arrays, {}), TARGETS[seed // 6 % len(TARGETS)])
            kernel.tile_ir  # noqa: B018
        except (TileError, ValueError, TypeError, IndexError, ZeroDivisionError):
            return REFUSED
        except AssertionError:
            return CRASHED
    return kernel


def broken(seed: int, most: int | None = None) -> str | None:
    """What of its bound a program goes below; None where it does not, REFUSED or CRASHED where there is no kernel.

    most: kernels of more instructions are not timed, and LONG.
    """
    kernel = compiled(seed)
    if isinstance(kernel, str):
        return kernel
    if most is not None and instructions(kernel.tile_ir.body) > most:
        return LONG
    timing = kernel.report.timing
    if not timing.bound_error and timing.latency_us >= timing.roofline_us:
        return None
    return f"seed {seed} on {kernel.target.name}: {timing.bound_errors}, bounds {timing.bounds_us}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: how many programs, from which seed."""
    parser = argparse.ArgumentParser(prog="tests.bounds.fuzz", description="random programs against their own bound")
    parser.add_argument("-n", "--count", type=int, default=1000, help="how many programs (1000)")
    parser.add_argument("-s", "--seed", type=int, default=0, help="the first seed (0)")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="processes (one for each core)")
    parser.add_argument("--show", action="store_true", help="print the programs instead of compiling them")
    given = parser.parse_args(arguments)
    seeds = range(given.seed, given.seed + given.count)
    if given.show:
        for seed in seeds:
            if seed % 4 == 3:
                print(program_of(seed, REUSING[seed // 4 % len(REUSING)]))
                continue
            shapes = {name: f"{x.dtype}{list(x.shape)}" for name, x in make(seed).inputs.items()}
            print(f"# seed {seed}: {shapes}\n{source(make(seed), seed)}")
        return 0
    with ProcessPoolExecutor(given.jobs) as pool:
        found = Counter(pool.map(broken, seeds, chunksize=8))
    refused, crashed, clean = found.pop(REFUSED, 0), found.pop(CRASHED, 0), found.pop(None, 0)
    for text in found:
        print(text)
    print(f"{clean} programs at or above their bound, {len(found)} below; {refused} refused, {crashed} crash lowering")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
