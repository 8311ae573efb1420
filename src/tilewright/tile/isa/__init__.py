"""The instructions, one family per file. Importing this package fills `tile.record.TABLE`."""

from tilewright.tile.isa import (
    activation,
    elementwise,
    gather,
    matmul,
    movement,
    reduction,
    registers,
    scan,
    search,
    select,
    shuffle,
    statistics,
    tensor_scalar,
    transpose,
)

__all__ = [
    "activation",
    "elementwise",
    "gather",
    "matmul",
    "movement",
    "reduction",
    "registers",
    "scan",
    "search",
    "select",
    "shuffle",
    "statistics",
    "tensor_scalar",
    "transpose",
]
