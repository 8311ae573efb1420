"""Names of variables: passed on where nobody can confuse them, but for those that tensors carry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.emit.kit import run_source
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


@pytest.mark.parametrize("name", ["P", "ROWS", "CHUNK", "X_ROWS", "nl"])
def test_names_of_sizes_and_of_variables_stay_apart(name: str) -> None:
    """Whatever a function calls its variables, results and arguments: the source says the same of sizes."""
    texts = [
        f"def f(x, y):\n    {name} = np.exp(x)\n    z = {name} * y + {name}[::-1]\n    return z\n",
        f"def f(x, y):\n    {name} = x @ y.T\n    {name} += 1\n    return {name}, x + 1\n",
        f"def f({name}, y):\n    z = {name} @ y.T\n    return z, {name} * 2\n",
    ]
    arrays = [np.random.default_rng(seed).standard_normal((200, 64), np.float32) for seed in range(2)]
    for text in texts:
        space: dict[str, Any] = {"np": np}
        exec(text, space)
        kernel = tw.compile(space["f"], *arrays, check="off")
        run_source(kernel.source, [*kernel.device_arrays(arrays), *kernel.constants], kernel.target)
