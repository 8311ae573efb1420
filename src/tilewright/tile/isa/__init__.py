"""The instructions, one family per file. Importing this package fills `tile.record.TABLE`."""

from tilewright.tile.isa import (
    activate2,
    activation,
    elementwise,
    fused,
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
    "activate2",
    "activation",
    "elementwise",
    "fused",
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
