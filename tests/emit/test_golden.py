"""Kernels whose source was looked at. `python -m tests.emit.test_golden` writes it anew, to be looked at again; with
`lower` the compiler makes the kernels anew first.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.emit.golden import programs
from tests.emit.kit import check_subset, run_source, same_stream
from tilewright.emit import Header, emit
from tilewright.emit.arrange import arrange
from tilewright.errors import Location
from tilewright.ir.core import Graph
from tilewright.ir.text import show
from tilewright.sim.run import run_graph
from tilewright.target import get_target
from tilewright.tile.text import parse_tile

FOLDER = Path(__file__).parent / "golden"
KERNELS = sorted(path.stem for path in FOLDER.glob("*.ir"))
LINES = (FOLDER / "programs.py").read_text(encoding="utf-8").splitlines()


def line_of(location: Location) -> str | None:
    return LINES[location.line - 1] if location.file == "programs.py" else None


def kernel(name: str) -> Graph:
    return parse_tile((FOLDER / f"{name}.ir").read_text(encoding="utf-8"))


def source_of(name: str) -> str:
    return emit(kernel(name), get_target("trn2"), Header(name), line_of)


@pytest.mark.parametrize("name", KERNELS)
def test_the_source_is_the_one_that_was_looked_at(name: str) -> None:
    assert source_of(name) == (FOLDER / f"{name}.nki").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", KERNELS)
def test_it_computes_what_numpy_does(name: str) -> None:
    source = (FOLDER / f"{name}.nki").read_text(encoding="utf-8")
    check_subset(source)
    graph = kernel(name)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(value.type.shape).astype(np.float32) for value in graph.inputs]
    made = run_source(source, arrays)
    same_stream(graph, made.session.graph)
    assert made.result.tobytes() == run_graph(graph, arrays, "trn2")[0].tobytes()
    expected = getattr(programs, name)(*arrays)
    np.testing.assert_allclose(made.result, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def lowered(name: str) -> str:
    """The kernel that the compiler makes today for the same arguments, as text."""
    arguments = [tw.spec(value.type.shape, "float32") for value in kernel(name).inputs]
    graph = arrange(tw.compile(getattr(programs, name), *arguments, target="trn2").tile_ir, addresses=False)
    return show(graph, locations=True).replace(json.dumps(programs.__file__), '"programs.py"')


if __name__ == "__main__":
    for each in KERNELS:
        if sys.argv[1:] == ["lower"]:
            (FOLDER / f"{each}.ir").write_text(lowered(each), encoding="utf-8")
        (FOLDER / f"{each}.nki").write_text(source_of(each), encoding="utf-8")
