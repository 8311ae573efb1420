"""What a target does not have is refused wherever a program comes in: element types, and room in HBM."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.kit import nisa, nl, rejects, run
from tilewright.sim.run import run_graph
from tilewright.target import get_target, target_names

E4M3FN = ml_dtypes.float8_e4m3fn
X = np.linspace(-3, 3, 32, dtype=np.float32).reshape(4, 8)
HAVING = [name for name in target_names() if "float8_e4m3fn" not in get_target(name)["dtypes.missing"]]
LACKING = [name for name in target_names() if name not in HAVING]
TEXT = """kernel k(%x: f32[4, 8]@hbm) -> (%y: f32[4, 8]@shared_hbm) {
  %t = alloc f8e4m3fn[4, 8]@sbuf
  dma_copy %t, %x
  dma_copy %y, %t
}
"""


def narrow(x: Any) -> Any:
    return x.astype(E4M3FN).astype(np.float32)


def stored(x: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    low = nl.ndarray(x.shape, dtype=nl.float8_e4m3fn, buffer=nl.sbuf)
    nisa.dma_copy(dst=low, src=x)
    nisa.dma_copy(dst=out, src=low)
    return out


def seen_as(x: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x.view(nl.float8_e4m3fn))
    return out


def test_the_generations_differ():
    assert LACKING == ["trn1", "trn2"] and HAVING == ["trn3"]


@pytest.mark.req("S4-93")
@pytest.mark.rule("R-tensor.dtype-01", "reject")
@pytest.mark.parametrize("target", LACKING)
def test_float8_e4m3fn_is_refused_at_every_entrance(target: str):
    rejects("R-tensor.dtype-01", stored, X, target=target)
    rejects("R-tensor.dtype-01", stored, X.astype(E4M3FN), target=target)
    rejects("R-tensor.dtype-01", seen_as, X.view(np.uint8), target=target)
    graph = tw.parse(TEXT)
    found, *_ = tw.verify(graph, target=target)
    assert found.code == "E106" and found.rule == "R-tensor.dtype-01" and str(found.location) == "<text>:3"
    for use in (
        lambda: run_graph(graph, [X], target),
        lambda: tw.profile(graph, target=target),
        lambda: tw.compile(narrow, X, target=target),
        lambda: tw.compile(np.abs, X.astype(E4M3FN), target=target),
        lambda: tw.compile(np.abs, tw.spec((4, 8), "float8_e4m3fn"), target=target),
        lambda: tw.jit(target=target)(narrow)(X),
        lambda: tw.compile(lambda x: (x, np.ones(3, E4M3FN) + x[0, :3].astype(E4M3FN)), X, target=target),
    ):
        with pytest.raises(tw.TileError) as caught:
            use()
        diagnostic = caught.value.diagnostic
        assert diagnostic.rule == "R-tensor.dtype-01" and diagnostic.code == "E106"
        assert target in diagnostic.message and diagnostic.location is not None
        assert "float8_e4m3 " in str(diagnostic.hint)


@pytest.mark.req("S4-93")
@pytest.mark.rule("R-tensor.dtype-01", "accept")
@pytest.mark.parametrize("target", HAVING)
def test_where_it_exists_it_is_taken(target: str):
    expected = X.astype(E4M3FN).astype(np.float32)
    np.testing.assert_array_equal(run(stored, X, target=target), expected)
    assert tw.verify(tw.parse(TEXT), target=target) == []
    np.testing.assert_array_equal(run_graph(tw.parse(TEXT), [X], target)[0], expected)
    np.testing.assert_array_equal(tw.compile(narrow, X, target=target)(X), expected)


@pytest.mark.parametrize("target", target_names())
def test_the_line_of_a_cast_is_named(target: str):
    if target in HAVING:
        return
    with pytest.raises(tw.TileError) as caught:
        tw.compile(narrow, X, target=target)
    where = caught.value.diagnostic.location
    assert where is not None and where.line == narrow.__code__.co_firstlineno + 1


@pytest.mark.parametrize("target", target_names())
def test_arrays_have_room_in_hbm(target: str):
    rows = get_target(target)["hbm.capacity_gib"] * 2**30 // (2 * 4 * 1024)
    fits, larger = (tw.spec((n, 1024), "float32") for n in (rows, rows + 1))
    tw.compile(lambda x: x + 1, fits, target=target)
    with pytest.raises(tw.TileError) as caught:
        tw.compile(lambda x: x + 1, larger, target=target)
    found = caught.value.diagnostic
    assert found.code == "E303" and f"a chip of {target} has" in found.message and found.location is not None
    text = (
        f"kernel k(%x: f32[{rows + 1}, 1024]@hbm) -> (%y: f32[{rows + 1}, 1024]@shared_hbm) {{\n  dma_copy %y, %x\n}}\n"
    )
    assert [each.code for each in tw.verify(tw.parse(text), target=target)] == ["E303"]


def test_64_bit_numbers_take_what_they_take_on_the_device():
    rows = get_target("trn2")["hbm.capacity_gib"] * 2**30 // (2 * 4 * 1024)
    tw.compile(lambda x: x + 1, tw.spec((rows, 1024), "int64"), target="trn2")
