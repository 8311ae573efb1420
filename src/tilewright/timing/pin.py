"""What-if: instructions of a source line on another engine than the kernel or the target chooses; for transfers, other
writers of their descriptors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tilewright.errors import fail
from tilewright.ir.core import Op
from tilewright.rules import Reporter
from tilewright.target import Target
from tilewright.tile.attrs import dge_mode
from tilewright.tile.common import COMPUTE_ENGINES
from tilewright.tile.record import Record
from tilewright.tile.verdict import Verifier

Pins = Mapping[int, str] | Iterable[str]
"""{line: choice}, or texts such as "12:gpsimd" and "kernel.py:12:hwdge"."""

ENGINES = (*COMPUTE_ENGINES, "sync")
"""Where other instructions may run."""

DGE_MODES = tuple(member.name for member in dge_mode if member.name != "unknown")
"""Who may write the descriptors of a transfer."""

_EXAMPLES = "such as 12:gpsimd, kernel.py:12:gpsimd or 12:hwdge"


@dataclass(frozen=True, slots=True)
class Pin:
    """An engine, or one of DGE_MODES, for the instructions of a line; `file` is the end of a path, "" for any file."""

    file: str
    line: int
    choice: str

    def __str__(self) -> str:
        return f"{self.file}{':' if self.file else ''}{self.line}:{self.choice}"

    def meets(self, op: Op) -> bool:
        """True for an instruction of that line: a transfer when descriptors are chosen, any other for an engine."""
        where = op.location
        if where is None or where.line != self.line or is_transfer(op) != (self.choice in DGE_MODES):
            return False
        return not self.file or where.file.endswith(self.file)


def read_pins(pins: Pins | None) -> tuple[Pin, ...]:
    """Pins in any of their forms."""
    if pins is None:
        return ()
    if isinstance(pins, str) or not isinstance(pins, Iterable):
        raise fail("E108", f"pins are {pins!r}", hint="give {line: engine}, or a list of texts: ['12:gpsimd']")
    texts = [f"{line}:{choice}" for line, choice in pins.items()] if isinstance(pins, Mapping) else pins
    return tuple(_read_pin(str(text)) for text in texts)


def _read_pin(text: str) -> Pin:
    rest, _, choice = text.rpartition(":")
    file, _, line = rest.rpartition(":")
    if not line.isdigit() or not choice:
        raise fail("E108", f"pin {text!r} is not LINE:ENGINE", hint=_EXAMPLES)
    if choice not in (*ENGINES, *DGE_MODES):
        known = f"engines: {', '.join(ENGINES)}; for transfers: {', '.join(DGE_MODES)}"
        raise fail("E108", f"pin {text!r}: {choice} is neither an engine nor a writer of descriptors", hint=known)
    return Pin(file, int(line), choice)


def is_transfer(op: Op) -> bool:
    """True for what the DMA engines run, whoever triggers it."""
    return "dma" in op.definition.engines


def pinned_attribute(op: Op) -> str:
    """The attribute that a pin of an instruction gives."""
    return "dge_mode" if is_transfer(op) else "engine"


class Pinned:
    """Chooses by pins, and refuses what the pinned engine or descriptor writer cannot do."""

    def __init__(self, pins: tuple[Pin, ...], target: Target, profile: str = "strict") -> None:
        self.pins = pins
        self.target = target
        self.used: set[Pin] = set()
        self._verifier = Verifier(target, Reporter(profile))

    def __call__(self, op: Op) -> str | None:
        """The engine of an instruction, or who writes its descriptors; None where no pin meets it."""
        for pin in self.pins:
            if pin.meets(op):
                self.used.add(pin)
                self._check(op, pin)
                return pin.choice
        return None

    def _check(self, op: Op, pin: Pin) -> None:
        record: Record = op.definition
        attribute = pinned_attribute(op)
        if attribute == "dge_mode" and attribute not in record.attrs:
            raise fail("E109", f"{record.name} has no choice of who writes its descriptors", location=op.location)
        if attribute == "engine" and pin.choice not in record.engines:
            raise fail(
                "E109",
                f"{record.name} does not run on {pin.choice}",
                hint=f"pin it to one of: {', '.join(record.engines)}",
                location=op.location,
            )
        if attribute in record.attrs:
            self._verifier.check(record, op.operands, {**op.attrs, attribute: pin.choice}, op.location)

    def check_used(self) -> None:
        """A pin that met nothing is a mistake of whoever gave it."""
        for pin in self.pins:
            if pin not in self.used:
                what = "transfer" if pin.choice in DGE_MODES else "instruction of an engine"
                raise fail("E108", f"pin {pin}: no {what} was issued there", hint=_what_to_pin())


def _what_to_pin() -> str:
    return f"give the line of the call, and for a transfer one of: {', '.join(DGE_MODES)}"


def may_run_on(op: Op, engine: str, target: Target) -> bool:
    """True when the instruction could be moved to that engine."""
    record: Record = op.definition
    if engine not in record.engines or "engine" not in record.attrs:
        return False
    # A collecting reporter: nothing is raised.
    verifier = Verifier(target, Reporter(collect=True))
    return verifier.check(record, op.operands, {**op.attrs, "engine": engine}, op.location).legal
