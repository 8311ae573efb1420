"""Random numbers: rng, rand2, dropout, seeds and states of the generators, and nl's functions on top of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.kit import accepts, nisa, nl, rejects, run, tile
from tilewright.target import get_target
from tilewright.tile.memory import PSUM, SBUF, Buffer
from tilewright.tile.record import TABLE, Call
from tilewright.tile.text import parse_tile
from tilewright.tile.verify import verify_graph
from tilewright.tile.view import whole

rule = pytest.mark.rule
VECTOR, GPSIMD, SCALAR = nisa.engine.vector, nisa.engine.gpsimd, nisa.engine.scalar


def stored(t: Any) -> Any:
    if t.buffer == nl.psum:
        copied = nl.ndarray(t.shape, t.dtype, nl.sbuf)
        nisa.tensor_copy(copied, t)
        t = copied
    y = nl.ndarray(t.shape, t.dtype, nl.shared_hbm)
    nisa.dma_copy(y, t)
    return y


def loaded(x: Any) -> Any:
    t = nl.ndarray(x.shape, x.dtype, nl.sbuf)
    nisa.dma_copy(t, x)
    return t


def drawn(x: Any, shape: tuple[int, ...], dtype: Any, engine: Any = VECTOR, buffer: Any = nl.sbuf) -> Any:
    dst = nl.ndarray(shape, dtype, buffer)
    nisa.rng(dst, engine=engine)
    return stored(dst)


X = np.zeros((1, 1), np.float32)


def xorwow(state: list[int], count: int) -> list[int]:
    """Marsaglia's generator, number by number."""
    x, y, z, w, v, d = state
    made = []
    for _ in range(count):
        t = x ^ (x >> 2)
        x, y, z, w = y, z, w, v
        v = (v ^ (v << 4) ^ t ^ (t << 1)) & 0xFFFFFFFF
        d = (d + 362437) & 0xFFFFFFFF
        made.append((v + d) & 0xFFFFFFFF)
    return made


@rule("R-rng-01", "accept")
@pytest.mark.parametrize("dtype", [nl.int8, nl.uint8, nl.int16, nl.uint16, nl.int32, nl.uint32])
def test_bits_are_even(dtype: Any) -> None:
    bits = run(drawn, X, (128, 3, 100), dtype)
    counts = np.unpackbits(bits.reshape(-1).view(np.uint8)).mean()
    assert abs(counts - 0.5) < 0.01 and len(np.unique(bits)) > 0.5 * min(bits.size, 1 << 8 * bits.itemsize)


def test_narrow_types_take_the_lowest_bits() -> None:
    def kernel(x: Any, dtype: Any) -> Any:
        nisa.set_rng_seed(tile((1, 1), nl.int32, value=3))
        return drawn(x, (4, 8), dtype)

    wide = run(kernel, X, nl.uint32)
    np.testing.assert_array_equal(run(kernel, X, nl.uint8), wide.astype(np.uint8))
    np.testing.assert_array_equal(run(kernel, X, nl.int16), wide.astype(np.uint16).view(np.int16))


@rule("R-rng-02", "accept")
@pytest.mark.parametrize(("engine", "target"), [(VECTOR, "trn1"), (GPSIMD, "trn2"), (VECTOR, "trn3")])
def test_engines(engine: Any, target: str) -> None:
    run(drawn, X, (4, 4), nl.uint32, engine, target=target)


@rule("R-rng-02", "reject")
def test_engines_without_a_generator() -> None:
    rejects("R-rng-02", drawn, X, (4, 4), nl.uint32, GPSIMD, target="trn1")
    rejects("R-rng-02", drawn, X, (4, 4), nl.uint32, SCALAR)
    rejects("R-rng-02", drawn, X, (4, 4), nl.uint32, GPSIMD, nl.psum)


@rule("R-rng-01", "reject")
def test_bits_are_integers() -> None:
    rejects("R-rng-01", drawn, X, (4, 4), nl.float32)


@rule("R-rng-03", "accept")
@rule("R-rng-03", "reject")
def test_partitions() -> None:
    text = "kernel k() {{\n  %t = alloc u32[{0}, 4]@sbuf\n  rng %t\n}}\n"
    assert verify_graph(parse_tile(text.format(128))) == []
    assert "R-rng-03" in [found.rule for found in verify_graph(parse_tile(text.format(129)))]


@rule("R-set_rng_seed-01", "accept")
def test_a_seed_gives_the_same_numbers_again() -> None:
    def kernel(x: Any, seeds: Any) -> Any:
        held = loaded(seeds)
        y = nl.ndarray((3, 32, 20), nl.uint32, nl.shared_hbm)
        for i in range(3):
            nisa.set_rng_seed(held[0:1, i : i + 1])
            t = nl.ndarray((32, 20), nl.uint32, nl.sbuf)
            nisa.rng(t)
            nisa.dma_copy(y[i], t)
        return y

    first, second, third = run(kernel, X, np.array([[5, 6, 5]], np.int32))
    np.testing.assert_array_equal(first, third)
    assert (first != second).mean() > 0.99
    assert len(np.unique(np.concatenate([first, second]))) == first.size + second.size


@rule("R-set_rng_seed-01", "reject")
@pytest.mark.parametrize(("shape", "dtype", "buffer"), [((2, 1), nl.int32, nl.sbuf), ((1, 1), nl.int16, nl.sbuf)])
def test_seeds_that_are_none(shape: Any, dtype: Any, buffer: Any) -> None:
    rejects("R-set_rng_seed-01", lambda x: nisa.set_rng_seed(tile(shape, dtype, buffer)) and None)
    rejects("R-set_rng_seed-01", lambda x: nisa.set_rng_seed(nl.ndarray((1, 1), nl.int32, nl.hbm)) and None)


@rule("R-rand_state-01", "accept")
@rule("R-rand_state-02", "accept")
@rule("R-rand_state-03", "accept")
@rule("R-rand_state-04", "accept")
@pytest.mark.parametrize(
    ("engine", "target", "words", "buffer"),
    [(GPSIMD, "trn2", 6, nl.sbuf), (GPSIMD, "trn3", 6, nl.sbuf), (VECTOR, "trn3", 24, nl.psum)],
)
def test_states_are_set_and_stored(engine: Any, target: str, words: int, buffer: Any) -> None:
    """The numbers follow from the state by the published algorithm, stream by stream."""

    def kernel(x: Any, states: Any, after: Any) -> Any:
        nisa.rand_set_state(loaded(states), engine=engine)
        t = nl.ndarray((64, 13), nl.uint32, nl.sbuf)
        nisa.rng(t[32:64], engine=engine)
        left = nl.ndarray((64, words), nl.uint32, buffer)
        nisa.rand_get_state(left, engine=engine)
        return stored(t[32:64]), stored(left)

    states = np.random.default_rng(0).integers(0, 1 << 32, (64, words), np.uint32)
    bits, left = run(kernel, X, states, X, target=target)
    streams = words // 6
    for lane in (0, 31):
        each = [xorwow(states[32 + lane, 6 * s : 6 * s + 6].tolist(), 13) for s in range(streams)]
        assert bits[lane].tolist() == [each[i % streams][i // streams] for i in range(13)]
    np.testing.assert_array_equal(left[:32], states[:32])
    assert (left[32:] != states[32:]).mean() > 0.9


REFUSED: list[tuple[str, str, Callable[[], Any]]] = [
    ("R-rand_state-01", "trn1", lambda: nisa.rand_set_state(tile((4, 6), nl.uint32))),
    ("R-rand_state-01", "trn2", lambda: nisa.rand_set_state(tile((4, 24), nl.uint32), engine=VECTOR)),
    ("R-rand_state-01", "trn3", lambda: nisa.rand_get_state(tile((4, 6), nl.uint32), engine=SCALAR)),
    ("R-rand_state-02", "trn2", lambda: nisa.rand_set_state(tile((4, 6), nl.int32))),
    ("R-rand_state-02", "trn2", lambda: nisa.rand_get_state(tile((4, 2, 3), nl.uint32))),
    ("R-rand_state-03", "trn2", lambda: nisa.rand_set_state(tile((4, 24), nl.uint32))),
    ("R-rand_state-03", "trn3", lambda: nisa.rand_get_state(tile((4, 6), nl.uint32), engine=VECTOR)),
    ("R-rand_state-04", "trn2", lambda: nisa.rand_set_state(tile((4, 6), nl.uint32, nl.psum))),
    ("R-rand_state-04", "trn3", lambda: nisa.rand_get_state(tile((4, 6), nl.uint32, nl.psum))),
    ("R-rand2-01", "trn2", lambda: nisa.rand2(tile((4, 4)), 0.0, 1.0)),
    ("R-rand2-02", "trn3", lambda: nisa.rand2(tile((4, 4)), 1.0, 1.0)),
    ("R-rand2-02", "trn3", lambda: nisa.rand2(tile((4, 4)), tile((4, 1), value=2), 1.0)),
    ("R-rand2-02", "trn3", lambda: nisa.rand2(tile((4, 4)), tile((4, 2)), 1.0)),
    ("R-rand2-03", "trn3", lambda: nisa.rand2(tile((4, 4), nl.float8_e4m3fn), 0.0, 1.0)),
    ("R-rand2-03", "trn3", lambda: nisa.rand2(tile((4, 4)), tile((4, 1), nl.bfloat16), 1.0)),
    ("R-dropout-01", "trn2", lambda: nisa.dropout(tile((4, 4)), tile((4, 4), nl.bfloat16), 0.5)),
    ("R-dropout-02", "trn2", lambda: nisa.dropout(tile((4, 4)), tile((4, 4)), tile((4, 1), nl.int32))),
    (
        "R-dropout-02",
        "trn2",
        lambda: nisa.dropout(tile((4, 4), nl.int32), tile((4, 4), nl.int32), tile((4, 1), nl.bfloat16)),
    ),
    ("R-dropout-03", "trn2", lambda: nisa.dropout(tile((4, 4)), tile((4, 4)), tile((4, 4)))),
    ("R-dropout-03", "trn2", lambda: nisa.dropout(tile((4, 5)), tile((4, 4)), 0.5)),
    ("R-nl-15", "trn2", lambda: nl.random_seed(42)),
    ("R-nl-15", "trn2", lambda: nl.random_seed(tile((1, 2), nl.int32))),
]


@pytest.mark.parametrize(
    ("broken", "target", "issue"), [pytest.param(*each, marks=rule(each[0], "reject")) for each in REFUSED]
)
def test_refused(broken: str, target: str, issue: Callable[[], Any]) -> None:
    rejects(broken, lambda x: issue() and None, target=target)


@rule("R-rand2-01", "accept")
@rule("R-rand2-02", "accept")
@rule("R-rand2-03", "accept")
@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16, nl.float8_e5m2, nl.int32, nl.uint8])
def test_uniform_numbers(dtype: Any) -> None:
    def kernel(x: Any, low: Any) -> Any:
        dst = nl.ndarray((64, 500), dtype, nl.psum)
        nisa.rand2(dst, loaded(low), 100.0)
        return stored(dst)

    low = np.arange(64, dtype=np.float32)[:, None]
    found = run(kernel, X, low, target="trn3").astype(np.float64)
    rounding = 0.13 * 100 if dtype == nl.float8_e5m2 else 1
    assert (found >= low - rounding).all() and (found <= 100 + rounding).all()
    np.testing.assert_allclose(found.mean(axis=1), (low[:, 0] + 100) / 2, atol=8)
    np.testing.assert_allclose(found.std(axis=1), (100 - low[:, 0]) / np.sqrt(12), atol=4)


@rule("R-dropout-01", "accept")
@rule("R-dropout-02", "accept")
@rule("R-dropout-03", "accept")
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32])
def test_dropout(dtype: Any) -> None:
    def kernel(x: Any, prob: Any) -> Any:
        data = loaded(x)
        dst = nl.ndarray(x.shape, x.dtype, nl.sbuf)
        nisa.dropout(dst, data, loaded(prob))
        return stored(dst)

    x = np.random.default_rng(0).integers(1, 100, (32, 1000)).astype(dtype)
    prob = np.linspace(0, 1, 32, dtype=np.float32)[:, None]
    found = run(kernel, x, prob)
    dropped = found == 0
    np.testing.assert_array_equal(found[~dropped], x[~dropped])
    np.testing.assert_allclose(dropped.mean(axis=1), prob[:, 0], atol=0.06)
    assert not dropped[0].any() and dropped[31].all()


def test_what_was_never_written_is_dropped_or_stays_unwritten() -> None:
    def kernel(x: Any) -> Any:
        dst = nl.ndarray((4, 4), nl.float32, nl.sbuf)
        nisa.dropout(dst, nl.ndarray((4, 4), nl.float32, nl.sbuf), 0.5)
        return stored(dst)

    rejects("R-tensor-18", kernel)


# nl.


@rule("R-nl-15", "accept")
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum, nl.shared_hbm])
def test_nl_rand(target: str, buffer: Any) -> None:
    def kernel(x: Any) -> Any:
        made = []
        for seed in (1, 2, 1):
            nl.random_seed(nl.full((1, 1), seed, dtype=nl.int32))
            made.append(nl.rand((40, 50), dtype=nl.float32, buffer=buffer))
        return tuple(each if buffer == nl.shared_hbm else stored(each) for each in made)

    first, second, third = run(kernel, target=target, profile="lenient")
    np.testing.assert_array_equal(first, third)
    for each in (first, second):
        assert each.min() >= 0 and each.max() < 1 and abs(each.mean() - 0.5) < 0.03 and abs(each.var() - 1 / 12) < 0.01
    assert (first != second).any()


@pytest.mark.parametrize("dtype", [None, nl.bfloat16])
def test_nl_dropout(dtype: Any) -> None:
    found = run(lambda x: stored(nl.dropout(loaded(x), 0.25, dtype=dtype)), np.full((16, 500), 3, np.float32))
    assert found.dtype == (np.float32 if dtype is None else ml_dtypes.bfloat16)
    assert set(np.unique(found.astype(np.float32))) == {0, 3} and abs((found == 0).mean() - 0.25) < 0.02


def test_numbers_go_on_where_they_stopped() -> None:
    def kernel(x: Any) -> Any:
        whole_tile, parts = nl.ndarray((16, 8), nl.uint32, nl.sbuf), nl.ndarray((16, 8), nl.uint32, nl.sbuf)
        for dsts in ([whole_tile], [parts[:, 0:4], parts[:, 4:8]]):
            nisa.set_rng_seed(tile((1, 1), nl.int32))
            for dst in dsts:
                nisa.rng(dst)
        return stored(whole_tile), stored(parts)

    one, two = accepts(kernel)
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", ["rng", "rand2", "dropout", "set_rng_seed", "rand_set_state", "rand_get_state"])
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_costs_grow(name: str, target: str) -> None:
    def cost(width: int) -> float:
        record = TABLE[name]
        views = [whole(Buffer(nl.uint32, (128, width), PSUM if name == "rng" else SBUF)) for _ in record.operands]
        call = Call(record, views, dict(record.defaults), get_target(target))
        call.resolve_engine()
        return record.cost(call).interval_ns

    spent = [cost(width) for width in (1, 64, 1024, 4096)]
    assert spent == sorted(spent) and 0 < spent[0] < spent[-1]
