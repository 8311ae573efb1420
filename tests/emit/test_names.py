"""Names of variables: passed on where nobody can confuse them, but for those that tensors carry."""

from __future__ import annotations

import pytest

from tilewright.dtypes import float32
from tilewright.emit.names import Names
from tilewright.lower.write.builder import TileBuilder
from tilewright.rules import STRICT
from tilewright.target import get_target


@pytest.mark.rule("R-tensor-20", "holds")
def test_tensors_never_share_a_name() -> None:
    """A tile that was called the same between them does not make the name free."""
    b = TileBuilder("kernel", get_target("trn2"), STRICT)
    first = b.hbm((8, 4), float32, "part").buffer
    with b.loop(2, "i"):
        tile = b.sbuf((8, 4), float32, "part").buffer
    second = b.hbm((8, 4), float32, "part").buffer
    names = Names((), {first: 1, tile: 2, second: 4})
    assert names.add(first, "x", 0) == "part"
    assert names.add(tile, "x", 1) == "part"
    assert names.add(second, "x", 3) == "part_2"
