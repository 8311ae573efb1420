"""The table of tensor ops, by family. Importing this package fills `tilewright.tensor.record.TABLE`."""

from tilewright.tensor.ops import contraction, creation, elementwise, index, linalg, reduction, shape, window

__all__ = ["contraction", "creation", "elementwise", "index", "linalg", "reduction", "shape", "window"]
