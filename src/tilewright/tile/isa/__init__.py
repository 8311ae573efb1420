"""The instructions, one family per file. Importing this package fills `tile.record.TABLE`."""

from tilewright.tile.isa import activation, elementwise, matmul, movement

__all__ = ["activation", "elementwise", "matmul", "movement"]
