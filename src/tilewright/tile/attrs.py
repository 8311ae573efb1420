"""Kinds of instruction attributes: how a value from a kernel becomes plain data, and how NKI spells it.

Attributes are stored as plain constants (names, numbers, tuples), so that IR text and cache keys need nothing else.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable
from enum import Enum
from typing import Any

import numpy as np

from tilewright.errors import TileTypeError, TileValueError, fail
from tilewright.rules import violate
from tilewright.tile.alu import ACTIVATIONS, ALU
from tilewright.tile.record import MISSING, Attr


class NkiEnum(Enum):
    """An enum of NKI's. Members are singletons; Enum's own hash is several times slower."""

    __hash__ = object.__hash__


class engine(NkiEnum):
    """Engines of a NeuronCore."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6


class reduce_cmd(NkiEnum):
    """What an instruction does with the engine's accumulator registers."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


class dge_mode(NkiEnum):
    """Who writes the descriptors of a DMA."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


class oob_mode(NkiEnum):
    """What an out-of-bounds run-time index does."""

    error = 0
    skip = 1


class matmul_perf_mode(NkiEnum):
    """Throughput mode of the Tensor engine."""

    none = "none"
    double_row = "double_row"


class nc_version(NkiEnum):
    """NeuronCore generations; later ones compare greater."""

    gen2 = 2
    gen3 = 3
    gen4 = 4

    def __lt__(self, other: object) -> bool:
        return self.value < other.value if isinstance(other, nc_version) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.value <= other.value if isinstance(other, nc_version) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self.value > other.value if isinstance(other, nc_version) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self.value >= other.value if isinstance(other, nc_version) else NotImplemented


class dma_engine(NkiEnum):
    """Which DMA moves data between the cores of a logical core."""

    dma = 1
    gpsimd_dma = 2


def operator_name(value: object) -> str | None:
    """The name of an operator given as an nl function, or None."""
    if isinstance(value, str):
        return value
    name = getattr(value, "op_name", None)
    return name if isinstance(name, str) else None


# nl's reductions that NKI's documentation also names as operators.
_SYNONYMS = {"max": "maximum", "min": "minimum"}


def _named(table: Iterable[str], rule: str, what: str, default: Any, remark: str = "") -> Attr:
    known = tuple(table)

    def read(value: object, name: str) -> str | None:
        if value is None and default is None:
            return None
        found = operator_name(value)
        if found in _SYNONYMS:
            found = _SYNONYMS[found]
        if found not in known:
            choices = ", ".join(f"nl.{each}" for each in known)
            violate(
                rule,
                f"{name}={value if found is None else found!r} is not {what}",
                hint=f"{_elsewhere(value, found, known)}choose one of {choices}{remark}",
                final=True,
                error=TileValueError,
            )
        if isinstance(value, str):
            hint = f"pass the function itself: {name}=nl.{found}"
            violate(rule, f"{name}={value!r} is a string, not an operator", hint=hint, error=TileTypeError)
        return found

    return Attr(
        read, known.__contains__, lambda value: "None" if value is None else f"nl.{value}", default, None, "Operator"
    )


def _elsewhere(value: object, found: str | None, known: Collection[str]) -> str:
    """Which name or which instruction has the operator that this one lacks."""
    if found is None and getattr(np, str(getattr(value, "__name__", None)), None) is value:
        name = getattr(value, "__name__", "")
        name = _SYNONYMS.get(name, name)
        return f"write nl.{name}, not NumPy's; " if name in known else ""
    if found == "divide" and "multiply" in known:
        return "multiply by the result of nisa.reciprocal; "
    if found in ALU and "exp" in known:
        return f"nisa.tensor_tensor and nisa.tensor_scalar compute nl.{found}; "
    if found in ACTIVATIONS and "exp" not in known:
        return f"nisa.activation computes nl.{found}; "
    return ""


def alu(rule: str, *, allowed: Iterable[str] | None = None, default: Any = MISSING) -> Attr:
    """An operator of the Vector engine; values outside `allowed` (all that NKI lists) break `rule`."""
    names = [row.name for row in ALU.values() if row.listed] if allowed is None else allowed
    return _named(names, rule, "an operator this instruction takes", default)


def activation_function(rule: str) -> Attr:
    """A function of the Scalar engine."""
    return _named(ACTIVATIONS, rule, "an activation function", MISSING, "; the identity is nl.copy")


def enum(kind: type[Enum], default: str) -> Attr:
    """A member of one of NKI's enums, stored by name."""
    names = {member.name for member in kind}
    # What published kernels pass instead of a member: its name, or its number.
    stand_ins = {**{member.name: member.name for member in kind}, **{member.value: member.name for member in kind}}

    def read(value: object, name: str) -> str:
        if isinstance(value, kind):
            return value.name
        if isinstance(value, (str, int)) and value in stand_ins:
            member = stand_ins[value]
            violate(
                "R-jit-13" if isinstance(value, str) else "R-jit-11",
                f"{name}={value!r} is a {type(value).__name__}; pass the member nisa.{kind.__name__}.{member}",
                hint=f"write {name}=nisa.{kind.__name__}.{member}",
                error=TileTypeError,
            )
            return member
        violate(
            "R-jit-13",
            f"{name}={value!r} is not a member of {kind.__name__}",
            hint=f"use one of {', '.join(f'nisa.{kind.__name__}.{each}' for each in sorted(names))}",
            final=True,
            error=TileTypeError,
        )
        raise AssertionError

    spelled = kind.__name__
    return Attr(
        read, lambda x: isinstance(x, str) and x in names, lambda x: f"nisa.{spelled}.{x}", default, kind, spelled
    )


# Of a whole number in an instruction: counts, strides, indices.
_MOST_BITS = 32


def is_whole(x: Any) -> bool:
    """True for a whole number that an instruction can hold."""
    return isinstance(x, int) and not isinstance(x, bool) and x.bit_length() <= _MOST_BITS


def is_number(x: Any) -> bool:
    """True for a number that an instruction can hold."""
    return isinstance(x, float) or is_whole(x)


def flag(default: Any = False, purpose: tuple[str, str] | None = None) -> Attr:
    """True or False (or None where that is the default)."""

    def read(value: object, name: str) -> bool | None:
        if value is None and default is None:
            return None
        if isinstance(value, (bool, np.bool_, int)):
            return bool(value)
        raise fail("E108", f"{name}={value!r} is not a bool", error=TileTypeError, hint="pass True or False")

    return Attr(read, lambda x: isinstance(x, bool), repr, default, None, "bool", purpose)


def integer(default: Any = MISSING, rule: str | None = None) -> Attr:
    """A whole number known at compile time; `rule` is cited for anything else."""

    def read(value: object, name: str) -> int | None:
        if value is None and default is None:
            return None
        try:
            return operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            raise fail(
                "E108",
                f"{name}={value!r} is not a whole number",
                rule=rule,
                error=TileTypeError,
                hint="pass an int: n // 2, not n / 2",
            ) from None

    return Attr(read, is_whole, repr, default, None, "int")


def number(default: Any = MISSING) -> Attr:
    """An int or float known at compile time; the kind is kept."""

    def read(value: object, name: str) -> int | float | None:
        if value is None and default is None:
            return None
        plain = as_number(value)
        if plain is None:
            raise fail(
                "E108",
                f"{name}={value!r} is not a number",
                error=TileTypeError,
                hint="pass a Python number; tiles are operands of their own",
            )
        return plain

    return Attr(read, is_number, repr, default, None, "float")


def as_number(value: object) -> int | float | None:
    """A plain Python number for Python and NumPy scalars, subclasses of int and float among them, else None."""
    if value.__class__ is int or value.__class__ is float:
        return value  # type: ignore[return-value]
    # NumPy's scalars first: its float64 is a Python float too.
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        item = value.item()
        return item if isinstance(item, (int, float)) else float(item)
    if isinstance(value, int):
        return int(value)
    return float(value) if isinstance(value, float) else None


def integers(default: Any = MISSING) -> Attr:
    """A sequence of whole numbers, or a single one."""

    def read(value: object, name: str) -> tuple[int, ...] | None:
        if value is None and default is None:
            return None
        try:
            items: tuple[Any, ...] = tuple(value) if isinstance(value, (list, tuple, range)) else (value,)
            return tuple(operator.index(item) for item in items)
        except TypeError:
            raise fail(
                "E108",
                f"{name}={value!r} is not a sequence of whole numbers",
                error=TileTypeError,
                hint="pass a tuple or list of ints",
            ) from None

    return Attr(
        read, lambda x: isinstance(x, tuple) and all(map(is_whole, x)), repr, default, None, "int | Sequence[int]"
    )


def pattern() -> Attr:
    """A list of [step, count] pairs."""

    def read(value: object, name: str) -> tuple[tuple[int, int], ...]:
        try:
            pairs = tuple((operator.index(step), operator.index(count)) for step, count in value)  # type: ignore[union-attr]
        except (TypeError, ValueError):
            raise fail(
                "E108",
                f"{name}={value!r} is not a list of [step, count] pairs",
                error=TileTypeError,
                hint="write [[step, count], ...], slowest dim first",
            ) from None
        return pairs

    def plain(x: Any) -> bool:
        return isinstance(x, tuple) and all(isinstance(p, tuple) and len(p) == 2 and all(map(is_whole, p)) for p in x)

    def spell(value: Any) -> str:
        return repr([list(pair) for pair in value])

    return Attr(read, plain, spell, MISSING, None, "Sequence[Sequence[int]]")


def numbers(default: Any = MISSING) -> Attr:
    """A sequence of numbers."""

    def read(value: object, name: str) -> tuple[float, ...] | None:
        if value is None and default is None:
            return None
        items = tuple(as_number(item) for item in value) if isinstance(value, (list, tuple)) else (None,)
        if any(item is None for item in items):
            raise fail(
                "E108",
                f"{name}={value!r} is not a sequence of numbers",
                error=TileTypeError,
                hint="pass a tuple or list of numbers",
            )
        return tuple(item for item in items if item is not None)

    return Attr(read, lambda x: isinstance(x, tuple) and all(map(is_number, x)), repr, default, None, "Sequence[float]")
