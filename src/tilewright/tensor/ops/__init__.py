"""The table of tensor ops, by family. Importing this package fills `tilewright.tensor.record.TABLE`."""

from tilewright.tensor.ops import (
    collective,
    contraction,
    creation,
    elementwise,
    index,
    linalg,
    random,
    reduction,
    shape,
    sort,
    window,
)

__all__ = [
    "collective",
    "contraction",
    "creation",
    "elementwise",
    "index",
    "linalg",
    "random",
    "reduction",
    "shape",
    "sort",
    "window",
]
