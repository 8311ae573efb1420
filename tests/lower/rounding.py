"""How far results of a program may lie from the exact ones (`tilewright.tensor.rounding`)."""

from tilewright.tensor.rounding import differs, expected

__all__ = ["differs", "expected"]
