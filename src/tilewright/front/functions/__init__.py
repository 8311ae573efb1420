"""Handlers of NumPy's functions, by family. Importing this package fills the registry."""

from tilewright.front.functions import (
    choose,
    convert,
    elementwise,
    integers,
    reduction,
)

__all__ = [
    "choose",
    "convert",
    "elementwise",
    "integers",
    "reduction",
]
