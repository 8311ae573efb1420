"""Options of a run that a compiler is given as flags: what changes numbers has its meaning here, the rest is recorded.

| flag | meaning here |
|---|---|
| `--auto-cast=none` (default), `matmult`, `all` | NumPy ops of float32 that are computed in this type |
| `--auto-cast-type=bf16` (default), `fp16` | that type |
| `--enable-saturate-infinity` | matrix products and transposes take +-inf as the largest finite numbers |
| `--disable-mixed-precision-accumulation` | sums of 16-bit floats are rounded to 16 bits at every step of a chunk |
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.errors import TileValueError, fail
from tilewright.ir.core import Graph

_CASTS = ("none", "matmult", "all")


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of a program."""

    given: tuple[str, ...] = ()
    auto_cast: str = "none"

    @property
    def precision(self) -> str:
        """How products of float32 are computed."""
        return "float32" if self.auto_cast == "none" else "bf16"

    @property
    def meaning(self) -> dict[str, object]:
        """What the flags that change numbers say."""
        return {"auto_cast": self.auto_cast}

    def applied(self, graph: Graph) -> Graph:
        """A group of NumPy ops as the flags want it."""
        return graph


def read_flags(flags: str | Sequence[str] | Flags | None) -> Flags:
    """Flags as a command line has them; E902 where one that changes numbers has a value that it does not take."""
    if isinstance(flags, Flags):
        return flags
    given = tuple(shlex.split(flags) if isinstance(flags, str) else flags or ())
    auto_cast = "none"
    for flag in given:
        name, _, value = flag.partition("=")
        if name == "--auto-cast":
            if value not in _CASTS:
                raise fail("E902", f"{flag}: choose {', '.join(_CASTS)}", error=TileValueError)
            auto_cast = value
    return Flags(given, auto_cast)
