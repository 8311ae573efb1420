"""nki.isa functions made from the instruction table: bind arguments, turn tensors into views, issue."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tilewright.errors import TileTypeError, fail
from tilewright.nki.binding import call_form, unexpected_keyword
from tilewright.nki.context import require_session
from tilewright.nki.tensor import NKIObject, NkiTensor, VirtualRegister
from tilewright.rules import violate
from tilewright.sim.session import running_session
from tilewright.tile.attrs import as_number
from tilewright.tile.record import MISSING, TABLE, Attributes, OperandSpec, Record


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
    known = frozenset(parameters)
    positions = {name: position for position, name in enumerate(parameters)}
    operand_specs = tuple(record.operands.items())
    attributes = SharedAttributes(record)

    def function(*args: Any, **kwargs: Any) -> NkiInstruction:
        session = running_session() or require_session(record.name)
        if not args and kwargs.keys() <= known:
            given = kwargs
        else:
            given = dict(zip(parameters, args, strict=False))
            if kwargs or len(args) > len(parameters):
                _bind_keywords(record, positions, given, len(args), kwargs)
        operands: list[Any] = []
        for name, spec in operand_specs:
            value: Any = given.get(name)
            if value.__class__ is NkiTensor:
                operands.append(value._view)
            elif value is None and spec.optional:
                if spec.default is MISSING and name not in given:
                    raise _missing(record, name, given)
                operands.append(None)
            elif spec.many:
                operands += _tensor_list(record, name, value)
            else:
                operands.append(_other_operand(record, name, spec, value, given))
        return NkiInstruction(session.issue(record, operands, attributes.read(given)))

    function.__name__ = function.__qualname__ = record.name
    function.__doc__ = f"{record.name}: {record.equation}"
    function.__signature__ = signature(record)  # type: ignore[attr-defined]
    return function


class SharedAttributes:
    """Attributes of one instruction: calls that give equal ones share one mapping."""

    # Mappings that are kept: more than a kernel has lines, fewer than a long loop has iterations.
    LIMIT = 1000

    def __init__(self, record: Record) -> None:
        self.record = record
        self._members = {name: attr.members for name, attr in record.attrs.items()}
        self._known: dict[tuple[Any, ...], Attributes] = {}

    def read(self, given: dict[str, Any]) -> Attributes:
        """The attributes among the arguments of a call, the others at their defaults."""
        key: list[Any] = []
        shared = True
        for name, value in given.items():
            if name not in self._members:
                continue
            kind = value.__class__
            # Equal numbers of different kinds are different attributes. Deviations are reported again by each kernel:
            # strings, and what stands for a member of an enum.
            key += (name, kind, value)
            members = self._members[name]
            if kind is str or kind is tuple or kind.__hash__ is None or (members is not None and kind is not members):
                shared = False
        if not shared:
            return self._make(given)
        found = self._known.get(tuple(key))
        if found is None:
            if len(self._known) >= self.LIMIT:
                self._known.clear()
            found = self._known[tuple(key)] = self._make(given)
        return found

    def _make(self, given: dict[str, Any]) -> Attributes:
        made = Attributes()
        for name, attr in self.record.attrs.items():
            value = given.get(name, MISSING)
            if value is not MISSING:
                made[name] = attr.read(value, name)
            elif attr.default is MISSING:
                raise _missing(self.record, name, given)
            else:
                made[name] = attr.default
        return made


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
            default = record.operands[name].default
            default = inspect.Parameter.empty if default is MISSING else default
        # None may be passed for an optional operand; it can be left out only when all that follow can.
        if required_follows:
            default = inspect.Parameter.empty
        required_follows = default is inspect.Parameter.empty
        made.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    return inspect.Signature(made[::-1])


def form(record: Record) -> str:
    """The call as NKI documents it, with defaults as a kernel would write them."""

    def spell(name: str, default: object) -> str:
        return record.attrs[name].spell(default) if name in record.attrs else repr(default)

    return call_form(record.name, signature(record), spell)


def _bind_keywords(
    record: Record, positions: dict[str, int], given: dict[str, Any], count: int, kwargs: dict[str, Any]
) -> None:
    if count > len(positions):
        raise fail(
            "E114",
            f"{record.name} takes {len(positions)} arguments, but {count} were given",
            hint=f"signature: {form(record)}",
            error=TileTypeError,
        )
    for name, value in kwargs.items():
        position = positions.get(name)
        if position is None and name in record.removed:
            rule, instead = record.removed[name]
            violate(rule, f"{record.name}: parameter '{name}' was removed", hint=instead, error=TileTypeError)
            continue
        if position is None:
            unexpected_keyword(record.name, name, signature(record), form(record))
            continue
        if position < count:
            raise fail("E114", f"{record.name} got {name} twice", error=TileTypeError)
        given[name] = value


def _missing(record: Record, name: str, given: dict[str, Any]) -> Exception:
    return fail(
        "E114",
        f"{record.name}() is missing its argument '{name}'",
        hint=_new_form(record) if "dst" in record.nki else f"signature: {form(record)}",
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
        hint = hint or f"signature: {form(record)}"
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
