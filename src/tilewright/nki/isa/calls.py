"""nki.isa functions made from the instruction table: bind arguments, turn tensors into views, issue."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tilewright.errors import TileTypeError, fail
from tilewright.nki.context import require_session
from tilewright.nki.tensor import NKIObject, NkiTensor, VirtualRegister
from tilewright.rules import violate
from tilewright.tile.attrs import as_number
from tilewright.tile.record import MISSING, TABLE, OperandSpec, Record


class NkiInstruction(NKIObject):
    """The handle of an issued instruction."""

    __slots__ = ("op",)

    def __init__(self, op: Any) -> None:
        self.op = op

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        """Run after these producers. The simulator runs in program order, so that only order is checked."""
        return self

    @property
    def instead(self) -> str:
        """What to write where a kernel takes the handle for the result, as before NKI 0.3."""
        return _new_form(self.op.definition)


def make_function(record: Record) -> Callable[..., NkiInstruction]:
    """The nki.isa function of a record."""
    parameters = record.nki
    positions = {name: position for position, name in enumerate(parameters)}
    operand_names = tuple(record.operands)
    specs = tuple(record.operands.values())
    attributes = tuple(record.attrs.items())

    def function(*args: Any, **kwargs: Any) -> NkiInstruction:
        session = require_session(record.name)
        given: dict[str, Any] = dict(zip(parameters, args, strict=False))
        if len(args) > len(parameters) or kwargs:
            _bind_keywords(record, positions, given, len(args), kwargs)
        operands: list[Any] = []
        for name, spec in zip(operand_names, specs, strict=True):
            value: Any = given.get(name)
            if value.__class__ is NkiTensor:
                operands.append(value._view)
            elif spec.many:
                operands += _tensor_list(record, name, value)
            else:
                operands.append(_other_operand(record, name, spec, value, given))
        attrs: dict[str, Any] = {}
        for name, attr in attributes:
            value = given.get(name, MISSING)
            if value is MISSING:
                if attr.default is MISSING:
                    raise _missing(record, name, given)
                attrs[name] = attr.default
            else:
                attrs[name] = attr.read(value, name)
        return NkiInstruction(session.issue(record, operands, attrs))

    function.__name__ = function.__qualname__ = record.name
    function.__doc__ = f"{record.name}: {record.equation}"
    function.__signature__ = signature(record)  # type: ignore[attr-defined]
    return function


def signature(record: Record) -> inspect.Signature:
    """The signature as NKI documents it."""
    made: list[inspect.Parameter] = []
    required_follows = False
    for name in reversed(record.nki):
        default: Any = inspect.Parameter.empty
        if name == "name":
            default = None
        elif name in record.attrs and record.attrs[name].default is not MISSING:
            default = record.attrs[name].default
        elif name in record.operands and record.operands[name].optional:
            default = None
        # None may be passed for an optional operand; it can be left out only when all that follow can.
        if required_follows:
            default = inspect.Parameter.empty
        required_follows = default is inspect.Parameter.empty
        made.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    return inspect.Signature(made[::-1])


def _bind_keywords(
    record: Record, positions: dict[str, int], given: dict[str, Any], count: int, kwargs: dict[str, Any]
) -> None:
    if count > len(positions):
        raise fail(
            "E114",
            f"{record.name} takes {len(positions)} arguments, but {count} were given",
            hint=f"signature: {record.name}{signature(record)}",
            error=TileTypeError,
        )
    for name, value in kwargs.items():
        position = positions.get(name)
        if position is None and name in record.removed:
            rule, instead = record.removed[name]
            violate(rule, f"{record.name}: parameter '{name}' was removed", hint=instead, error=TileTypeError)
            continue
        if position is None:
            violate(
                "R-jit-01",
                f"{record.name}() got an unexpected keyword argument '{name}'",
                hint=f"signature: {record.name}{signature(record)}",
                error=TileTypeError,
            )
            continue
        if position < count:
            raise fail("E114", f"{record.name} got {name} twice", error=TileTypeError)
        given[name] = value


def _missing(record: Record, name: str, given: dict[str, Any]) -> Exception:
    return fail(
        "E114",
        f"{record.name}() is missing its argument '{name}'",
        hint=_new_form(record) if "dst" in record.nki else f"signature: {record.name}{signature(record)}",
        error=TileTypeError,
    )


def _new_form(record: Record) -> str:
    return (
        f"instructions write into their first argument and return no value: "
        f"nisa.{record.name}({', '.join(record.nki[:4])}{', ...' if len(record.nki) > 5 else ''})"
    )


def _tensor_list(record: Record, name: str, value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)) or not value or not all(isinstance(each, NkiTensor) for each in value):
        raise fail("E114", f"{record.name}: {name} must be a list of tensors", error=TileTypeError)
    return [each._view for each in value]


def _other_operand(record: Record, name: str, spec: OperandSpec, value: Any, given: dict[str, Any]) -> Any:
    if value is None:
        if spec.optional:
            return None
        raise _missing(record, name, given)
    if isinstance(value, NkiTensor):
        return value._view
    plain = as_number(value)
    if plain is not None and spec.number:
        return plain
    if isinstance(value, VirtualRegister) and spec.register:
        return value
    wanted = "a tensor or a number" if spec.number else "a tensor"
    hint = _new_form(record) if isinstance(value, NkiInstruction) or name == "dst" else None
    if spec.kind_rule is not None:
        hint = hint or f"signature: {record.name}{signature(record)}"
    raise fail(
        "E114",
        f"{record.name}: {name} must be {wanted}, not {type(value).__name__}",
        rule=spec.kind_rule,
        hint=hint,
        error=TileTypeError,
    )


def make_functions() -> dict[str, Callable[..., NkiInstruction]]:
    """One function per instruction of the table."""
    return {name: make_function(record) for name, record in TABLE.items()}
