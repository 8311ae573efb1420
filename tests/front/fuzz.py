"""Random NumPy programs, run by NumPy and as compiled programs: `make fuzz`, or `python -m tests.front.fuzz`.

A program of up to 30 steps over a few small arrays is run by NumPy, then traced, verified, printed, read back and
interpreted (the same element types, exact results the same bits), then narrowed, simplified, decomposed and interpreted
again (32 bits, primitive ops only). Every variable is compared, arguments that were written to included. A step that
NumPy refuses must be refused by tracing with the same class of error. A difference is reported with its seed and the
fewest lines that still show it.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import ml_dtypes
import numpy as np

import tilewright as tw
from tests.front.fuzz_choices import (
    BFLOAT16,
    DTYPES,
    EXACT,
    NEAR,
    SMALL,
    Choices,
    NothingFits,
    Sizes,
    Step,
    Var,
    magnitude,
)
from tests.front.fuzz_steps import STEPS
from tilewright.errors import TileError
from tilewright.front.calling import arrays_of
from tilewright.front.function import Output, Traced, trace
from tilewright.front.pytree import leaves
from tilewright.ir.verify import verify
from tilewright.tensor.interpret import interpret
from tilewright.tensor.passes.narrow import narrow
from tilewright.tensor.passes.pipeline import run as run_passes
from tilewright.tensor.text import parse_tensor

NAMES = {"np": np, "tw": tw, "bfloat16": ml_dtypes.bfloat16}
MOST_STEPS = 30


@dataclass
class Program:
    """Inputs and lines; `refused` is a last line that NumPy refuses. What is known of each variable at the end."""

    seed: int
    inputs: dict[str, np.ndarray]
    lines: list[str] = field(default_factory=list)
    refused: str | None = None
    known: dict[str, Var] = field(default_factory=dict)

    def source(self) -> str:
        """A function that returns all of its variables."""
        names = [*self.inputs, *(line.split(" = ")[0] for line in self.lines if _defines(line))]
        body = [*self.lines, *([self.refused] if self.refused else []), f"return {', '.join(names)},"]
        return f"def program({', '.join(self.inputs)}):\n" + "".join(f"    {line}\n" for line in body)

    def script(self) -> str:
        """The program with its inputs, as something to run."""
        return "\n".join([*(f"{name} = {_literal(x)}" for name, x in self.inputs.items()), "", self.source()])


def _literal(x: np.ndarray) -> str:
    """An array as Python."""
    numbers = [float(n) if x.dtype not in (object, *DTYPES[:8]) else int(n) for n in x.ravel()]
    text = str(numbers).replace("nan", "np.nan").replace("inf", "np.inf")
    dtype = "bfloat16" if x.dtype == BFLOAT16 else "bool" if x.dtype == np.bool_ else f"np.{x.dtype}"
    return f"np.array({text}, {dtype}).reshape({x.shape})"


def _defines(line: str) -> bool:
    name, equals, _ = line.partition(" = ")
    return bool(equals) and name.isidentifier()


@contextmanager
def quiet() -> Iterator[None]:
    """NumPy without its warnings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


# Making programs


def random_input(rng: np.random.Generator, shapes: list[tuple[int, ...]], sizes: Sizes = SMALL) -> np.ndarray:
    """An array of small numbers: few distinct ones, so that sums are exact and many are equal."""
    dtype = DTYPES[int(rng.integers(len(DTYPES)))]
    if shapes and rng.random() < 0.6:
        base = shapes[int(rng.integers(len(shapes)))]
        shape = tuple(n if rng.random() < 0.8 else 1 for n in base[int(rng.integers(len(base) + 1)) if base else 0 :])
    else:
        weights = np.array(sizes.weights) / sum(sizes.weights)
        rank = int(rng.choice(6, p=[0.08, 0.27, 0.3, 0.2, 0.1, 0.05]))
        shape = tuple(int(rng.choice(sizes.extents, p=weights)) for _ in range(rank))
        while np.prod(shape, dtype=int) > sizes.largest // 4:
            shape = shape[1:]
    shapes.append(shape)
    array = np.asarray(rng.integers(-4 if dtype.kind != "u" else 0, 8, shape))
    if dtype.kind in "biu":
        return array.astype(dtype)
    found = array.astype(np.float64)
    if rng.random() < 0.4:
        found = found + rng.integers(0, 4, shape) / 4
    if rng.random() < 0.1:
        special = rng.choice([np.nan, np.inf, -np.inf, -0.0], shape)
        found = np.where(rng.random(shape) < 0.2, special, found)
    return np.asarray(found).astype(dtype)


def generate(seed: int, steps: int = MOST_STEPS, sizes: Sizes = SMALL) -> Program:
    """A random program, whose steps NumPy has run once."""
    rng = np.random.default_rng(seed)
    shapes: list[tuple[int, ...]] = []
    inputs = {f"x{i}": random_input(rng, shapes, sizes) for i in range(int(rng.integers(1, 4)))}
    program = Program(seed, inputs)
    space: dict[str, Any] = {**NAMES, **{name: x.copy() for name, x in inputs.items()}}
    variables = [Var(name, space[name]) for name in inputs]
    kinds = [kind for kind, weight in STEPS for _ in range(weight)]
    for _ in range(int(rng.integers(3, steps + 1))):
        try:
            step = kinds[int(rng.integers(len(kinds)))](Choices(rng, variables, sizes.largest))
        except NothingFits:
            continue
        if (
            not _extend(program, step, space, variables, sizes.largest)
            and rng.random() < 0.5
            and program.refused is None
        ):
            program.refused = _as_line(step, program)
            break
    program.known = {v.name: v for v in variables}
    return program


def _as_line(step: Step, program: Program) -> str:
    return step.text if step.changes else f"v{len(program.lines)} = {step.text}"


def _extend(program: Program, step: Step, space: dict[str, Any], variables: list[Var], largest: int) -> bool:
    """Run a step with NumPy and add it; False when NumPy refuses it."""
    line = _as_line(step, program)
    before = {v.name: v.array.copy() for v in step.changes}
    with quiet():
        try:
            exec(line, space)
        except Exception:  # noqa: BLE001  (what NumPy raises is compared later)
            for name, array in before.items():
                if isinstance(space[name], np.ndarray) and space[name].flags.writeable:
                    space[name][...] = array
            return False
    level = max([step.level, *(v.level for v in step.reads)])
    tolerance = max((v.tolerance for v in step.reads), default=0.0)
    scale = max([step.scale, *(v.scale for v in step.reads)])
    if step.changes:
        program.lines.append(line)
        for v in step.changes:
            v.array = space[v.name]
            v.level, v.tolerance = max(v.level, level), max(v.tolerance, tolerance)
            v.scale = max(v.scale, scale, magnitude(v.array))
        return True
    value = space[line.split(" = ")[0]]
    array = np.asarray(value)
    keep = isinstance(value, (np.ndarray, np.generic)) and array.size <= largest and array.dtype in DTYPES
    if not keep:
        del space[line.split(" = ")[0]]
        return True
    program.lines.append(line)
    variables.append(Var(line.split(" = ")[0], cast(np.ndarray, value), level, scale, tolerance))
    return True


# Running them


class Difference(Exception):
    """What is wrong with a compiled program; `kind` groups what has one cause."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


def function_of(program: Program) -> Any:
    """The program as a Python function."""
    space = dict(NAMES)
    exec(compile(program.source(), f"<program {program.seed}>", "exec"), space)
    return space["program"]


def by_numpy(program: Program) -> tuple[Any, Any]:
    """Its results, and the error that NumPy raises instead."""
    arrays = [x.copy() for x in program.inputs.values()]
    with quiet():
        try:
            return function_of(program)(*arrays), None
        except Exception as error:  # noqa: BLE001  (whatever NumPy raises)
            return None, error


def check_program(program: Program) -> Counter[str]:
    """Compare NumPy's results with the compiled program's; raises Difference. Counts the ops of the program."""
    wanted, error = by_numpy(program)
    # Of averages over nothing, and of ml_dtypes.
    if isinstance(error, ZeroDivisionError) or "expected number, got numpy.ndarray" in str(error):
        return Counter()
    arrays = [x.copy() for x in program.inputs.values()]
    try:
        with quiet():
            found = trace(function_of(program), arrays, {})
    except TileError as mine:
        _check_refusal(program, error, mine)
        return Counter()
    except Exception as bug:
        if isinstance(error, type(bug)):  # NumPy's own, about arrays that hold nothing traced
            return Counter()
        raise Difference(f"crash {type(bug).__name__}", str(bug)) from bug
    if isinstance(error, MemoryError):  # an array that this machine has no room for
        return Counter()
    if error is not None:
        raise Difference("not refused", f"NumPy raises {type(error).__name__}: {error}")
    _check_text(found)
    names = _names(program)
    _compare(program, names, wanted, _results(found, interpret(found.graph, arrays_of(found, arrays, {})), arrays), 1)
    _check_passes(program, names, wanted, found)
    return Counter(op.name for op in found.graph.ops)


def _names(program: Program) -> list[str]:
    return [*program.inputs, *(line.split(" = ")[0] for line in program.lines if _defines(line))]


def _check_refusal(program: Program, error: Exception | None, mine: TileError) -> None:
    code = mine.diagnostic.code
    if error is None:
        if code in ("E803", "E804"):
            raise Difference(f"unsupported {code} {_plain(mine.diagnostic.message)}", mine.diagnostic.message)
        raise Difference(f"refused {code} {_plain(mine.diagnostic.message)}", mine.diagnostic.message)
    if code in ("E802", "E803", "E804"):
        return
    kinds = [
        each for each in type(error).__mro__ if each.__module__ in ("builtins", "numpy.exceptions", "numpy.linalg")
    ]
    if not isinstance(mine, kinds[0]):
        raise Difference("error class", f"{type(mine).__name__} instead of {type(error).__name__}: {mine} / {error}")


def _plain(message: str) -> str:
    """A message without its numbers, to tell causes apart."""
    return re.sub(r"[\d()\[\],.]+", "", message)[:40]


def _check_text(found: Traced) -> None:
    problems = verify(found.graph)
    if problems:
        raise Difference("verify", str(problems[0]))
    text = str(found.graph)
    if str(parse_tensor(text)) != text:
        raise Difference("text", "the text does not read back")


def _results(found: Traced, outputs: Sequence[np.ndarray], arrays: list[np.ndarray]) -> list[Any]:
    """The variables that the program returns, in NumPy's types; arguments as they are at the end."""
    written = dict(found.writes)
    results: list[Any] = []
    for _, x in leaves(found.result):
        if not isinstance(x, Output):  # a constant
            results.append(x)
            continue
        place = x.place if x.same_as is None else written.get(x.same_as)
        array = arrays[x.same_as] if place is None and x.same_as is not None else outputs[place or 0]
        array = array.astype(x.type.dtype.np)
        results.append(array[()] if x.is_scalar else array)
    return results


def _check_passes(program: Program, names: list[str], wanted: Any, found: Traced) -> None:
    """The narrowed, simplified and decomposed program gives the same results, with 32 bits and other rounding."""
    arrays = list(program.inputs.values())
    wide = any(v.kind in "iu" and v.array.size and np.abs(v.array.astype(float)).max() >= 2**31 for v in _wide(program))
    try:
        narrowed = narrow(found.graph)
        results = narrowed.run([x.copy() for x in arrays])
    except TileError as error:
        if error.diagnostic.code == "E805" and (wide or _may_be_wide(program) or "float32" in error.diagnostic.message):
            return
        raise Difference(f"narrow {error.diagnostic.code}", error.diagnostic.message) from None
    _compare(program, names, wanted, _results(found, results, arrays), 2)
    if wide:
        return
    try:
        graph = run_passes(found.graph).graph
        narrow_inputs = [x.astype(value.type.dtype.np) for x, value in zip(arrays, graph.inputs, strict=True)]
        with quiet():
            outputs = interpret(graph, narrow_inputs)
    except Exception as bug:
        raise Difference(f"passes crash {_plain(str(bug))}", f"{type(bug).__name__}: {bug}") from bug
    _compare(program, names, wanted, _results(found, outputs, arrays), 3)


def _wide(program: Program) -> list[Var]:
    return [v for v in program.known.values() if v.array.dtype.itemsize == 8]


def _may_be_wide(program: Program) -> bool:
    """Sums and products of 64-bit integers inside of a step may be larger than its result."""
    return any(v.kind in "iu" and v.scale >= 2**15 for v in program.known.values())


_PATHS = {1: "trace", 2: "narrow", 3: "passes"}


def _compare(program: Program, names: list[str], wanted: Any, found: list[Any], path: int) -> None:
    for name, theirs, mine in zip(names, wanted, found, strict=True):
        kind = _difference(program.known[name], theirs, mine, path)
        if kind is not None:
            raise Difference(f"{_PATHS[path]}: {kind}", f"{name} is\n{mine!r}\ninstead of\n{theirs!r}")


def _difference(v: Var, theirs: Any, mine: Any, path: int) -> str | None:
    """What differs, if anything that matters does."""
    if isinstance(theirs, np.ndarray) != isinstance(mine, np.ndarray):
        return "array or scalar"
    if theirs.dtype != mine.dtype:
        return f"dtype {mine.dtype} instead of {theirs.dtype}"
    if theirs.shape != mine.shape:
        return f"shape {mine.shape} instead of {theirs.shape}"
    x, y = np.asarray(theirs), np.asarray(mine)
    if x.dtype == BFLOAT16:
        x, y = x.astype(np.float32), y.astype(np.float32)
    exact = v.level == EXACT or (path == 1 and v.level < NEAR)
    if x.dtype == np.float64 and path > 1:
        # Computed in float32: what is exact in float64 need not be.
        exact = False
    if exact or x.dtype.kind in "biu":
        return None if np.array_equal(x, y, equal_nan=x.dtype.kind == "f") else "values"
    tolerance = v.tolerance * v.scale if path > 1 or v.level == NEAR else 0.0
    wide = x.astype(np.float64), y.astype(np.float64)
    largest = float(ml_dtypes.finfo(theirs.dtype if path == 1 or theirs.dtype != np.float64 else np.float32).max)
    if v.scale * 4 > largest:
        return None  # near the greatest number, rounding decides whether it is infinite
    same = np.isclose(*wide, rtol=v.tolerance, atol=tolerance, equal_nan=True)
    return None if same.all() else "values"


# Finding the cause


def minimise(program: Program, kind: str, check: Callable[[Program], Any] = check_program) -> Program:
    """The fewest lines that still show a difference of the same kind."""
    best = program
    changed = True
    while changed:
        changed = False
        for place in reversed(range(len(best.lines))):
            smaller = Program(
                best.seed, best.inputs, best.lines[:place] + best.lines[place + 1 :], best.refused, best.known
            )
            if _kind_of(smaller, check) == kind:
                best, changed = smaller, True
    used = " ".join([*best.lines, best.refused or ""])
    fewer = Program(best.seed, {}, best.lines, best.refused, best.known)
    fewer.inputs = {name: x for name, x in best.inputs.items() if name in used}
    return fewer if fewer.inputs and _kind_of(fewer, check) == kind else best


def _kind_of(program: Program, check: Callable[[Program], Any]) -> str | None:
    _, error = by_numpy(program)
    if isinstance(error, NameError):
        return None
    try:
        check(program)
    except Difference as found:
        return found.kind
    return None


def fuzz(
    count: int, seed: int, steps: int = MOST_STEPS, stop: int = 10, every: int = 0
) -> tuple[list[str], Counter[str]]:
    """Run programs of consecutive seeds; reports of those that differ, and how often each op was used.

    stop: after so many kinds of differences.    every: say how far it is after so many programs.
    """
    reports: list[str] = []
    used: Counter[str] = Counter()
    kinds: set[str] = set()
    for each in range(seed, seed + count):
        if every and (each - seed) % every == 0 and each > seed:
            print(f"{each - seed} programs, {len(reports)} differences", file=sys.stderr)
        program = generate(each, steps)
        try:
            used += check_program(program)
        except Difference as found:
            if found.kind in kinds:
                reports.append(f"seed {each}: {found.kind} again")
                continue
            kinds.add(found.kind)
            small = minimise(program, found.kind)
            reports.append(f"seed {each}: {found}\n{small.script()}")
            if len(kinds) >= stop:
                break
    return reports, used


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: how many programs, from which seed."""
    parser = argparse.ArgumentParser(prog="fuzz", description="random NumPy programs against the compiler")
    parser.add_argument("-n", "--count", type=int, default=10_000, help="how many programs (10000)")
    parser.add_argument("-s", "--seed", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--steps", type=int, default=MOST_STEPS, help="the most steps of a program (30)")
    parser.add_argument("--show", action="store_true", help="print the programs instead of running them")
    given = parser.parse_args(arguments)
    if given.show:
        for each in range(given.seed, given.seed + given.count):
            print(generate(each, given.steps).script())
        return 0
    start = time.perf_counter()
    reports, used = fuzz(given.count, given.seed, given.steps, every=1000)
    for report in reports:
        print(f"{report}\n")
    seconds = time.perf_counter() - start
    print(
        f"{given.count} programs from seed {given.seed}: {len(reports)} differences; "
        f"{used.total()} ops of {len(used)} kinds, {seconds:.0f} s"
    )
    return 1 if reports else 0


if __name__ == "__main__":
    sys.exit(main())
