"""The instructions, one family per file. Importing this package fills `tile.record.TABLE`."""

from tilewright.tile.isa import elementwise, matmul, movement

__all__ = ["elementwise", "matmul", "movement"]
