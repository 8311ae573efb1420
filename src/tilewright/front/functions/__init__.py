"""Handlers of NumPy's functions, by family. Importing this package fills the registry."""

from tilewright.front.functions import (
    choose,
    convert,
    elementwise,
    index,
    integers,
    positions,
    put,
    quantile,
    reduction,
    search,
    sort,
)

__all__ = [
    "choose",
    "convert",
    "elementwise",
    "index",
    "integers",
    "positions",
    "put",
    "quantile",
    "reduction",
    "search",
    "sort",
]
