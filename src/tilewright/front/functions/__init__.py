"""Handlers of NumPy's functions, by family. Importing this package fills the registry."""

from tilewright.front.functions import elementwise, integers, reduction

__all__ = ["elementwise", "integers", "reduction"]
