"""The public functions that run and check kernels; `tilewright/__init__.py` re-exports them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np

from tilewright.compiler import Compiled, CompileOptions
from tilewright.errors import Diagnostic, TileError, TileTypeError, fail
from tilewright.events import refused
from tilewright.front.adopting import Adopted
from tilewright.front.calling import arrays_of
from tilewright.front.function import trace
from tilewright.front.jit import Jit, P, R
from tilewright.front.promote import promoting
from tilewright.front.pytree import map_leaves
from tilewright.front.results import check_function
from tilewright.ir.core import Graph
from tilewright.ir.lex import TokenStream
from tilewright.lower.schedule.data import Schedule
from tilewright.nki.kernel import run_kernel
from tilewright.nki.simulation import Simulation as Runnable
from tilewright.programs.call import calls_of
from tilewright.programs.capture import Capture
from tilewright.programs.compiled import CompiledCalls
from tilewright.programs.text import parse_program
from tilewright.report.graph import profile_graph
from tilewright.report.parts import narrowed
from tilewright.report.profile import has_spec, profile_kernel
from tilewright.report.resources import Report, resources
from tilewright.rules import STRICT
from tilewright.sim.session import Options
from tilewright.sim.streamed import Order
from tilewright.spec import ArraySpec
from tilewright.target import Target, get_target
from tilewright.tensor.text import TENSOR
from tilewright.tile.text import parse_tile
from tilewright.tile.verify import check_graph, verify_graph
from tilewright.timing.pin import Pins


class Simulation(Runnable):
    """A kernel ready to run on the simulator. After a call, `run` and `report` hold what it left behind."""

    @property
    def report(self) -> Report:
        """What the last call used; its times are predicted when they are asked for."""
        if self.run is None:
            raise fail("E108", f"{self.kernel.name} has not been run yet", hint="call it on arrays first")
        return resources(self.run)


def simulate(
    kernel: Any,
    target: str | Target | None = None,
    profile: str | None = None,
    *,
    record: bool = True,
    trace_nonfinite: bool = False,
    no_spill: bool = False,
    stream: Order | None = None,
    orders: int = 0,
) -> Any:
    """Make a kernel runnable on the simulator: `tw.simulate(kernel, target="trn2")(*arrays)` (a `Simulation`).

    What `tw.compile` made runs there anyway and is given back as it is.
    record: keep the instruction stream (about 1 KiB per instruction); turn it off for very long kernels.
    trace_nonfinite: find the first instruction that makes NaN or infinity out of finite inputs.
    stream: instructions whose operands lie over each other go through them element by element, as an engine does, in
    this order; what breaks R-engine-16 is then a warning that says what comes out different.
    orders: run the instructions in so many other orders that NKI's scheduler may choose; results that differ are
    refused.
    """
    if isinstance(kernel, Compiled):
        _check_call(kernel, target, (), {})
        return kernel
    return Simulation(
        kernel, target, profile, Options(record, False, trace_nonfinite, no_spill, stream=stream, orders=orders)
    )


_TEXT = "texts look as str(ir) writes them: see what tilewright compile --print tensor, or tile, prints"


def parse(text: str, file: str = "<text>") -> Graph:
    """Read a kernel or a program back from its IR text (`str(ir)`). Nothing in the text is executed."""
    if not isinstance(text, str):
        hint = "give the text of a kernel or a program: str(ir)"
        raise fail("E108", f"IR text is of type {type(text).__name__}", hint=hint, error=TileTypeError)
    try:
        tokens = TokenStream(text, file)
        while tokens.peek().kind == "newline":
            tokens.next()
        return (parse_program if tokens.at(TENSOR.keyword) else parse_tile)(text, file, locate=True)
    except TileError as error:
        raise type(error)(replace(error.diagnostic, hint=error.diagnostic.hint or _TEXT)) from None


def verify(
    kernel: Any,
    *args: Any,
    target: str | Target | None = None,
    profile: str | None = None,
    no_spill: bool = False,
    orders: int = 0,
    lint: bool = False,
    **kwargs: Any,
) -> list[Diagnostic]:
    """All diagnostics of a kernel, none raised. With `tw.spec` arguments shapes are checked without arithmetic.

    kernel: an `nki.jit` kernel with its arguments, or what `tw.compile` made, or a kernel in tile IR.
    no_spill: SBUF tensors that do not fit are an error, not a warning. orders: as of `tw.simulate`.
    lint: warn of work that nobody sees too: results that nothing reads, a kernel without output.
    """
    if isinstance(kernel, Compiled):
        _check_call(kernel, target, args, kwargs)
        return verify_graph(kernel.tile_ir, kernel.target, profile or kernel.options.profile)
    if isinstance(kernel, Graph):
        return verify_graph(kernel, target, profile or STRICT)
    shapes = has_spec(args) or has_spec(kwargs)
    options = Options(record=lint or orders > 0, shapes=shapes, no_spill=no_spill, orders=orders)
    run = run_kernel(kernel, args, kwargs, target, profile, options, collect=True)
    return [narrowed(found) for found in (*run.diagnostics, *(run.unseen() if lint else ()))]


def profile(
    kernel: Any,
    *args: Any,
    target: str | Target | None = None,
    profile: str | None = None,
    order: str = "scheduled",
    pin: Pins | None = None,
    **kwargs: Any,
) -> Report:
    """Predict how long a kernel takes, and why: a report with its times and, in `warnings`, advice.

    kernel: an `nki.jit` kernel with its arguments, or what `tw.compile` made, with or without them. Alone a kernel in
    tile IR (`tw.parse`). The last two are not run.
    When an argument is a `tw.spec`, shapes alone are used and nothing is computed; otherwise the kernel runs on the
    arrays. Both give the same times unless the kernel's own Python code looks at values.
    order: "scheduled" (each engine takes its oldest ready instruction, as the compiler arranges) or "written".
    pin: what if? {line: engine}, or texts such as "12:gpsimd"; the instructions of that line run on that engine. For
    transfers who writes their descriptors: "12:hwdge", "12:swdge" or "12:none".
    """
    if isinstance(kernel, Graph):
        if args or kwargs:
            told = f"kernel {kernel.name} in tile IR is timed as it is, but {len(args)} arrays were given"
            raise fail("E103", told, hint=f"leave them out: tw.profile({kernel.name})")
        check_graph(kernel, get_target(target), profile or STRICT)
        return profile_graph(kernel, target, order, pin).report
    if isinstance(kernel, Compiled):
        _check_call(kernel, target, args, kwargs)
        return kernel.profile(order=order, pin=pin).report
    return profile_kernel(kernel, args, kwargs, target, profile, order, pin, most_events=0).report


def _check_call(program: Compiled, target: str | Target | None, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """E806 unless a program was compiled for this target and for arguments such as these, if there are any."""
    if target is not None and get_target(target).name != program.target.name:
        message = f"the program was compiled for {program.target.name}, not for {get_target(target).name}"
        raise fail("E806", message, hint="compile it for the target that it is to be profiled on")
    if args or kwargs:
        given = Adopted(
            [map_leaves(x, _example) for x in args], {n: map_leaves(x, _example) for n, x in kwargs.items()}
        )
        arrays_of(program.traced, given.args, given.kwargs)


def _example(_: str, value: Any) -> Any:
    """An array where one was described; it takes no memory."""
    return np.broadcast_to(np.zeros((), value.dtype.np), value.shape) if isinstance(value, ArraySpec) else value


def compile(
    function: Callable[..., Any],
    /,
    *args: Any,
    target: str | Target | None = None,
    precision: str = "float32",
    nki: str | None = None,
    placement: str = "greedy",
    check: str = "first",
    promotion: str = "numpy",
    addresses: bool = True,
    schedule: str | Schedule | None = None,
    **kwargs: Any,
) -> Compiled:
    """A NumPy function as a program: `tw.compile(softmax, tw.spec((128, 512), "float32"))`.

    args, kwargs: arrays or `tw.spec` are the program's inputs, also inside of tuples, lists, dicts and dataclasses; all
    other arguments are fixed.
    target: the hardware to compile for. precision: how products of float32 are computed: exactly as "float32", from
    operands rounded to bfloat16 ("bf16"), or from sums of two bfloat16 numbers ("bf16x3"); the report says so.
    nki: the version of NKI that the source is written for ("0.3" to "0.6"), the newest when left out.
    placement: how tiles get their addresses: "greedy", or "optimal" with OR-tools (`tilewright[ortools]`).
    check: when results are compared with NumPy's (E811): at the "first" call of a process, "always", or "off".
    promotion: how element types are promoted: as "numpy" does, or as on a "device", which computes in float32 where
    NumPy would widen to float64 (int32 with float32 gives float32).
    addresses: whether the source says where each tile lies; without, NKI's own compiler places them.
    schedule: how to lower the program, `k.schedule` of a kernel or its text, perhaps changed; what it does not tell is
    searched for, what is not legal is refused (E850 to E860).
    """
    options = CompileOptions.checked(precision, nki, placement, check, addresses, schedule)
    with promoting(promotion):
        return _compiled(function, args, kwargs, target, options)


def _compiled(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    target: str | Target | None,
    options: CompileOptions,
) -> Compiled:
    """A function as a program; kernels that it calls are ops of its graph."""
    try:
        capture = Capture(get_target(target), options.profile, keeps_compiled=False)
        given = Adopted(args, kwargs)
        traced = trace(function, given.args, given.kwargs, capture.prepare)
        return (CompiledCalls if calls_of(traced.graph) else Compiled)(traced, target, options)
    except TileError as error:
        refused(getattr(function, "__name__", "program"), function, error)
        raise


@overload
def jit(
    function: Callable[P, R],
    *,
    target: str | Target | None = None,
    precision: str = "float32",
    nki: str | None = None,
    placement: str = "greedy",
    check: str = "first",
    promotion: str = "numpy",
    schedule: str | Schedule | None = None,
) -> Jit[P, R]: ...


@overload
def jit(
    function: None = None,
    *,
    target: str | Target | None = None,
    precision: str = "float32",
    nki: str | None = None,
    placement: str = "greedy",
    check: str = "first",
    promotion: str = "numpy",
    schedule: str | Schedule | None = None,
) -> Callable[[Callable[P, R]], Jit[P, R]]: ...


def jit(
    function: Callable[..., Any] | None = None,
    *,
    target: str | Target | None = None,
    precision: str = "float32",
    nki: str | None = None,
    placement: str = "greedy",
    check: str = "first",
    promotion: str = "numpy",
    schedule: str | Schedule | None = None,
) -> Any:
    """A function that compiles itself for the shapes and element types it is called with: `@tw.jit`.

    Programs are kept: a call with known shapes, types and static arguments compiles nothing. The options are those of
    `tw.compile`.
    """
    options = CompileOptions.checked(precision, nki, placement, check, schedule=schedule)

    def make(function: Callable[..., Any]) -> Jit[..., Any]:
        check_function(function)

        def program(args: Sequence[Any], kwargs: dict[str, Any]) -> Compiled:
            with promoting(promotion):
                return _compiled(function, args, kwargs, target, options)

        return Jit(function, program)

    if target is not None:
        get_target(target)
    return make if function is None else make(function)


__all__ = ["Compiled", "Jit", "Simulation", "compile", "jit", "parse", "profile", "simulate", "verify"]
