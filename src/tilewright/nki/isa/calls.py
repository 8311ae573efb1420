"""nki.isa functions made from the instruction table: bind arguments, turn tensors into views, issue."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from tilewright.errors import TileError, TileTypeError, fail
from tilewright.nki.binding import call_form, unexpected_keyword
from tilewright.nki.context import require_session
from tilewright.nki.tensor import NKIObject, NkiTensor, VirtualRegister
from tilewright.rules import violate
from tilewright.sim.session import running_session
from tilewright.tile.attrs import as_number
from tilewright.tile.memory import PSUM
from tilewright.tile.record import MISSING, TABLE, Attr, Attributes, OperandSpec, Record


class NkiInstruction(NKIObject):
    """The handle of an issued instruction."""

    __slots__ = ("loops", "op")

    def __init__(self, op: Any) -> None:
        self.op = op
        session = running_session()
        self.loops = () if session is None else session.loops

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        """Run after these producers, as the simulator does anyway: it runs in program order."""
        for each in producers:
            if not isinstance(each, NkiInstruction):
                what = type(each).__name__
                raise fail(
                    "E114",
                    f"depends_on takes what nki.isa calls return, not {what}",
                    error=TileTypeError,
                    hint="keep what the call returned: first = nisa.dma_copy(...), then depends_on=[first]",
                )
            if self.loops[: len(each.loops)] != each.loops:
                violate(
                    "R-NkiInstruction-01",
                    f"{self.op.name} depends on a {each.op.name} in a loop on the device that it is not in itself",
                    hint="wait in the same loop, or for an instruction outside of it: the wait is executed every time",
                    notes=[f"the {each.op.name} is at {each.op.location}"],
                )
            session = running_session()
            if session is not None:
                session.edges.append((each.op, self.op))
        return self

    @property
    def instead(self) -> str:
        """What to write where a kernel takes the handle for the result, as before NKI 0.3."""
        return _new_form(self.op.definition)


def reads_psum(name: str, operand: str) -> bool:
    """Whether an instruction takes this operand from PSUM, too; True of what is no operand."""
    record = TABLE.get(name)
    spec = None if record is None else record.operands.get(operand)
    return spec is None or PSUM in spec.memories


def make_function(record: Record) -> Callable[..., NkiInstruction]:
    """The nki.isa function of a record."""
    optional = frozenset(name for name, spec in record.operands.items() if spec.optional)
    forms: dict[tuple[str, ...], Form] = {}

    def function(*args: Any, **kwargs: Any) -> NkiInstruction:
        session = running_session() or require_session(record.name)
        given = _bind(record, args, kwargs) if args else kwargs
        form = forms.get(tuple(given))
        if form is None:
            given = _known(record, given)
            form = forms.setdefault(tuple(given), Form(record, given))
        operands: list[Any] = [None] * len(record.operands)
        for place, name in form.operands:
            value: Any = given[name]
            if value.__class__ is NkiTensor:
                operands[place] = value._view
            elif name == record.many:
                operands[place:] = _tensor_list(record, name, value)
            elif value is not None or name not in optional:
                operands[place] = _other_operand(record, name, record.operands[name], value)
        try:
            attributes = form.attributes(given)
        except TileError as error:
            return NkiInstruction(session.pass_over(record, operands, error))
        op = session.issue(record, operands, attributes)
        if form.named and given["name"] is not None:
            session.instruction_names.setdefault(given["name"], []).extend([] if op is None else [op])
        return NkiInstruction(op)

    function.__name__ = function.__qualname__ = record.name
    function.__doc__ = f"{record.name}: {record.equation}"
    function.__signature__ = signature(record)  # type: ignore[attr-defined]
    return function


class Form:
    """Calls of an instruction with arguments of the same names: none is missing, equal attributes are found fast."""

    # Attributes that are kept: more than a kernel has lines, fewer than a long loop has iterations.
    LIMIT = 1000

    __slots__ = ("_alike", "_given", "_known", "_pick", "_plain", "_record", "named", "operands")

    def __init__(self, record: Record, given: Mapping[str, Any]) -> None:
        """Refuses arguments that lack one."""
        for name, spec in record.operands.items():
            if name not in given and not (spec.optional and spec.default is not MISSING):
                raise _missing(record, name)
        for name, attr in record.attrs.items():
            if name not in given and attr.default is MISSING:
                raise _missing(record, name)
        # Places and names of the operands that are given.
        self.operands = tuple((place, name) for place, name in enumerate(record.operands) if name in given)
        self.named = "name" in given
        self._record = record
        self._given = {name: record.attrs[name] for name in given if name in record.attrs}
        self._pick = itemgetter(*self._given) if self._given else None
        self._plain = record.attributes({})
        self._known: dict[Any, Attributes] = {}
        # Whether values have come that are not known by comparing them.
        self._alike = False

    def attributes(self, given: Mapping[str, Any]) -> Attributes:
        """The attributes among the arguments of a call, the others at their defaults."""
        pick = self._pick
        if pick is None:
            return self._plain
        values = pick(given)  # one value, or a tuple of several
        if self._alike:
            key = repr(values)
        else:
            # Equal numbers of different kinds are different attributes.
            key = (values, *map(type, values)) if len(self._given) > 1 else (values, values.__class__)
        try:
            found = self._known.get(key)
        except TypeError:  # a list
            found = None
        return found or self._read(given, key)

    def _read(self, given: Mapping[str, Any], key: Any) -> Attributes:
        values = [given[name] for name in self._given]
        made = self._record.attributes({name: attr.read(given[name], name) for name, attr in self._given.items()})
        if any(isinstance(value, _ALIKE) for value in values) and not self._alike:
            self._alike = True
        elif not any(map(_deviates, self._given.values(), values)):
            if len(self._known) >= self.LIMIT:
                self._known.clear()
            self._known[key] = made
        return made


# Kinds of which equal values may differ: 0.0 and -0.0, (1,) and (1.0,).
_ALIKE = (float, tuple, list, np.generic, np.ndarray)


def _deviates(attr: Attr, value: object) -> bool:
    """Whether reading an attribute may have reported something, which every kernel has to hear."""
    return isinstance(value, str) or (attr.members is not None and not isinstance(value, attr.members))


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


def _bind(record: Record, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name."""
    if len(args) > len(record.nki):
        raise fail(
            "E114",
            f"{record.name} takes {len(record.nki)} arguments, but {len(args)} were given",
            hint=f"signature: {form(record)}",
            error=TileTypeError,
        )
    given = dict(zip(record.nki, args, strict=False))
    for name, value in kwargs.items():
        if name in given:
            raise fail(
                "E114", f"{record.name} got {name} twice", error=TileTypeError, hint="pass it once, by place or by name"
            )
        given[name] = value
    return given


def _known(record: Record, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments that the instruction takes; the others are reported."""
    for name in given:
        if name in record.removed:
            rule, instead = record.removed[name]
            violate(rule, f"{record.name}: parameter '{name}' was removed", hint=instead, error=TileTypeError)
        elif name not in record.nki:
            unexpected_keyword(record.name, name, signature(record), form(record))
    return {name: value for name, value in given.items() if name in record.nki}


def _missing(record: Record, name: str) -> Exception:
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
        hint = f"signature: {form(record)}"
        raise fail("E114", f"{record.name}: {name} must be a list of tensors", hint=hint, error=TileTypeError)
    return [each._view for each in value]


def _other_operand(record: Record, name: str, spec: OperandSpec, value: Any) -> Any:
    if value is None:
        raise _missing(record, name)
    if isinstance(value, NkiTensor):
        return value._view
    plain = as_number(value)
    if plain is not None and spec.number:
        return plain
    if isinstance(value, VirtualRegister) and spec.register:
        return value
    wanted = "a tensor or a number" if spec.number else "a tensor"
    returned = isinstance(value, NkiInstruction) or name == "dst"
    hint = _new_form(record) if returned else f"signature: {form(record)}"
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
