"""`tw.ranges`: what inputs of given ranges can do to a kernel, before any run; nothing found means proved safe."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from tilewright.api import compile
from tilewright.compiler import Compiled
from tilewright.diagnose.conditioning import ill_conditioned, ill_conditioned_in_numpy
from tilewright.diagnose.findings import Finder
from tilewright.diagnose.shadow import ShadowRun
from tilewright.diagnose.spread import Order, Spread, lifted, spread, watched
from tilewright.diagnose.tensors import TensorRun
from tilewright.dtypes import DType
from tilewright.errors import Diagnostic, TileTypeError, TileValueError, fail
from tilewright.front.binding import bind
from tilewright.front.jit import Jit
from tilewright.front.pytree import argument_leaves
from tilewright.ir.core import Op
from tilewright.nki.arrays import Arguments
from tilewright.nki.kernel import Kernel, as_kernel, run_kernel
from tilewright.sim.session import Options, Session
from tilewright.spec import ArraySpec
from tilewright.target import Target, get_target
from tilewright.tensor.passes.simplify.shared import share
from tilewright.tile.alu import ACTIVATIONS, ALU
from tilewright.tile.memory import Buffer

Ranges = Mapping[str, tuple[float, float]]


def ranges(
    kernel: Any, /, *args: Any, ranges: Ranges | None = None, target: str | Target | None = None, **kwargs: Any
) -> list[Diagnostic]:
    """What arguments of given ranges can do to a kernel; an empty list means proved safe.

    kernel: an `nki.jit` kernel, or what `tw.compile` or `tw.jit` made, or a NumPy function. args, kwargs: arrays, or
    `tw.spec` for those of which nothing else is known: they may hold every finite value of their type.
    ranges: name of an array argument -> (low, high), whatever array is given for it; "a - b" -> (low, high) says which
    of two arguments is never larger.
    """
    given = {} if ranges is None else ranges
    if isinstance(kernel, Jit):
        kernel = compile(kernel.function, *args, target=target, **kwargs)
    elif not isinstance(kernel, (Kernel, Compiled)) and callable(kernel) and not uses_nki(kernel):
        kernel = compile(kernel, *args, target=target, **kwargs)
    if isinstance(kernel, Compiled):
        return program_ranges(kernel, args, kwargs, given)
    return kernel_ranges(kernel, args, kwargs, given, target)


def uses_nki(function: Any) -> bool:
    """Whether a plain function is a kernel: it calls the NKI API by a name of its module."""
    code, names = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    if code is None:
        return False
    nested = [each for each in code.co_consts if isinstance(each, CodeType)]
    used = {*code.co_names, *(name for each in nested for name in each.co_names)}
    held = {*code.co_freevars}
    values = [names.get(name) for name in used]
    values += [cell.cell_contents for cell in function.__closure__ or () if held]
    modules = [getattr(value, "__name__" if isinstance(value, ModuleType) else "__module__", "") for value in values]
    return any(str(module).split(".")[0] in ("nki", "neuronxcc") or ".nki" in str(module) for module in modules)


def kernel_ranges(
    kernel: Any, args: Sequence[Any], kwargs: dict[str, Any], ranges: Ranges, target: str | Target | None
) -> list[Diagnostic]:
    """What can go wrong in a hand-written kernel."""
    given = checked(ranges)
    # Shapes are enough to record it; collected, so that what is wrong besides does not end it.
    run = run_kernel(as_kernel(kernel), args, kwargs, target, None, Options(record=True, shapes=True), collect=True)
    if run.failure is not None:
        raise run.failure
    arrays = _arrays(kernel, args, kwargs)
    _refuse_unknown(given, [str(buffer.name) for buffer in _inputs(run.session)])
    found: list[Diagnostic] = []
    for session in run.sessions:
        found += _session_ranges(session, arrays, given, get_target(target))
    if len(run.sessions) == 1:
        ends = (None, 1, 0) if given else (None,)
        # Where numbers leave their range they do so in what is drawn too.
        ends += (_DRAWN,) if given and not found and _can_be_drawn(given) else ()
        found += _conditioning(as_kernel(kernel), run.session, given, args, kwargs, get_target(target), ends)
    return list({(each.code, each.message, each.location): each for each in found}.values())


def program_ranges(program: Compiled, args: Sequence[Any], kwargs: dict[str, Any], ranges: Ranges) -> list[Diagnostic]:
    """What can go wrong in a compiled NumPy function, in the element types that it is computed with."""
    pairs = checked(ranges)
    graph = program.program.graph.clone()
    # Equal slices of an array are one array, of which the order is known.
    share(graph)
    names = [each.path for each in program.traced.inputs]
    _refuse_unknown(pairs, names)
    bound = bind(program.traced.function, args, kwargs).arguments if args or kwargs else {}
    held = dict(argument_leaves(bound))
    finder = Finder(said(pairs))
    inputs = [
        _given(value.type.dtype, value.type.shape, held.get(name), pairs.get(name))
        for value, name in zip(graph.inputs, names, strict=True)
    ]
    _relate(dict(zip(names, inputs, strict=True)), pairs)
    run = TensorRun(lambda op: finder.look_at(op, op.name), finder.stored, finder.refused)
    watched(finder, lambda: run.run(graph, inputs))
    found = list(finder.found.values())
    if found or not _can_be_drawn(pairs):
        return found
    arrays = [
        _at_end(held.get(name, value.type), pairs.get(name), _DRAWN)
        for value, name in zip(graph.inputs, names, strict=True)
    ]
    if not all(isinstance(x, np.ndarray) and _is_finite(x) for x in arrays):
        return []
    given = [np.asarray(x, value.type.dtype.np) for x, value in zip(arrays, graph.inputs, strict=True)]
    return ill_conditioned_in_numpy(graph, given, _where(pairs, _DRAWN))


def _refuse_unknown(ranges: Ranges, names: Sequence[str]) -> None:
    unknown = [part for name in ranges for part in parts_of(name) if part not in names]
    if unknown:
        hint = f"its arguments are {', '.join(names)}"
        raise fail("E108", f"there is no array argument {unknown[0]!r}", hint=hint, error=TileValueError)


def parts_of(name: str) -> list[str]:
    """The arguments that a range is about: one, or the two of a difference."""
    return [part.strip() for part in name.split("-")]


def _relate(inputs: Mapping[str, Spread], ranges: Ranges) -> None:
    """Tell the arguments of a difference which of them is never larger."""
    for name, (low, high) in ranges.items():
        if len(parts_of(name)) != 2:
            continue
        first, second = (inputs[part] for part in parts_of(name))
        order, own = second.known_order(), first.known_order()
        if first.shape == second.shape:
            above = {**own.above, **(order.above if low >= 0 else {})}
            below = {**own.below, **(order.below if high <= 0 else {})}
            first.order = Order(above, below, {}, own.crest)


def checked(ranges: Ranges) -> dict[str, tuple[float, float]]:
    """Ranges as pairs of numbers, the lower one first."""
    found: dict[str, tuple[float, float]] = {}
    if not isinstance(ranges, Mapping):
        hint = 'write ranges={"x": (low, high)}'
        raise fail("E108", f"ranges is a {type(ranges).__name__}", hint=hint, error=TileTypeError)
    for name, pair in ranges.items():
        if not isinstance(name, str) or len(parts_of(name)) > 2:
            hint = 'write ranges={"x": (low, high)}, or {"x - y": (low, high)} of two arguments'
            raise fail("E108", f"{name!r} names no argument", hint=hint, error=TileTypeError)
        try:
            low, high = map(float, pair)
        except (TypeError, ValueError, OverflowError):
            hint = f'write ranges={{"{name}": (low, high)}}'
            raise fail("E108", f"the range of {name} is {pair!r}", hint=hint, error=TileTypeError) from None
        if not low <= high:
            hint = "give the lower end first: (0, 255)"
            raise fail("E108", f"the range of {name} goes from {low} to {high}", hint=hint, error=TileValueError)
        found[name] = (low, high)
    return found


def _inputs(session: Session) -> list[Buffer]:
    return [value for value in session.graph.body.arguments if isinstance(value, Buffer)]


def _session_ranges(
    session: Session, arrays: Mapping[str, np.ndarray], ranges: Ranges, target: Target
) -> list[Diagnostic]:
    finder = Finder(said(ranges))
    shadow = ShadowRun(target, lambda op: finder.look_at(op, described(op)), finder.stored, finder.refused)
    inputs = {
        buffer: session.constants[buffer] if buffer in session.constants else arrays.get(buffer.name or "")
        for buffer in _inputs(session)
    }
    given = {
        buffer: _given(buffer.dtype, buffer.shape, array, ranges.get(buffer.name or ""))
        for buffer, array in inputs.items()
    }
    _relate({str(buffer.name): value for buffer, value in given.items()}, ranges)
    for buffer, value in given.items():
        if np.isnan(value.lo).any():
            finder.not_a_number(str(buffer.name))
    watched(finder, lambda: shadow.run(session.graph, given))
    return list(finder.found.values())


def _given(dtype: DType, shape: tuple[int, ...], array: Any, pair: tuple[float, float] | None) -> Spread:
    """What an input can hold: its range, else what it is; of one that is only described, every finite value.

    So does a range without an end.
    """
    low, high = float(dtype.min), float(dtype.max)
    if pair is not None:
        low, high = (pair[0] if np.isfinite(pair[0]) else low), (pair[1] if np.isfinite(pair[1]) else high)
    elif isinstance(array, np.ndarray):
        return lifted(array)
    return spread(np.full(shape, low), np.full(shape, high), dtype.np)


def _conditioning(
    kernel: Kernel,
    session: Session,
    ranges: Ranges,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    target: Target,
    ends: Sequence[int | None],
) -> list[Diagnostic]:
    """Look at the arrays that were given, at those as large and as small as their ranges allow, and at drawn ones."""
    bound = Arguments(kernel.function, args, kwargs).bound
    for end in ends:
        filled = {name: _at_end(value, ranges.get(name), end) for name, value in bound.arguments.items()}
        inputs = {
            buffer: session.constants[buffer] if buffer in session.constants else filled.get(str(buffer.name))
            for buffer in _inputs(session)
        }
        known = {buffer: array for buffer, array in inputs.items() if isinstance(array, np.ndarray)}
        if len(known) < len(inputs) or not all(map(_is_finite, known.values())):
            return []
        where = _where(ranges, end)
        own = inspect.BoundArguments(bound.signature, filled)  # type: ignore[arg-type]
        found = ill_conditioned(kernel, session.graph, known, own.args, own.kwargs, target, where)
        if found:
            return found
    return []


def _is_finite(array: np.ndarray) -> bool:
    return array.dtype.kind in "iub" or bool(np.isfinite(array.astype(np.float32)).all())


_DRAWN = 2
"""In place of an end of a range: numbers drawn from all of it."""


def _can_be_drawn(ranges: Ranges) -> bool:
    """Arguments of which one is never larger are not drawn each by itself, nor are ranges that no float32 fills."""
    widest = float(np.finfo(np.float32).max)
    return all(len(parts_of(name)) == 1 and -widest <= low and high <= widest for name, (low, high) in ranges.items())


def _where(ranges: Ranges, end: int | None) -> str:
    names = ", ".join(ranges)
    return {
        None: "with the arrays given",
        _DRAWN: f"with {names} drawn from their range" if names else "with the arrays given",
    }.get(end, f"with {names} at one end of their range")


def _at_end(value: Any, pair: tuple[float, float] | None, end: int | None) -> Any:
    """An argument, or an array of one end of its range, or drawn from it."""
    if pair is None or (end is None and not isinstance(value, ArraySpec)) or not hasattr(value, "shape"):
        return value
    dtype = value.dtype if isinstance(value, np.ndarray) else value.dtype.np
    if end == _DRAWN:
        return np.random.default_rng(0).uniform(*pair, value.shape).astype(dtype)
    return np.full(value.shape, pair[end or 0], dtype)


def _arrays(kernel: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, np.ndarray]:
    """Arguments by the names their tensors have."""
    bound = Arguments(as_kernel(kernel).function, args, kwargs).bound
    found: dict[str, np.ndarray] = {}

    def note(name: str, value: Any) -> None:
        if isinstance(value, np.ndarray):
            found[name] = value
        elif isinstance(value, (tuple, list)) and not isinstance(value, ArraySpec):
            for i, each in enumerate(value):
                note(f"{name}_{i}", each)
        elif isinstance(value, dict):
            for key, each in value.items():
                note(f"{name}_{key}", each)

    for name, value in bound.arguments.items():
        note(name, value)
    return found


def said(ranges: Ranges) -> str:
    """The ranges as a note."""
    return ", ".join(f"{name} in [{low:g}, {high:g}]" for name, (low, high) in ranges.items())


def described(op: Op) -> str:
    """An instruction with the functions that it applies."""
    functions = [x for x in op.attrs.values() if isinstance(x, str) and (x in ALU or x in ACTIVATIONS)]
    target = next((operand for operand in op.operands if hasattr(operand, "buffer")), None)
    name = f" into {target.buffer.name}" if target is not None else ""
    return f"{op.name} ({', '.join(functions)}){name}" if functions else f"{op.name}{name}"
