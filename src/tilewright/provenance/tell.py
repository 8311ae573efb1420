"""Births as people read them: what was born, in which instruction, of which values, on which line."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.errors import Diagnostic
from tilewright.provenance.kinds import INFINITE, NAMES, NAN, OUTSIDE, SENTINEL, UNWRITTEN, kinds_of, number
from tilewright.provenance.tape import Step
from tilewright.provenance.walk import Birth
from tilewright.tile.alu import ACTIVATIONS, ALU
from tilewright.tile.record import LANES

NOTE = "note"
NOT_FINITE = "W301"


def told(birth: Birth, code: str, rule: str | None) -> Diagnostic:
    """A birth as a diagnostic. code, rule: of the error that it explains."""
    not_finite = birth.kind in (NAN, INFINITE)
    location = birth.step.op.location if birth.step is not None else _outside(birth)
    return Diagnostic(
        NOT_FINITE if not_finite else code,
        f"kernel {birth.kernel}: {_message(birth)}" if birth.kernel else _message(birth),
        None if not_finite else rule,
        NOTE,
        location=location,
        notes=tuple(_notes(birth)),
        phase="run",
    )


def origin(birth: Birth) -> str:
    """Where it was born, as part of a sentence: `exp of 88.79`, `argument indices`."""
    step = birth.step
    inside = f" in kernel {birth.kernel}" if birth.kernel else ""
    if step is None:
        name = birth.cells.name if birth.cells is not None else "?"
        return (f"{name}, which nobody wrote" if birth.kind == UNWRITTEN else f"argument {name}") + inside
    return _of(birth, step) + inside


def _message(birth: Birth) -> str:
    count = int(np.count_nonzero(birth.wanted))
    first = _first(birth)
    some = f"{count} element{'' if count == 1 else 's'}"
    step = birth.step
    if step is None:
        cells = birth.cells
        assert cells is not None
        where = f"{some} of {cells.name} (first: {_position(birth, first)})"
        if birth.kind == UNWRITTEN:
            return f"{where} were never written"
        return f"argument {cells.name} holds {_value(birth, first)}: {where}"
    target = step.targets[birth.place]
    name = f" of {target.name}" if target is not None else ""
    where = f"{some}{name} (first: {_position(birth, first)})"
    narrow = too_narrow(birth)
    why = _made_of(birth, step) + (f"; {narrow}" if narrow else "")
    return f"{_value(birth, first)} is born in {_of(birth, step)}: {where}{why}"


def _made_of(birth: Birth, step: Step) -> str:
    """Whose results it was computed from, on other lines: what is wrong may be one of them."""
    lines = {
        each.op.location: each.op.name for each in birth.makers if each.op.location not in (None, step.op.location)
    }
    made = [f"{name} in line {location.line}" for location, name in lines.items() if location is not None]
    return f", of what {' and '.join(made)} made" if made else ""


def too_narrow(birth: Birth) -> str:
    """The element type that is to blame, where what was stored is infinite, or another index, and was not before."""
    step, first = birth.step, _first(birth)
    target = None if step is None else step.targets[birth.place]
    view = None if target is None else target.view
    if step is None or target is None or view is None or birth.kind not in (INFINITE, OUTSIDE):
        return ""
    values = step.computed() if step.kept and step.added is None else ()
    if birth.place >= len(values) or np.size(values[birth.place]) != birth.values.size:
        return ""
    before, stored = np.asarray(values[birth.place]).reshape(-1)[first], birth.values[first]
    # Fractions that an index loses are no fault of its type.
    if not np.isfinite(before) or (np.isfinite(stored) and abs(float(before) - float(stored)) < 1):
        return ""
    line = view.buffer.location if view.on_chip else None
    made = f" (line {line.line})" if line is not None else ""
    return f"{target.name} is {view.dtype}{made}, which does not hold {number(before)}"


def _first(birth: Birth) -> int:
    return int(np.flatnonzero(birth.wanted)[0])


def _value(birth: Birth, first: int) -> str:
    value = number(birth.values[first])
    if birth.kind == NAN:
        return NAMES[NAN]
    if birth.kind == INFINITE:
        return "infinity" if birth.values[first] > 0 else "-infinity"
    if birth.kind == SENTINEL:
        cast = birth.step is not None and birth.step.record.flow == "elementwise"
        return f"{value} ({'all bits set' if cast else 'a value that is not found'})"
    return f"{NAMES[OUTSIDE]} {value}" if birth.kind == OUTSIDE else value


def _position(birth: Birth, first: int) -> list[int]:
    cells = birth.cells if birth.step is None else birth.step.targets[birth.place]
    shape = cells.addresses.shape if cells is not None else (birth.values.size,)
    return [int(i) for i in np.unravel_index(first, shape)]


def _of(birth: Birth, step: Step) -> str:
    """`exp of 88.79 (activation)`; where elements do not stay apart, what the inputs are like."""
    names = functions_of(step)
    values = _values(birth, step)
    if values is None:
        values = [_range(birth, value) for value in step.inputs if isinstance(value, np.ndarray)]
    text = " and ".join(dict.fromkeys(values)) if values else "nothing"
    return f"{' and '.join(names)} of {text} ({step.op.name})" if names else f"{step.op.name} of {text}"


def functions_of(step: Step) -> list[str]:
    """The operators and functions that an instruction applies, as NKI names them."""
    return [
        value for value in step.op.attrs.values() if isinstance(value, str) and (value in ALU or value in ACTIVATIONS)
    ]


def _values(birth: Birth, step: Step) -> list[str] | None:
    """The inputs that stand at the place of the first bad element; None where no input stands there."""
    size = birth.values.size
    first = int(np.flatnonzero(birth.wanted)[0])
    if step.record.flow != "elementwise" or np.ndim(step.outputs[birth.place]) == 0:
        return None
    rows = np.shape(step.outputs[birth.place])[0]
    found: list[str] = []
    for name, value in zip(step.record.reading, step.inputs, strict=True):
        if value is None or isinstance(value, list):
            continue
        array = np.asarray(value)
        if array.ndim == 0 and value == step.record.operands[name].default:
            continue
        if array.ndim == 0:
            found.append(number(array))
        elif array.size == size:
            found.append(number(array.reshape(-1)[first]))
        elif array.size == rows:
            found.append(number(array.reshape(-1)[first * rows // size]))
        else:
            return None
    argument = _argument(step, birth.place, first)
    if argument is not None:
        return [argument]
    return found + [number(value) for key, value in step.op.attrs.items() if _is_operand(key, value)]


def _argument(step: Step, place: int, first: int) -> str | None:
    """What a function with a scale and a bias is applied to."""
    names = step.record.reading
    if "scale" not in names or place:
        return None
    parts: dict[str, float] = {"bias": 0.0, "scale": 1.0}
    size = np.size(step.outputs[place])
    for name, value in zip(names, step.inputs, strict=True):
        if value is not None:
            flat = np.asarray(value, np.float64).reshape(-1)
            parts[name] = float(flat[first * flat.size // size])
    return number(np.float32(parts[names[0]] * parts["scale"] + parts["bias"]))


def _is_operand(key: str, value: Any) -> bool:
    return key.startswith("operand") and isinstance(value, (int, float))


def _range(birth: Birth, value: np.ndarray) -> str:
    """What an input is like: `a row with NaN`, or its range."""
    lanes = birth.step is not None and birth.step.record.flow == LANES
    seen = value.astype(np.float32, copy=False)
    if lanes and birth.place < len(birth.step.outputs):  # type: ignore[union-attr]
        rows = np.shape(birth.step.outputs[birth.place])[0]  # type: ignore[union-attr]
        if len(seen) == rows:
            seen = seen[birth.wanted.reshape(rows, -1).any(axis=1)]
    kinds = set(np.unique(kinds_of(seen)).tolist())
    what = "a row" if lanes else "inputs"
    if NAN in kinds:
        return f"{what} with NaN"
    if INFINITE in kinds:
        return f"{what} with infinity"
    return f"{what} in [{float(seen.min()):.6g}, {float(seen.max()):.6g}]" if seen.size else "nothing"


def _notes(birth: Birth) -> list[str]:
    if birth.step is None:
        return [] if birth.child is None else [f"read by {birth.child.op.name} at {birth.child.op.location}"]
    notes = [f"executed instruction {birth.step.clock}" + (f" of core {birth.step.core}" if birth.step.core else "")]
    if birth.child is not None:
        notes.append(f"goes on into {birth.child.op.name} at {birth.child.op.location}")
    return notes


def _outside(birth: Birth) -> Any:
    """Where a tensor was allocated; of an argument, where it is read."""
    view = birth.cells.view if birth.cells is not None else None
    if view is not None and view.buffer.location is not None:
        return view.buffer.location
    return birth.child.op.location if birth.child is not None else None
