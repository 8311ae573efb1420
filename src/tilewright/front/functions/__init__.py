"""Handlers of NumPy's functions, by family. Importing this package fills the registry."""

from tilewright.front.functions import (
    arrange,
    choose,
    convert,
    diagonal,
    elementwise,
    index,
    integers,
    join,
    pad,
    positions,
    put,
    quantile,
    reduction,
    search,
    shape,
    sort,
)

__all__ = [
    "arrange",
    "choose",
    "convert",
    "diagonal",
    "elementwise",
    "index",
    "integers",
    "join",
    "pad",
    "positions",
    "put",
    "quantile",
    "reduction",
    "search",
    "shape",
    "sort",
]
