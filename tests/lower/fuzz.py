"""Random NumPy programs three ways: as tensor IR, as tile IR on the simulator, as emitted source run by our own nki.

The kernels of all targets are verified and fit the chip; the one of a target that the seed chooses is run. Its results
are those of the tensor IR as far as rounding goes; the emitted source gives the same bits and the same instructions.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence

import numpy as np

from tests.emit.kit import run_source, same_stream
from tests.front.fuzz import Difference, Program, by_numpy, function_of, quiet
from tests.front.fuzz_choices import LARGE, SMALL, Sizes
from tests.lower.kit import findings, for_target
from tests.lower.rounding import differs, expected
from tilewright.compiler import Compiled
from tilewright.errors import TileError
from tilewright.front.function import trace
from tilewright.ir.core import Region
from tilewright.lower.write.occupancy import occupancy
from tilewright.tensor.interpret import interpret
from tilewright.tensor.passes.narrow import narrowed_array
from tilewright.tile.ops import FOR, trips
from tilewright.tile.record import Record

TARGETS = ("trn1", "trn2", "trn3")
MOST = 100_000
"""Instructions of a kernel that is run."""


def sizes_of(seed: int) -> Sizes:
    """Every third program has arrays beyond the partitions of the hardware."""
    return LARGE if seed % 3 == 0 else SMALL


def target_of(seed: int) -> str:
    """The target whose kernel is run."""
    return TARGETS[seed // 3 % len(TARGETS)]


def two_targets_of(seed: int) -> tuple[str, str]:
    """The same, and another one."""
    return target_of(seed), TARGETS[(seed // 3 + 1 + seed % 2) % len(TARGETS)]


def instructions(region: Region) -> int:
    """How many instructions a kernel executes."""
    total = 0
    for op in region.ops:
        if op.definition is FOR:
            total += len(trips(op)) * instructions(op.regions[0])
        elif isinstance(op.definition, Record):
            total += 1
    return total


def check_lowered(program: Program, most: int = MOST, targets: Sequence[str] = TARGETS) -> int:
    """Raises Difference where kernels are not clean or give other results; how many instructions were run.

    most: kernels of more instructions are not run. targets: whose kernels are made, that of `target_of` among them.
    """
    _, error = by_numpy(program)
    if error is not None or program.refused is not None:
        return 0
    arrays = [x.copy() for x in program.inputs.values()]
    with quiet():
        try:
            found = trace(function_of(program), arrays, {})
            made = {targets[0]: Compiled(found, targets[0])}
            passes = made[targets[0]].passes
            made |= {target: for_target(made[targets[0]], target) for target in targets[1:]}
        except TileError as refusal:
            if refusal.diagnostic.code == "E805":  # numbers that 32 bits cannot hold
                return 0
            raise Difference(f"refused {refusal.diagnostic.code}", refusal.diagnostic.message) from None
    for target, kernel in made.items():
        _check_kernel(kernel, target)
    chosen = made[target_of(program.seed)]
    count = instructions(chosen.tile_ir.body)
    if count > most:
        return 0
    try:
        narrow = [
            narrowed_array(x, v.type.dtype, str(v.name)) for x, v in zip(arrays, passes.graph.inputs, strict=True)
        ]
    except TileError:
        return 0
    _check_run(program, chosen, narrow)
    return count


def _check_kernel(kernel: Compiled, target: str) -> None:
    try:
        with quiet():
            problems = findings(kernel)
            graph = kernel.tile_ir
    except TileError as refusal:
        diagnostic = refusal.diagnostic
        raise Difference(f"{target} {diagnostic.code} {diagnostic.message[:30]}", diagnostic.message) from None
    except AssertionError as bug:
        raise Difference(f"{target} assertion {_place(bug)}", str(bug)) from bug
    except Exception as bug:
        raise Difference(f"{target} crash {_place(bug)}", f"{type(bug).__name__}: {bug}") from bug
    if problems:
        raise Difference(f"{target} {problems[0].code} {problems[0].rule}", str(problems[0]))
    takes = occupancy(graph, kernel.target)
    if takes.sbuf_bytes > kernel.target["memory.sbuf_usable_bytes"]:
        raise Difference(f"{target} SBUF", f"{takes.sbuf_bytes} bytes of each partition")
    if takes.psum_banks > kernel.target["memory.psum_banks"]:
        raise Difference(f"{target} PSUM", f"{takes.psum_banks} banks")


def _place(bug: Exception) -> str:
    """Where an exception comes from."""
    frame = traceback.extract_tb(bug.__traceback__)[-1]
    return f"{type(bug).__name__} {frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}"


def _check_run(program: Program, kernel: Compiled, narrow: list[np.ndarray]) -> None:
    passes = kernel.passes
    plain = interpret(passes.graph, narrow)
    bounds = expected(kernel.program.graph, narrow, program.seed)
    try:
        results = kernel.run_kernel(narrow)
    except TileError as refusal:
        diagnostic = refusal.diagnostic
        raise Difference(f"run {diagnostic.code} {diagnostic.rule}", diagnostic.message) from None
    except Exception as bug:
        raise Difference(f"run {_place(bug)}", f"{type(bug).__name__}: {bug}") from bug
    for place, (mine, theirs, bound) in enumerate(zip(results, plain, bounds, strict=True)):
        wrong = differs(mine, theirs, bound)
        if wrong.any():
            at = np.argwhere(wrong)[0] if mine.ndim else ()
            message = f"{int(wrong.sum())} of {mine.size} elements of output {place} ({mine.dtype}{mine.shape}), first "
            message += f"at {tuple(map(int, at))}: {mine[tuple(at)]} instead of {theirs[tuple(at)]}"
            raise Difference(f"values {mine.dtype}", message)
    _check_source(kernel, narrow, results)


def _check_source(kernel: Compiled, narrow: list[np.ndarray], results: list[np.ndarray]) -> None:
    """The emitted source has the kernel's instructions and gives its bits."""
    graph, target = kernel.tile_ir, kernel.target
    if not all(x.size for x in (*narrow, *results)):
        return  # NKI has no tensors without elements
    try:
        run = run_source(kernel.source, [*kernel.device_arrays(narrow), *kernel.constants], target.name)
    except TileError as refusal:
        diagnostic = refusal.diagnostic
        raise Difference(f"source {diagnostic.code} {diagnostic.rule}", diagnostic.message) from None
    except Exception as bug:
        raise Difference(f"source {_place(bug)}", f"{type(bug).__name__}: {bug}") from bug
    problems = [each for each in run.diagnostics if each.severity == "error"]
    if problems:
        raise Difference(f"source {problems[0].code} {problems[0].rule}", problems[0].message)
    try:
        same_stream(graph, run.session.graph)
    except AssertionError as bug:
        raise Difference("source: other instructions", str(bug)) from None
    made = run.result if isinstance(run.result, tuple) else (run.result,)
    for mine, theirs in zip(made, results, strict=True):
        if mine.tobytes() != theirs.tobytes():
            raise Difference("source: other bits", f"{mine!r}\ninstead of\n{theirs!r}")
