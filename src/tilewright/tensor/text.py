"""Tensor IR as text: the dialect that prints and reads programs."""

from __future__ import annotations

import math
from typing import Any

import tilewright.tensor.ops  # noqa: F401  (fills the table)
from tilewright.dtypes import HOST_DTYPES
from tilewright.ir.core import Graph
from tilewright.ir.dense import DENSE
from tilewright.ir.parse import Reader
from tilewright.ir.parse import parse as parse_text
from tilewright.ir.text import Dialect
from tilewright.tensor.record import TABLE
from tilewright.tensor.types import TensorType

_MOST_BITS = 60
_SHORT = {dtype.short: dtype for dtype in HOST_DTYPES.values()}


def _read_type(reader: Reader) -> Any:
    token = reader.expect_kind("word")
    dtype = _SHORT.get(token.text)
    if dtype is None:
        raise reader.error(f"unknown element type {token.text}", token)
    reader.expect("[")
    shape: list[int] = []
    while not reader.accept("]"):
        size = reader.integer()
        if size < 0:
            raise reader.error(f"a dim cannot be {size}")
        shape.append(size)
        if not reader.accept(",") and not reader.at("]"):
            raise reader.error("expected ',' or ']'")
    # NumPy counts bytes in 64 bits even where another dim is 0.
    if math.prod(max(size, 1) for size in shape).bit_length() >= _MOST_BITS:
        raise reader.error(f"an array of shape {shape} is too large", token)
    return TensorType(dtype, tuple(shape))


TENSOR = Dialect("program", TABLE, read_type=_read_type, words=dict(HOST_DTYPES), kinds=(DENSE,), declares=False)
"""The dialect of tensor IR."""


def parse_tensor(text: str, file: str = "<text>", locate: bool = False) -> Graph:
    """Read a program back from its text. Nothing in the text is executed.

    locate: ops that do not say where they come from come from their line of this text.
    """
    return parse_text(text, TENSOR, file=file, locate=locate, check=True)
