"""A compiled kernel against the NumPy function it was made of, on random arrays."""

from __future__ import annotations

from typing import Any

from tilewright.checking import worst_error
from tilewright.cli.drawing import Drawing, Ranges
from tilewright.compiler import Compiled


def compared(kernel: Compiled, args: list[Any], kwargs: dict[str, Any], ranges: Ranges, seeds: int) -> tuple[str, bool]:
    """How a kernel's results differ from NumPy's, in words, and whether they are the same within rounding."""
    drawing = Drawing(kernel.traced, args, kwargs, ranges)
    drawn = "".join(f"; {each}" for each in drawing.said())
    times = "" if seeds == 1 else f", {seeds} times"
    worst, oracle, notes = 0.0, "NumPy", ""
    for number, (given, named) in enumerate(drawing.calls(seeds)):
        found, results = kernel.examine(*given, **named)
        oracle, notes = found.oracle, "".join(f"; {note}" for note in found.notes)
        if found.problem is not None:
            seed = "" if seeds == 1 else f" (seed {number})"
            return f"DIFFERS from {oracle} on random arrays{seed}: {found.problem}{drawn}{notes}", False
        worst = max(worst, worst_error(results, found.expected))
    agrees = f"agrees with {oracle} on random arrays{times}; largest difference {worst:.1e} of the largest number"
    return f"{agrees}{drawn}{notes}", True
