"""Arrays across the kernel boundary: NumPy, torch and JAX in, HBM tensors inside, the caller's kind of array out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.dtypes import as_dtype
from tilewright.errors import WARNING, TileTypeError, fail
from tilewright.interop import check_plain, is_jax, is_torch, jax_to_numpy, numpy_to_jax, numpy_to_torch, torch_to_numpy
from tilewright.nki.subset import check_value
from tilewright.nki.tensor import NkiTensor
from tilewright.rules import violate
from tilewright.sim.session import Session
from tilewright.sim.storage import EVERYTHING, Storage
from tilewright.sim.undo import Undo
from tilewright.sim.wide import is_widened
from tilewright.spec import ArraySpec
from tilewright.tile.memory import HBM, SHARED_HBM, Buffer
from tilewright.tile.view import View, whole

_NO_BYTES = np.empty(0, np.uint8)


@dataclass(slots=True)
class Held:
    """An array of the caller and the bytes that kernels work on: its own where that is possible, else a copy.

    undo: what it held before the run.
    """

    name: str
    original: np.ndarray
    used: np.ndarray
    undo: Undo
    storages: list[Storage] = field(default_factory=list)

    def before(self) -> np.ndarray:
        """What the kernel was given."""
        return self.undo.before().view(self.used.dtype).reshape(self.used.shape)


class Arguments:
    """The arguments of a launch: bound to the kernel's parameters once, given to every core as tensors in HBM."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        copy: bool = False,
        given: Mapping[int, np.ndarray] | None = None,
    ) -> None:
        """copy: leave the caller's arrays alone. given: what to use in place of some of them, by identity."""
        signature = inspect.signature(function)
        try:
            self.bound = signature.bind(*args, **kwargs)
        except TypeError as problem:
            raise fail(
                "E114",
                f"kernel {getattr(function, '__name__', 'kernel')}: {problem}",
                hint=f"its signature is {signature}",
                error=TileTypeError,
            ) from None
        self.held: dict[int, Held] = {}
        self.copy = copy
        self.given = given or {}
        self.back: Callable[[np.ndarray], Any] | None = None
        self.returned: set[Storage] = set()
        self._taken: set[Storage] = set()

    def bind(self, session: Session) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments as one core sees them (R-simulate-01).

        Arrays, at any depth of tuples, lists and dicts, become tensors in HBM, named after the parameters; everything
        else passes through.
        """
        kinds = self.bound.signature.parameters
        values: dict[str, Any] = {}
        for name, value in self.bound.arguments.items():
            if kinds[name].kind is inspect.Parameter.VAR_KEYWORD:
                values[name] = {key: self._bind(session, each, key) for key, each in value.items()}
            else:
                values[name] = self._bind(session, value, name)
        bound = inspect.BoundArguments(self.bound.signature, values)  # type: ignore[arg-type]
        return list(bound.args), bound.kwargs

    def _bind(self, session: Session, value: Any, name: str) -> Any:
        if not isinstance(value, (np.ndarray, ArraySpec)) and not is_torch(value) and not is_jax(value):
            check_value(value, name)
        if isinstance(value, tuple):
            parts = [self._bind(session, each, f"{name}_{i}") for i, each in enumerate(value)]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if isinstance(value, list):
            return [self._bind(session, each, f"{name}_{i}") for i, each in enumerate(value)]
        if isinstance(value, dict):
            return {key: self._bind(session, each, f"{name}_{key}") for key, each in value.items()}
        if isinstance(value, ArraySpec):
            return self._described(session, value, name)
        if isinstance(value, np.ndarray):
            return self._array(session, id(value), value, name)
        if is_torch(value):
            self.back = numpy_to_torch
            return self._array(session, id(value), torch_to_numpy(value), name)
        if is_jax(value):
            self.back = numpy_to_jax
            return self._array(session, id(value), jax_to_numpy(value), name)
        if isinstance(value, NkiTensor):
            violate(
                "R-tensor-14",
                f"argument {name} is a tensor of a kernel, which does not exist outside of it",
                hint="pass arrays; call the inner function from the kernel to work on its tensors",
                operands=[value._view.note(name)],
                final=True,
            )
        return value

    def _described(self, session: Session, spec: ArraySpec, name: str) -> NkiTensor:
        if not session.options.shapes:
            raise fail("E108", f"argument {name} is a spec, but the kernel is to be run", hint="pass an array")
        as_dtype(str.__str__(spec.dtype), f"argument {name}")  # 64-bit types are for NumPy programs
        _refuse_empty(spec.shape, name)
        return _input(session, spec.shape, spec.dtype, _NO_BYTES, name)[0]

    def _array(self, session: Session, key: int, array: np.ndarray, name: str) -> NkiTensor:
        check_plain(name, array)
        as_dtype(array.dtype, f"argument {name}")  # refused before anything is copied
        _refuse_empty(array.shape, name)
        if session.options.shapes:
            return _input(session, array.shape, array.dtype, _NO_BYTES, name)[0]
        # All cores, and parameters that are given the same array, work on the same bytes.
        held = self.held.get(key)
        if held is None:
            used = self.given.get(key)
            session.check_room(array.nbytes)
            if used is None:
                used = self._usable(array, session.options.precise)
            held = self.held[key] = Held(name, array, used, Undo(_bytes_of(used)))
        tensor, storage = _input(session, array.shape, array.dtype, _bytes_of(held.used), name)
        storage.undo = held.undo
        held.storages.append(storage)
        return tensor

    def _usable(self, array: np.ndarray, precise: bool) -> np.ndarray:
        if not precise and is_widened(as_dtype(array.dtype)):
            return array.astype(np.float32, order="C")
        own = array.flags.c_contiguous and array.flags.writeable and not self.copy
        return array if own else np.array(array, order="C")

    def own(self, storage: Storage, view: View, array: np.ndarray) -> np.ndarray:
        """A result as an array that nobody else works on: a tensor that the kernel made, or a copy."""
        free = storage.undo is None and storage not in self._taken and not view.on_chip and view.covers_buffer()
        self.returned.add(storage)
        self._taken.add(storage)
        return array if free and array.flags.c_contiguous else array.copy()

    def write_back(self) -> None:
        """Copy what the kernel wrote to its arguments to the caller's arrays, if it worked on copies (R-tensor-21)."""
        for held in () if self.copy else self.held.values():
            written = [storage for storage in held.storages if storage.first_write >= 0]
            if held.used is held.original or not written:
                continue
            if held.original.flags.writeable:
                held.original[...] = held.used.reshape(held.original.shape)
            elif not self.returned.intersection(written):
                violate(
                    "R-tensor-21",
                    f"the kernel writes to its argument {held.name}, but the array is read-only: the result is lost",
                    hint="pass a writable array, or return the tensor from the kernel",
                )


def _bytes_of(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


def _refuse_empty(shape: Sequence[int], name: str) -> None:
    if 0 in shape:
        raise fail(
            "E103",
            f"argument {name} has shape {tuple(shape)}, which holds no element",
            rule="R-tensor-04",
            hint="leave the call out where there is nothing to compute",
        )


def _input(
    session: Session, shape: Sequence[int], dtype: object, data: np.ndarray, name: str
) -> tuple[NkiTensor, Storage]:
    # The cores of a logical core share their arguments; a core alone has them to itself.
    memory = SHARED_HBM if session.num_programs > 1 else HBM
    buffer = Buffer(as_dtype(dtype), tuple(shape), memory, name)
    session.hold(buffer)
    storage = session.machine.allocate(buffer, data)
    storage.written = EVERYTHING
    session.graph.body.arguments.append(buffer)
    session.inputs.add(buffer)
    return NkiTensor(whole(buffer), None), storage


def to_caller(session: Session, arguments: Arguments, value: Any, taken: bool = True) -> Any:
    """The kernel's return value with tensors as arrays of the caller's kind, checked to be whole and in HBM.

    taken: False where nobody takes it, so that it is only checked.
    """
    if isinstance(value, NkiTensor):
        return _output(session, arguments, value, taken)
    if isinstance(value, tuple):
        parts = [to_caller(session, arguments, each, taken) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [to_caller(session, arguments, each, taken) for each in value]
    if isinstance(value, dict):
        return {key: to_caller(session, arguments, each, taken) for key, each in value.items()}
    return value


def _output(session: Session, arguments: Arguments, tensor: NkiTensor, taken: bool) -> Any:
    view = tensor._view
    _check_output(session, tensor)
    if session.options.record:
        session.graph.outputs = (*session.graph.outputs, view.buffer)
        session.returned.append(view)
    machine = session.machine
    storage = machine.touch(view)
    machine.require_written(view, view.buffer.location, "R-tensor-18", rows=True)
    if session.options.shapes:
        return ArraySpec(view.sizes, view.dtype)
    if not taken:
        arguments.returned.add(storage)
        return None
    array, undefined = machine.read(view, False, None)
    array = arguments.own(storage, view, array)
    if undefined is not None and session.reporter.severity("R-tensor-18") == WARNING:
        # Padding, which the profile lets pass: a device that has just been started holds zeros.
        array[undefined != 0] = 0
    return arguments.back(array) if arguments.back else array


def _check_output(session: Session, tensor: NkiTensor) -> None:
    view = tensor._view
    where = f"the kernel returns {view.buffer.name}, which is in {view.memory.value}"
    if view.on_chip:
        violate(
            "R-tensor-14",
            where,
            hint="copy it to a tensor in nl.shared_hbm with nisa.dma_copy and return that",
            operands=[view.note("output")],
            location=view.buffer.location,
            final=True,
        )
    if view.memory is not SHARED_HBM and view.buffer not in session.inputs:
        violate(
            "R-tensor-16" if session.num_programs > 1 else "R-tensor-15",
            f"{where}: an output must be in shared_hbm address space",
            hint="allocate outputs with buffer=nl.shared_hbm",
            operands=[view.note("output")],
            location=view.buffer.location,
        )
