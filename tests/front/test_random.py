"""tw.random: the same numbers on NumPy and traced, of the distributions they promise; tw.dist."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.front.kit import BFLOAT16, refused, run, same_tree, traced
from tilewright.errors import TileError

KEY = tw.random.key(20)

CALLS: dict[str, Any] = {
    "split": lambda key: tw.random.split(key, 3),
    "fold_in": lambda key: tw.random.fold_in(key, 7),
    "bits": lambda key: tw.random.bits(key, (3, 5)),
    "no bits": lambda key: tw.random.bits(key, (0, 5)),
    "one": lambda key: tw.random.uniform(key),
    "uniform": lambda key: tw.random.uniform(key, (7, 2), minval=-2, maxval=3),
    "float64": lambda key: tw.random.uniform(key, 5, "float64"),
    "float16": lambda key: tw.random.uniform(key, (4,), np.float16),
    "bfloat16": lambda key: tw.random.uniform(key, (4,), "bfloat16", maxval=0.5),
    "normal": lambda key: tw.random.normal(key, (3, 3)),
    "normal float16": lambda key: tw.random.normal(key, (2, 2), "float16"),
    "randint": lambda key: tw.random.randint(key, (9,), -5, 5),
    "int8": lambda key: tw.random.randint(key, (9,), -128, 128, np.int8),
    "all of int32": lambda key: tw.random.randint(key, 4, -(2**31), 2**31),
    "int64": lambda key: tw.random.randint(key, 4, -(2**40), -(2**40) + 9, "int64"),
    "bernoulli": lambda key: tw.random.bernoulli(key, 0.3, (8,)),
    "bernoulli of an array": lambda key: tw.random.bernoulli(key, np.array([0.0, 0.5, 1.0], np.float32)),
    "permutation": lambda key: tw.random.permutation(key, 9),
    "permutation of an array": lambda key: tw.random.permutation(key, np.arange(12).reshape(3, 4), axis=1),
}


@pytest.mark.parametrize("name", CALLS)
def test_traced_and_at_once(name: str):
    """A program gets the key at run time and gives the numbers that NumPy gives."""
    call = CALLS[name]
    found = traced(call, KEY)
    assert any(op.name == "threefry2x32" for op in found.graph.ops)
    for key in (KEY, tw.random.key(2**40 + 1)):
        wanted = call(key)
        same_tree(run(found, key), wanted)
        same_tree(call(key), wanted)


@pytest.mark.parametrize("seed", [np.int32(-3), np.uint8(200), np.int32(7), np.uint32(2**32 - 1)])
def test_traced_seeds(seed: Any):
    array = np.array(seed)
    same_tree(run(traced(tw.random.key, array), array), tw.random.key(int(seed)))
    folded = traced(lambda key, step: tw.random.fold_in(key, step), KEY, array)
    same_tree(run(folded, KEY, array), tw.random.fold_in(KEY, int(seed)))


def test_keys_that_the_function_puts_together():
    def call(key):
        keys = np.zeros((3, 2), np.uint32)
        for layer in range(3):
            keys[layer] = tw.random.fold_in(key, layer)
        return tw.random.bits(keys[1], 3), tw.random.permutation(keys[2], keys)

    same_tree(run(traced(call, KEY), KEY), call(KEY))


def test_keys_differ():
    keys = [tw.random.key(seed) for seed in (0, 1, -1, 2**32)]
    keys += [*tw.random.split(keys[0], 4), tw.random.fold_in(keys[0], 0), tw.random.fold_in(keys[0], 1)]
    assert len({tuple(key.tolist()) for key in keys}) == len(keys)
    words = [tuple(tw.random.bits(key, 4).tolist()) for key in keys]
    assert len(set(words)) == len(words)
    assert tw.random.bits(KEY, 5)[0] == tw.random.bits(KEY, (6,))[0]


def test_distributions():
    """Moments of 2**16 numbers within five standard errors, and limits that are never passed."""
    n = 2**16
    u = tw.random.uniform(KEY, n)
    assert u.dtype == np.float32 and u.min() >= 0 and u.max() < 1
    assert abs(u.mean() - 0.5) < 5 * math.sqrt(1 / 12 / n) and abs(u.var() - 1 / 12) < 5 * math.sqrt(1 / 180 / n)
    for dtype, held in ((np.float16, 11), (BFLOAT16, 8)):
        narrow = tw.random.uniform(KEY, n, dtype).astype(np.float64)
        assert narrow.min() >= 0 and narrow.max() == 1 - 2.0**-held
    z = tw.random.normal(KEY, n)
    assert abs(z.mean()) < 5 / math.sqrt(n) and abs(z.var() - 1) < 5 * math.sqrt(2 / n)
    assert abs((z**4).mean() - 3) < 5 * math.sqrt(96 / n) and np.abs(z).max() < 6.8
    i = tw.random.randint(KEY, n, -3, 4)
    assert i.dtype == np.int32
    counts = np.bincount(i + 3, minlength=7)
    assert counts.size == 7 and (np.abs(counts - n / 7) < 5 * math.sqrt(n / 7)).all()
    assert abs(tw.random.bernoulli(KEY, 0.25, (n,)).mean() - 0.25) < 5 * math.sqrt(0.25 * 0.75 / n)
    assert sorted(tw.random.permutation(KEY, 1000).tolist()) == list(range(1000))
    # Words of one counter, and of neighbouring counters, agree in half of their bits.
    words = tw.random.bits(KEY, n)
    for other in (np.roll(words, 1), np.roll(words, n // 2)):
        agree = np.mean([bin(x).count("1") for x in (words ^ other).tolist()]) / 32
        assert abs(agree - 0.5) < 5 * math.sqrt(0.25 / 32 / n)


@pytest.mark.parametrize(
    "call",
    [
        lambda: tw.random.bits(np.zeros(3, np.uint32)),
        lambda: tw.random.bits(np.zeros(2, np.int32)),
        lambda: tw.random.uniform(tw.random.split(KEY)),
        lambda: tw.random.uniform(KEY, 3, "int32"),
        lambda: tw.random.randint(KEY, 3, 5, 5),
        lambda: tw.random.randint(KEY, 3, 0, 300, "int8"),
        lambda: tw.random.randint(KEY, 3, 0, 3, "float32"),
    ],
)
def test_refuses(call: Any):
    with pytest.raises(TileError) as error:
        call()
    assert error.value.diagnostic.code in ("E102", "E108")


def test_a_traced_seed_of_64_bits_is_refused():
    refused("E108", tw.random.key, np.array(3))


@pytest.mark.req("S4-87")
def test_shapes_of_collectives():
    """The dim that is gathered grows by the number of ranks, the one that is scattered shrinks."""
    x = np.zeros((8, 6), np.float32)

    def program(x):
        total = tw.dist.all_reduce(x * 2, np.maximum, world=4)
        return (
            total,
            tw.dist.all_gather(total, axis=-1, world=4),
            tw.dist.reduce_scatter(x, axis=0, world=4),
            tw.dist.all_to_all(x, split_axis=0, concat_axis=1, world=4),
        )

    found = traced(program, x)
    assert [value.type.shape for value in found.graph.outputs] == [(8, 6), (8, 24), (2, 6), (2, 24)]
    ranks = [[np.random.default_rng(rank).standard_normal((8, 6)).astype(np.float32)] for rank in range(4)]
    results = tw.dist.interpret_ranks(found.graph, ranks)
    everything = np.stack([arrays[0] for arrays in ranks])
    for rank, (total, gathered, scattered, exchanged) in enumerate(results):
        np.testing.assert_array_equal(total, everything.max(0) * 2)
        np.testing.assert_array_equal(gathered, np.concatenate([total] * 4, 1))
        np.testing.assert_allclose(scattered, everything.sum(0)[rank * 2 : rank * 2 + 2], rtol=1e-6)
        np.testing.assert_array_equal(exchanged, np.concatenate(everything[:, rank * 2 : rank * 2 + 2], 1))
    with pytest.raises(NotImplementedError, match="E501"):
        run(found, x)
    with pytest.raises(NotImplementedError, match="E501"):
        tw.dist.all_reduce(x, world=2)


@pytest.mark.req("S4-90")
def test_collectives_refuse():
    x = np.zeros((6, 5), np.float32)
    error = refused("E803", lambda x: tw.dist.all_reduce(x, np.multiply, world=2), x)
    assert "np.multiply" in str(error) and "np.add" in (error.diagnostic.hint or "")
    assert isinstance(error, NotImplementedError)
    refused("E103", lambda x: tw.dist.reduce_scatter(x, axis=1, world=2), x)
    refused("E103", lambda x: tw.dist.all_to_all(x, world=4), x)
    refused("E103", lambda x: tw.dist.all_gather(x[0, 0], world=2), x)
    refused("E108", lambda x: tw.dist.all_gather(x, world=0), x)
    with pytest.raises(np.exceptions.AxisError):
        traced(lambda x: tw.dist.all_gather(x, axis=2, world=2), x)
