"""NkiTensor: what a kernel holds. A thin spelling of `tile.access` over a view, and the handle that keeps its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any

from tilewright.dtypes import DType, as_dtype
from tilewright.errors import ERROR, TileError, TileTypeError, TileValueError, fail, user_location
from tilewright.ir.core import Value
from tilewright.nki.binding import bound
from tilewright.nki.objects import NKIObject
from tilewright.nki.register import VirtualRegister, steers_while
from tilewright.rules import reporter, violate
from tilewright.sim.session import Session, running_session
from tilewright.tile import access
from tilewright.tile.indirect import indirect
from tilewright.tile.memory import Buffer, MemoryRegion
from tilewright.tile.record import TABLE
from tilewright.tile.view import View, whole


class Handle:
    """Keeps the bytes of a buffer; when the last tensor of a buffer is gone, the machine forgets them."""

    __slots__ = ("buffer", "machine")

    def __init__(self, machine: Any, buffer: Buffer) -> None:
        self.machine = machine
        self.buffer = buffer

    def __del__(self) -> None:
        self.machine.release(self.buffer)


class NkiTensor(NKIObject):
    """A tensor in SBUF, PSUM or HBM. Every method returns a view that shares its storage (R-tensor-13)."""

    __slots__ = ("_handle", "_view")

    def __init__(self, view: View, handle: object) -> None:
        self._view = view
        self._handle = handle

    @property
    def shape(self) -> tuple[int, ...]:
        return self._view.sizes

    @property
    def strides(self) -> tuple[int, ...]:
        return self._view.strides

    @property
    def offset(self) -> int:
        return self._view.offset

    @property
    def name(self) -> str:
        return self._view.buffer.name or ""

    @property
    def dtype(self) -> DType:
        return self._view.dtype

    @property
    def buffer(self) -> MemoryRegion:
        return self._view.buffer.memory

    @property
    def ndim(self) -> int:
        return len(self._view.sizes)

    @property
    def size(self) -> int:
        return self._view.size

    def is_contiguous(self) -> bool:
        """Row-major without gaps (on chip: within each partition)."""
        return self._view.is_contiguous()

    def get_pattern(self) -> list[list[int]]:
        """[[stride, count], ...] of this view."""
        return [[stride, size] for stride, size in zip(self._view.strides, self._view.sizes, strict=True)]

    def is_indirect(self) -> bool:
        """True when a run-time index takes part in the address."""
        return self._view.dynamic is not None

    def _with(self, view: View, index: object = None) -> NkiTensor:
        """Another view of this tensor. An index tile lives as long as the view that needs it."""
        made = NkiTensor.__new__(NkiTensor)
        made._view = view
        made._handle = (self._handle, index._handle) if isinstance(index, NkiTensor) else self._handle
        return made

    def __getitem__(self, key: object) -> NkiTensor:
        parts: tuple[object, ...] = key if isinstance(key, tuple) else (key,)
        for part in parts:
            if part.__class__ not in _PLAIN:
                return self._with(access.index(self._view, tuple(map(_plain_part, parts))), _index_tile(parts))
        return self._with(access.index(self._view, key))

    def __setitem__(self, key: object, value: object) -> None:
        from tilewright.nki.assign import assign

        assign(self[key], value)

    def permute(self, dims: Sequence[int]) -> NkiTensor:
        return self._with(access.permute(self._view, dims))

    def broadcast(self, dim: int, size: int) -> NkiTensor:
        return self._with(access.broadcast(self._view, dim, size))

    def expand_dim(self, dim: int) -> NkiTensor:
        return self._with(access.expand_dim(self._view, dim))

    def squeeze_dim(self, dim: int) -> NkiTensor:
        return self._with(access.squeeze_dim(self._view, dim))

    def reshape_dim(self, dim: int, shape: Sequence[int]) -> NkiTensor:
        return self._with(access.reshape_dim(self._view, dim, shape))

    def flatten_dims(self, start_dim: int, end_dim: int) -> NkiTensor:
        return self._with(access.flatten_dims(self._view, start_dim, end_dim))

    def reshape(self, shape: Any, *more: int) -> NkiTensor:
        sizes = shape if not more and isinstance(shape, (tuple, list)) else (shape, *more)
        if reporter().severity("R-tensor.reshape-02") != ERROR and access.moves_partitions(self._view, sizes):
            return _moved_copy(self, sizes)
        return self._with(access.reshape(self._view, sizes))

    def rearrange(
        self, src_pattern: Sequence, dst_pattern: Sequence, fixed_sizes: dict[str, int] | None = None
    ) -> NkiTensor:
        return self._with(access.rearrange(self._view, src_pattern, dst_pattern, fixed_sizes))

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> NkiTensor:
        return self._with(access.slice_dim(self._view, dim, start, end, step))

    def select(self, dim: int, index: Any) -> NkiTensor:
        if isinstance(index, (NkiTensor, VirtualRegister)):
            return self._with(access.dynamic_select(self._view, dim, _index_operand(index)), index)
        return self._with(access.select(self._view, dim, index))

    def vector_select(self, dim: int, vector_offset: NkiTensor) -> NkiTensor:
        rows = view_of(vector_offset, "vector_offset")
        return self._with(access.vector_select(self._view, dim, rows), vector_offset)

    def ap(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int | None = None,
        scalar_offset: Any = None,
        vector_offset: NkiTensor | None = None,
        indirect_dim: int = 0,
        dtype: object = None,
    ) -> NkiTensor:
        return self._with(
            access.access_pattern(
                self._view,
                pattern,
                offset,
                None if scalar_offset is None else _index_operand(scalar_offset),
                None if vector_offset is None else view_of(vector_offset, "vector_offset"),
                indirect_dim,
                None if dtype is None else as_dtype(dtype),
            ),
            vector_offset if scalar_offset is None else scalar_offset,
        )

    def view(self, dtype: object) -> NkiTensor:
        return self._with(access.reinterpret(self._view, as_dtype(dtype)))

    reinterpret_cast = view

    def indirect(self, index: NkiTensor, num_elem: int | None = None) -> NkiTensor:
        session = running_session()
        if session is None or not session.target["features.indirection"]:
            violate(
                "R-tensor.indirect-01",
                "tensor indirection needs NeuronCore-v4",
                final=True,
                hint="gather with dma_copy and vector_offset, or with nc_n_gather on chip",
            )
        return self._with(indirect(self._view, view_of(index, "index"), num_elem), index)

    # Python would give these a meaning that no engine has.

    def __bool__(self) -> bool:
        """True, as of any object: kernels ask so whether an optional tensor was given (R-language-09)."""
        location = user_location()
        if location is not None and steers_while(location):
            raise _unknown("the truth value of a tensor is", TileValueError)
        violate(
            "R-language-09",
            "a tensor in a condition counts as True, whatever it contains",
            hint="ask `tensor != None` where it may be missing; nl.where or a predicated copy choose by its contents",
        )
        return True

    def __index__(self) -> int:
        raise _unknown("the value of a tensor is", TileTypeError)

    __int__ = __index__

    def __float__(self) -> float:
        raise _unknown("the value of a tensor is", TileTypeError)

    def __array__(self, *_args: Any, **_kwargs: Any) -> Any:
        # NumPy would else take the tensor for a sequence and go down it without end.
        raise _unknown("the contents of a tensor are", TileTypeError)

    def __iter__(self) -> Any:
        raise fail(
            "E110",
            "a tensor cannot be looped over, unpacked or searched; for takes ranges, lists and tuples",
            rule="R-language-09",
            hint="loop over positions: for i in range(tensor.shape[0]), and take tensor[i : i + 1]",
            error=TileTypeError,
        )

    def __contains__(self, value: object) -> bool:
        return value in iter(self)

    def __len__(self) -> int:
        return self._view.sizes[0]

    def __repr__(self) -> str:
        return f"NkiTensor({self.name}: {self.dtype}{list(self.shape)} in {self.buffer.value})"


# A call that does not fit its method gets a diagnostic.
for _name, _each in [*vars(NkiTensor).items()]:
    if isinstance(_each, FunctionType) and not _name.startswith("_"):
        setattr(NkiTensor, _name, bound(_each, _each.__name__))


def _unknown(what: str, error: type[TileError]) -> TileError:
    """R-language-09: Python asks a tensor for data that only the engines see."""
    return fail(
        "E110",
        f"{what} not known while a kernel is built",
        rule="R-language-09",
        hint="use nl functions, nl.where or a predicated copy; Python's if, range and int take shapes and numbers",
        error=error,
    )


def _instead(function: str, other: object, in_place: bool) -> str:
    """What to write for an operator: a is the tile, b the other operand, None if there is none."""
    number = isinstance(other, (int, float))
    if function == "matmul":
        return "write nl.matmul(a, b, transpose_x=True), or nisa.nc_matmul(psum, a, b): both compute a.T @ b"
    if function in ("divide", "floor"):
        quotient = f"nl.multiply(a, {'1 / b' if number else 'nl.reciprocal(b)'})"
        if function == "floor":
            return f"write nl.floor({quotient}); sizes and places are whole numbers: shape[0] // 128"
        return f"write {quotient}; nl.divide(a, b) is for simulation only"
    if other is None:
        return f"write nl.{function}(a)"
    if function == "add" and in_place and isinstance(other, NkiTensor) and other.buffer is MemoryRegion.psum:
        return "nisa.nc_matmul(psum, stationary, moving) adds to a tile in psum by itself; in sbuf: nisa.tensor_tensor"
    first = "a, a" if in_place else "dst, a"
    call = f"nisa.tensor_scalar({first}, nl.{function}, b)" if number else ""
    call = call or f"nisa.tensor_tensor({first}, b, op=nl.{function})"
    return f"write {call}" if in_place else f"write nl.{function}(a, b), or {call}"


def _operator(symbol: str, function: str, in_place: bool = False):
    def refuse(self: NkiTensor, other: object = None) -> NkiTensor:
        raise fail(
            "E108",
            f"tensors have no operator {symbol}",
            rule="R-nl-01",
            hint=getattr(other, "instead", None) or _instead(function, other, in_place),
            error=TileTypeError,
        )

    return refuse


for _symbol, _method, _function in (
    ("+", "add", "add"),
    ("-", "sub", "subtract"),
    ("*", "mul", "multiply"),
    ("/", "truediv", "divide"),
    ("**", "pow", "power"),
    ("&", "and", "bitwise_and"),
    ("|", "or", "bitwise_or"),
    ("^", "xor", "bitwise_xor"),
    ("<<", "lshift", "left_shift"),
    (">>", "rshift", "right_shift"),
    ("%", "mod", "mod"),
    ("//", "floordiv", "floor"),
    ("@", "matmul", "matmul"),
):
    setattr(NkiTensor, f"__{_method}__", _operator(_symbol, _function))
    setattr(NkiTensor, f"__r{_method}__", _operator(_symbol, _function))
    setattr(NkiTensor, f"__i{_method}__", _operator(f"{_symbol}=", _function, in_place=True))
for _symbol, _method, _function in (
    ("<", "lt", "less"),
    ("<=", "le", "less_equal"),
    (">", "gt", "greater"),
    (">=", "ge", "greater_equal"),
    ("-", "neg", "negative"),
    ("~", "invert", "invert"),
    ("abs()", "abs", "abs"),
):
    setattr(NkiTensor, f"__{_method}__", _operator(_symbol, _function))


def _index_operand(index: Any) -> View | Value:
    if isinstance(index, NkiTensor):
        return index._view
    if isinstance(index, Value):
        return index
    raise fail(
        "E108",
        f"{index!r} is not a register or a tensor",
        rule="R-tensor.ap-05",
        error=TileTypeError,
        hint="load the index to sbuf as (1, 1), or to a register with nisa.register_load",
    )


_PLAIN = frozenset({int, slice, type(Ellipsis)})


def _plain_part(part: object) -> object:
    """A tensor in an index becomes its view; everything else passes through."""
    if isinstance(part, NkiTensor):
        return part._view
    if isinstance(part, access.Slice) and isinstance(part.start, NkiTensor):
        return access.Slice(part.start._view, part.size)
    return _slice_of(part) if isinstance(part, range) else part


def _slice_of(part: range) -> slice:
    """tensor[nl.affine_range(n)], as kernels for NKI 0.4 write where 0.3 has slices."""
    violate(
        "R-tensor.index-05",
        f"a tensor is indexed with {part!r}",
        hint=f"write {part.start}:{part.stop}" + (f":{part.step}" if part.step != 1 else ""),
        error=TileTypeError,
    )
    return slice(part.start, part.stop, part.step)


def _index_tile(parts: tuple[object, ...]) -> object:
    """The tensor that an index names, if it names one."""
    starts = (part.start if isinstance(part, access.Slice) else part for part in parts)
    return next((start for start in starts if isinstance(start, NkiTensor)), None)


def _moved_copy(tensor: NkiTensor, sizes: Sequence[int]) -> NkiTensor:
    """What the lenient profile makes of a reshape that moves partitions: a new tile that a DMA fills."""
    violate(
        "R-tensor.reshape-02",
        f"reshape of {tensor.shape} to {tuple(sizes)} moves elements between partitions: done here by a copy",
        hint="dim 0 is the partition dim and must stay; transpose or DMA to move data across partitions",
        operands=[tensor._view.note("tensor")],
    )
    session = running_session()
    assert session is not None, "a tensor exists only while its kernel runs"
    made = new_tensor(session, sizes, tensor.dtype, tensor.buffer)
    record = TABLE["dma_copy"]
    session.issue(record, [made._view, tensor._view], record.attributes({}))
    return made


def view_of(value: object, name: str) -> View:
    """The view of a tensor argument; a clear error for anything else."""
    if isinstance(value, NkiTensor):
        return value._view
    raise fail(
        "E108",
        f"{name} must be a tensor, not {type(value).__name__}",
        error=TileTypeError,
        hint="pass a tile from nl.ndarray or nl.load, or a tensor that the kernel was given",
    )


def new_tensor(session: Session, shape: Sequence[int], dtype: DType, memory: MemoryRegion, **details: Any) -> NkiTensor:
    """Allocate a buffer in the running session and wrap it."""
    buffer = session.allocate(tuple(shape), dtype, memory, **details)
    handle = Handle(session.machine, buffer) if buffer.on_chip else None
    return NkiTensor(whole(buffer), handle)
