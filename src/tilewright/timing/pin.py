"""What-if: instructions of a source line on another engine than the kernel or the target chooses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tilewright.errors import fail
from tilewright.ir.core import Op
from tilewright.rules import Reporter
from tilewright.target import Target
from tilewright.tile.record import Record
from tilewright.tile.verdict import Verifier

Pins = Mapping[int, str] | Iterable[str]
"""{line: engine}, or texts such as "12:gpsimd" and "kernel.py:12:gpsimd"."""


@dataclass(frozen=True, slots=True)
class Pin:
    """`engine` for the instructions of a line; `file` is the end of a path, "" for any file."""

    file: str
    line: int
    engine: str

    def __str__(self) -> str:
        return f"{self.file}{':' if self.file else ''}{self.line}:{self.engine}"

    def meets(self, op: Op) -> bool:
        """True for an instruction of that line that is not a transfer: those run on the DMA engines."""
        where = op.location
        if where is None or where.line != self.line or "dma" in op.definition.engines:
            return False
        return not self.file or where.file.endswith(self.file)


def read_pins(pins: Pins | None) -> tuple[Pin, ...]:
    """Pins in any of their forms."""
    if pins is None:
        return ()
    texts = [f"{line}:{engine}" for line, engine in pins.items()] if isinstance(pins, Mapping) else pins
    return tuple(map(_read_pin, texts))


def _read_pin(text: str) -> Pin:
    rest, _, engine = text.rpartition(":")
    file, _, line = rest.rpartition(":")
    if not line.isdigit() or not engine:
        raise fail("E108", f"pin {text!r} is not LINE:ENGINE", hint="such as 12:gpsimd or kernel.py:12:gpsimd")
    return Pin(file, int(line), engine)


class Pinned:
    """Chooses engines by pins, and refuses what the pinned engine cannot run."""

    def __init__(self, pins: tuple[Pin, ...], target: Target, profile: str = "strict") -> None:
        self.pins = pins
        self.target = target
        self.used: set[Pin] = set()
        self._verifier = Verifier(target, Reporter(profile))

    def __call__(self, op: Op) -> str | None:
        """The engine of an instruction, or None where no pin meets it."""
        for pin in self.pins:
            if pin.meets(op):
                self.used.add(pin)
                self._check(op, pin)
                return pin.engine
        return None

    def _check(self, op: Op, pin: Pin) -> None:
        record: Record = op.definition
        if pin.engine not in record.engines:
            raise fail(
                "E109",
                f"{record.name} does not run on {pin.engine}",
                hint=f"pin it to one of: {', '.join(record.engines)}",
                location=op.location,
            )
        if "engine" in record.attrs:
            self._verifier.check(record, op.operands, {**op.attrs, "engine": pin.engine}, op.location)

    def check_used(self) -> None:
        """A pin that met nothing is a mistake of whoever gave it."""
        for pin in self.pins:
            if pin not in self.used:
                raise fail(
                    "E108", f"pin {pin}: no instruction of an engine was issued there", hint="give the line of the call"
                )


def may_run_on(op: Op, engine: str, target: Target) -> bool:
    """True when the instruction could be moved to that engine."""
    record: Record = op.definition
    if engine not in record.engines or "engine" not in record.attrs:
        return False
    # A collecting reporter: nothing is raised.
    verifier = Verifier(target, Reporter(collect=True))
    return verifier.check(record, op.operands, {**op.attrs, "engine": engine}, op.location).legal
