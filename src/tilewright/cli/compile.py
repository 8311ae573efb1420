"""`tilewright compile`: a NumPy function of a script as an NKI kernel, with its figures and how it was made."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from tilewright.activate import activate
from tilewright.cli.common import Exit, err, json_option, show, show_diagnostic, show_json
from tilewright.cli.compile_args import described, function_of, read_schedule, split_name, understood
from tilewright.cli.compile_progress import Shown
from tilewright.cli.drawing import Ranges, check_drawn, read_drawn
from tilewright.cli.kernels import run_definitions
from tilewright.cli.options import FILE, PLACE, TARGET, StrictCommand
from tilewright.cli.script import ScriptEnd
from tilewright.compiler import Compiled, CompileOptions
from tilewright.emit.versions import versions
from tilewright.errors import fail
from tilewright.files import writing
from tilewright.front.function import trace
from tilewright.ir.core import Graph
from tilewright.ir.verify import check
from tilewright.lower.order.placement import PLACEMENTS
from tilewright.programs.call import calls_of
from tilewright.programs.capture import Capture
from tilewright.programs.compiled import CompiledCalls
from tilewright.report.parts import as_data
from tilewright.target import Target, get_target
from tilewright.tensor.passes.pipeline import PASSES, run
from tilewright.tensor.passes.precision import PRECISIONS

_STAGES = ("trace", *(each.name for each in PASSES))
_PRINTED: dict[str, Callable[[Compiled], str]] = {
    "source": lambda kernel: kernel.source,
    "tensor-ir": lambda kernel: str(kernel.tensor_ir),
    "tile-ir": lambda kernel: str(kernel.tile_ir),
    "plan": lambda kernel: str(kernel.plan),
    "schedule": lambda kernel: str(kernel.schedule),
}


@dataclass(frozen=True, slots=True)
class Stage:
    """The program after a step: its text, how many ops it has, and how long the step took."""

    name: str
    text: str
    ops: int
    seconds: float


@dataclass(slots=True)
class Made:
    """A kernel for one target: what was written of it, and how it compares with NumPy if that was asked for."""

    kernel: Compiled
    stages: list[Stage]
    files: list[Path] = field(default_factory=list)
    checked: str | None = None


@click.command(
    cls=StrictCommand,
    needs={"--range": "--check", "--seeds": "--check", "--every-pass": "-o"},
    apart={"--stop-after": ("--check", "--explain", "--print"), "--print": ("--explain", "--json")},
    short_help="Compile a NumPy function to an NKI kernel.",
    epilog="""Examples:\n
    tilewright compile model.py:attention --arg 4096x128:bfloat16 --arg 4096x128:bfloat16 -o build\n
    tilewright compile model.py:norm --arg 2048x4096:float32 --arg eps=1e-6 --explain\n
    tilewright compile model.py:norm --arg 2048x4096 --print source > kernel.py\n
    tilewright compile model.py:norm --arg 2048x4096 --schedule norm.schedule\n
    tilewright compile model.py:norm --arg 2048x4096 --target trn1 --target trn2""",
)
@click.argument("function", type=FILE, metavar="FILE.PY:FUNCTION")
@click.option(
    "--arg",
    "arguments",
    multiple=True,
    metavar="SxS:DTYPE | VALUE",
    help="The next argument: an array such as 128x512:bfloat16 (float32 where no type is given, :float32 for a "
    "number), a list or tuple of them such as [128x512, 512:int32], or a Python value, which is fixed. NAME=... passes "
    "it by name.",
)
@click.option(
    "-o", "--output", type=PLACE, metavar="FOLDER", help="Write source, IR, plan, report, page and constants there."
)
@click.option("--explain", is_flag=True, help="Print the plan: what shares loops, what stays on chip, and why.")
@click.option("--print", "printed", type=click.Choice(list(_PRINTED)), help="Print this instead of the figures.")
@click.option("--check", "compare", is_flag=True, help="Run the kernel on random arrays and compare it with NumPy.")
@click.option(
    "--range",
    "ranges_of",
    multiple=True,
    metavar="NAME=LOW..HIGH",
    help="With --check: what an array is drawn from. Otherwise floats are normal, integers fit their use: an index, a "
    "mask, a count.",
)
@click.option("--seeds", type=click.IntRange(1), default=1, metavar="N", help="With --check: so many draws (1).")
@click.option("--every-pass", is_flag=True, help="With -o: write the tensor IR after every pass too.")
@click.option("--stop-after", type=click.Choice(_STAGES), help="Stop after this pass over tensor IR and print that.")
@click.option(
    "--precision",
    type=click.Choice(list(PRECISIONS)),
    default="float32",
    show_default=True,
    help="How products of float32 are computed; others than float32 are noted in the report.",
)
@click.option("--nki", type=click.Choice(versions()), help="The version of NKI to write for.  [default: the newest]")
@click.option(
    "--placement",
    type=click.Choice(PLACEMENTS),
    default=PLACEMENTS[0],
    show_default=True,
    help="How tiles get their addresses; optimal needs OR-tools.",
)
@click.option("--schedule", type=FILE, metavar="FILE", help="Lower it as this schedule says (see --print schedule).")
@click.option("--no-addresses", is_flag=True, help="Let NKI's compiler place the tiles: no address= in the source.")
@click.option(
    "--target", "names", type=TARGET, multiple=True, metavar="NAME", help="Target to compile for; may be repeated."
)
@json_option
def compile(
    function: str,
    arguments: Sequence[str],
    output: str | None,
    explain: bool,
    printed: str | None,
    compare: bool,
    ranges_of: Sequence[str],
    seeds: int,
    every_pass: bool,
    stop_after: str | None,
    precision: str,
    nki: str | None,
    placement: str,
    schedule: str | None,
    no_addresses: bool,
    names: Sequence[str],
    as_json: bool,
) -> int:
    """Compile a function of a script for arrays of the given shapes: trace it, run the passes, lower it to a kernel.

    Prints what the kernel takes: predicted latency and its limit, HBM traffic, instructions, memory.
    """
    targets = [get_target(name) for name in names or (None,)]
    draws = (read_drawn(ranges_of), seeds) if compare else None
    script, name = split_name(function)
    given = None if schedule is None else read_schedule(schedule)
    options = CompileOptions.checked(precision, nki, placement, addresses=not no_addresses, schedule=given)
    job = _Job(options, every_pass, draws, len(targets) > 1)
    # What the script prints is not part of the document, nor of what --print prints.
    with redirect_stdout(sys.stderr) if as_json or printed else nullcontext(), Shown(not as_json) as shown:
        # A script may define kernels beside the functions that are compiled.
        activate()
        end = run_definitions(script)
        if end.error is None:
            chosen = function_of(script, end, name)
            args, kwargs = described(arguments, chosen)
            if draws is not None:
                check_drawn(draws[0], chosen, args, kwargs)
            plain = understood(args, kwargs, chosen)
            if plain is not None and not as_json:
                err().print(plain, soft_wrap=True, markup=False, highlight=False)
            with end:
                if stop_after is not None:
                    job.stages = _stages(chosen, args, kwargs, stop_after, precision)
                else:
                    for target in targets:
                        job.compile(chosen, args, kwargs, target, shown)
    sys.stdout.flush()
    if end.internal:
        assert end.error is not None
        raise end.error
    if end.error is None and not (job.made or job.stages):
        hint = "return an array, and leave sys.exit to what calls the function"
        end.error = fail("E810", f"{function} ends the process instead of returning arrays: sys.exit", hint=hint)
    code = Exit.OK if end.error is None and not job.differs else Exit.KERNEL
    if output is not None and end.error is None:
        job.write(Path(output))
    if as_json:
        show_json(_document(function, job, end, code))
    elif end.fault is not None:
        show_diagnostic(end.fault.diagnostic)
        err().print(f"More: tilewright explain {end.fault.diagnostic.code}", soft_wrap=True)
    elif end.error is not None:
        sys.stderr.write(end.traceback())
    elif stop_after is not None:
        sys.stdout.write(job.stages[-1].text)
    else:
        _show(job, printed, explain)
    return code


@dataclass(slots=True)
class _Job:
    """What is asked for, and what has been made so far."""

    options: CompileOptions
    every_pass: bool
    draws: tuple[Ranges, int] | None
    """What the arrays of --check are drawn from, and how often."""
    several: bool
    stages: list[Stage] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)
    differs: bool = False

    def compile(
        self, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], target: Target, shown: Shown
    ) -> None:
        """Make the kernel for one target."""
        shown.doing(f"tracing for {target.name}")
        start = perf_counter()
        capture = Capture(target, self.options.profile, keeps_compiled=False)
        traced = trace(function, args, kwargs, capture.prepare)
        make = CompiledCalls if calls_of(traced.graph) else Compiled
        check(traced.graph)
        self.stages = [Stage("trace", str(traced.graph), len(traced.graph.ops), perf_counter() - start)]
        kernel = make(traced, target, self.options, shown.step, _noting(self.stages))
        made = Made(kernel, self.stages)
        _ = kernel.tile_ir
        if self.draws is not None:
            from tilewright.cli.compile_check import compared

            shown.doing("running on the simulator")
            made.checked, same = compared(kernel, args, kwargs, *self.draws)
            self.differs = self.differs or not same
        shown.doing("timing")
        _ = kernel.report
        self.made.append(made)

    def write(self, folder: Path) -> None:
        """Write what was made, for several targets to folders of their own."""
        for made in self.made:
            place = folder / made.kernel.target.label if self.several else folder
            with writing(place):
                made.files = made.kernel.save(place, html=True)
            made.files += _write_stages(made.stages, place) if self.every_pass else []
        if not self.made:
            _write_stages(self.stages, folder)


def _noting(stages: list[Stage]) -> Callable[[str, Graph, float], None]:
    return lambda name, graph, seconds: stages.append(Stage(name, str(graph), len(graph.ops), seconds))


def _stages(
    function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], stop_after: str, precision: str
) -> list[Stage]:
    """The program after tracing and after every pass up to `stop_after`, verified each time."""
    start = perf_counter()
    graph = trace(function, args, kwargs).graph
    check(graph)
    stages = [Stage("trace", str(graph), len(graph.ops), perf_counter() - start)]
    if stop_after != "trace":
        run(graph, stop_after, _noting(stages), precision)
    return stages


def _show(job: _Job, printed: str | None, explain: bool) -> None:
    from tilewright.cli.compile_show import plan_tables, summary
    from tilewright.report.profile_table import compare_table

    if printed is not None:
        for made in job.made:
            sys.stdout.write(_PRINTED[printed](made.kernel))
            if made.checked is not None:
                show(f"checked: {made.checked}", sys.stderr)
        return
    for number, made in enumerate(job.made):
        if number:
            show("")
        show(summary(made.kernel, made.files, made.checked))
        if explain:
            show("")
            show(plan_tables(made.kernel.plan))
    if job.several:
        show("")
        show(compare_table([(made.kernel.target.name, made.kernel.report) for made in job.made]))


def _document(function: str, job: _Job, end: ScriptEnd, code: int) -> dict[str, object]:
    stages = job.stages
    return {
        "function": function,
        "exit_code": code,
        "error": end.traceback() if end.error is not None and end.fault is None else None,
        "diagnostics": [as_data(end.fault.diagnostic)] if end.fault is not None else [],
        "passes": [{"name": each.name, "ops": each.ops, "seconds": round(each.seconds, 6)} for each in stages],
        "ir": stages[-1].text if stages else None,
        "kernels": [_kernel_document(made) for made in job.made],
    }


def _kernel_document(made: Made) -> dict[str, object]:
    kernel = made.kernel
    return {
        "target": kernel.target.name,
        "precision": kernel.options.precision,
        "nki": kernel.options.nki or versions()[-1],
        "report": kernel.report.to_dict(),
        "plan": kernel.plan.to_dict(),
        "source": kernel.source,
        "tile_ir": str(kernel.tile_ir),
        "constants": [{"dtype": str(each.dtype), "shape": list(each.shape)} for each in kernel.constants],
        "checked": made.checked,
        "from_cache": kernel.lowered.draft is None,
        "files": [str(file) for file in made.files],
    }


def _write_stages(stages: Sequence[Stage], folder: Path) -> list[Path]:
    made = [folder / f"{number:02}_{stage.name}.ir" for number, stage in enumerate(stages)]
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for file, stage in zip(made, stages, strict=True):
            file.write_text(stage.text, encoding="utf-8")
    return made
