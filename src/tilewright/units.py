"""Figures for people: times and sizes in the unit that suits them."""

from __future__ import annotations


def us_text(us: float) -> str:
    """A time, from microseconds."""
    return f"{us / 1e3:.3f} ms" if us >= 1e4 else f"{us:.1f} us"


def bytes_text(count: float, few: str = "B") -> str:
    """A number of bytes; `few` is the unit below one KiB."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} {few}"
