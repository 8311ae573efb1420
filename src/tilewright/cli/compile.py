"""`tilewright compile`: a NumPy function of a script as IR, after the pass one asks for."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from tilewright.cli.common import Exit, err, json_option, show_diagnostic, show_json, target_option
from tilewright.cli.kernels import run_definitions
from tilewright.cli.script import ScriptEnd
from tilewright.dtypes import host_dtype
from tilewright.errors import TileError, fail
from tilewright.front.function import trace
from tilewright.front.jit import Jit
from tilewright.ir.core import Graph
from tilewright.ir.verify import check
from tilewright.spec import ArraySpec
from tilewright.target import get_target
from tilewright.tensor.passes.pipeline import PASSES, run

_ARRAY = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<sizes>\d+(?:x\d+)*|)(?P<type>:\w+)?")
_STAGES = ("trace", *(each.name for each in PASSES))


@dataclass(frozen=True, slots=True)
class Stage:
    """The program after a step: its text, how many ops it has, and how long the step took."""

    name: str
    text: str
    ops: int
    seconds: float


@click.command(
    short_help="Compile a NumPy function and print its IR.",
    epilog="Examples: tilewright compile model.py:attention --arg 128x512:bfloat16 --arg 512x512:bfloat16; "
    "tilewright compile model.py:norm --arg 128x512:float32 --arg eps=1e-6 --stop-after simplify",
)
@click.argument("function", metavar="FILE.PY:FUNCTION")
@click.option(
    "--arg",
    "arguments",
    multiple=True,
    metavar="SxS:DTYPE | VALUE",
    help="The next argument: an array such as 128x512:float32, or a Python value. NAME=... passes it by name.",
)
@click.option("--stop-after", type=click.Choice(_STAGES), default=_STAGES[-1], show_default=True, help="The last pass.")
@click.option("-o", "--output", metavar="FOLDER", help="Write the IR after every pass to files in this folder.")
@target_option
@json_option
def compile(
    function: str, arguments: Sequence[str], stop_after: str, output: str | None, target: str | None, as_json: bool
) -> int:
    """Compile a function of a script: trace it on arrays of the given shapes, run the passes, print the IR."""
    get_target(target)
    script, _, name = function.partition(":")
    stages: list[Stage] = []
    # What the script prints is not part of the document.
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        end = run_definitions(script)
        if end.error is None:
            chosen = _function_of(script, end, name)
            args, kwargs = described(arguments, chosen)
            with end:
                stages = compiled(chosen, args, kwargs, stop_after)
    sys.stdout.flush()
    if end.internal:
        assert end.error is not None
        raise end.error
    code = Exit.OK if end.error is None else Exit.KERNEL
    if output is not None and stages:
        _write(stages, output)
    if as_json:
        show_json(_document(function, stages, end, code))
    elif end.fault is not None:
        show_diagnostic(end.fault.diagnostic)
        err().print(f"More: tilewright explain {end.fault.diagnostic.code}", soft_wrap=True)
    elif end.error is not None:
        sys.stderr.write(end.traceback())
    else:
        sys.stdout.write(stages[-1].text)
    return code


def _document(function: str, stages: Sequence[Stage], end: ScriptEnd, code: int) -> dict[str, object]:
    return {
        "function": function,
        "exit_code": code,
        "error": end.traceback() if end.error is not None and end.fault is None else None,
        "diagnostics": [end.fault.diagnostic.to_dict()] if end.fault is not None else [],
        "passes": [{"name": each.name, "ops": each.ops, "seconds": round(each.seconds, 6)} for each in stages],
        "ir": stages[-1].text if stages else None,
    }


def compiled(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], stop_after: str) -> list[Stage]:
    """The program after tracing and after every pass up to `stop_after`, verified each time."""
    start = perf_counter()
    graph = trace(function, args, kwargs).graph
    check(graph)
    stages = [Stage("trace", str(graph), len(graph.ops), perf_counter() - start)]

    def note(name: str, graph: Graph, seconds: float) -> None:
        stages.append(Stage(name, str(graph), len(graph.ops), seconds))

    if stop_after != "trace":
        run(graph, stop_after, note)
    return stages


def _function_of(script: str, end: ScriptEnd, name: str) -> Callable[..., Any]:
    """The function of that name, or the only one that the script defines."""
    own = {key: value for key, value in end.namespace.items() if _is_own(value, end)}
    if not name and len(own) == 1:
        (name,) = own
    found = end.namespace.get(name)
    if isinstance(found, Jit):
        return found.function
    if not inspect.isfunction(found):
        hint = f"its functions: {', '.join(own)}" if own else "it defines no function"
        what = f"has no function {name!r}" if name else "defines several functions: name one as file.py:function"
        raise fail("E703", f"{script} {what}", hint=hint)
    return found


def _is_own(value: Any, end: ScriptEnd) -> bool:
    function = value.function if isinstance(value, Jit) else value
    return inspect.isfunction(function) and function.__module__ == end.namespace.get("__name__")


def described(arguments: Sequence[str], function: Callable[..., Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that --arg describes; E704 unless the function takes them."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for text in arguments:
        name, value = _argument(text)
        if name is not None:
            kwargs[name] = value
        else:
            args.append(value)
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise fail(
            "E704",
            f"{function.__name__}: {error}",
            hint=f"it takes {inspect.signature(function)}; give one --arg 128x512:float32 for each array",
        ) from None
    return args, kwargs


def _argument(text: str) -> tuple[str | None, Any]:
    array = _ARRAY.fullmatch(text)
    if array is not None and (array["type"] or "x" in array["sizes"]):
        sizes = tuple(int(size) for size in array["sizes"].split("x") if size)
        try:
            dtype = host_dtype((array["type"] or ":float32")[1:], "an argument")
        except TileError as error:
            raise fail("E704", f"--arg {text}: {error.diagnostic.message}", hint=error.diagnostic.hint) from None
        return array["name"], ArraySpec(sizes, dtype)
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        name, value = "", text
    try:
        return name or None, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name or None, value


def _write(stages: Sequence[Stage], folder: str) -> None:
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for number, stage in enumerate(stages):
            (Path(folder) / f"{number:02}_{stage.name}.ir").write_text(stage.text)
    except OSError as error:
        raise fail("E707", f"cannot write to {folder}: {error.strerror}") from None
