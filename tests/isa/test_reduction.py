"""tensor_reduce, tensor_partition_reduce, tensor_scalar_reduce, bn_stats and bn_aggr."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.isa.compute import bf16, codes, covers, empty, f8, on_tiles, randoms, wide
from tests.kit import accepts, nisa, nl, np, rejects, tile

RESET, REDUCE, LOAD = nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.reduce, nisa.reduce_cmd.load_reduce


def reduced(op, axis, shape, dtype: Any = np.float32, **arguments):
    def body(a):
        dst = empty(a, dtype, shape=shape)
        nisa.tensor_reduce(dst, op, a, axis, **arguments)
        return dst

    return body


ARITHMETIC = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "subtract": np.subtract,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


class TestTensorReduce:
    @covers("accept", "R-tensor_reduce-01", "R-tensor_reduce-02", "R-tensor_reduce-05", "R-engine-10")
    @pytest.mark.parametrize("op", ARITHMETIC)
    @pytest.mark.parametrize("dtype", [np.float32, bf16, np.int16])
    def test_operators(self, op, dtype):
        x = randoms(32, 9, dtype=dtype)
        x[:, 3] = 0
        found = on_tiles(reduced(getattr(nl, op), 1, (32, 1)), x)
        expected = ARITHMETIC[op].reduce(wide(x), axis=1, keepdims=True)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)

    @covers("accept", "R-tensor_reduce-01", "R-tensor_reduce-06")
    @pytest.mark.parametrize(
        ("axis", "first"), [(3, 3), ((3,), 3), ([2, 3], 2), ((3, 2), 2), ((1, 2, 3), 1), (-1, 3), ((-2, -1), 2)]
    )
    def test_axes(self, axis, first):
        x = randoms(16, 3, 4, 5)
        axes = tuple(range(first, 4))
        shape = x.shape[:first] if first > 1 else (16, 1)
        found = on_tiles(reduced(nl.add, axis, shape), x)
        np.testing.assert_allclose(found, wide(x).sum(axis=axes).reshape(shape), rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize("keepdims", [False, True])
    def test_keepdims_is_about_the_shape_alone(self, keepdims):
        x = randoms(16, 3, 4)
        shape = (16, 3, 1) if keepdims else (16, 3)
        found = on_tiles(reduced(nl.max, 2, shape, keepdims=keepdims), x)
        np.testing.assert_array_equal(found, x.max(axis=2).reshape(shape))

    @covers("accept", "R-tensor_reduce-04")
    def test_negate(self):
        x = randoms(16, 8)
        found = on_tiles(reduced(nl.maximum, 1, (16, 1), negate=True), x)
        np.testing.assert_array_equal(found, -x.max(axis=1, keepdims=True))

    @covers("accept", "R-tensor_reduce-03")
    @pytest.mark.parametrize("op", ["bitwise_and", "bitwise_or", "bitwise_xor"])
    @pytest.mark.parametrize("dtype", [np.int32, np.uint8])
    def test_bit_patterns(self, op, dtype):
        x = np.random.default_rng(0).integers(0, 127, (16, 5)).astype(dtype)
        found = on_tiles(reduced(getattr(nl, op), 1, (16, 1), dtype), x)
        np.testing.assert_array_equal(found, getattr(np, op).reduce(x, axis=1, keepdims=True))

    @covers("accept", "R-tensor_reduce-07")
    @pytest.mark.parametrize("memory", [nl.sbuf, nl.psum])
    def test_memories_and_rounding(self, memory):
        x = randoms(64, 32, dtype=bf16)
        found = on_tiles(reduced(nl.add, 1, (64, 1), bf16), x, memories=(memory,))
        expected = wide(x).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2**-8)

    def test_strided_view(self):
        x = randoms(8, 4, 6)

        def body(a):
            dst = empty(a, shape=(8, 6))
            nisa.tensor_reduce(dst, nl.add, a.permute((0, 2, 1)), 2)
            return dst

        np.testing.assert_allclose(on_tiles(body, x), wide(x).sum(axis=1), rtol=1e-6, atol=1e-6)

    def test_large_sums_of_integers_warn(self):
        assert codes(reduced(nl.add, 1, (4, 1), np.int32), np.full((4, 4), 2**23, np.int32)) == ["W102"]

    @pytest.mark.rule("R-tensor_reduce-01", "reject")
    @pytest.mark.parametrize("axis", [0, 2, -3, (1, 3), (0, 1, 2, 3), 4, (2,), ()])
    def test_other_axes(self, axis):
        found = rejects(
            "R-tensor_reduce-01", lambda a: nisa.tensor_reduce(tile((8, 2)), nl.add, tile((8, 2, 3, 4)), axis)
        )
        assert "(3,) or (2, 3) or (1, 2, 3)" in found.message

    @pytest.mark.rule("R-tensor_reduce-08", "accept")
    @pytest.mark.rule("R-tensor_reduce-08", "reject")
    @pytest.mark.parametrize("shape", [(8, 2, 3), (8, 2, 3, 4)])
    def test_axis_one_was_the_last_dim(self, shape):
        x = randoms(*shape)
        kernel = reduced(nl.add, 1, shape[:-1])
        found = on_tiles(kernel, x, profile="lenient")
        np.testing.assert_allclose(found, wide(x).sum(axis=-1), rtol=1e-6, atol=1e-6)
        found = rejects("R-tensor_reduce-08", lambda a: nisa.tensor_reduce(tile(shape[:-1]), nl.add, tile(shape), 1))
        assert found.hint is not None and f"axis={len(shape) - 1}" in found.hint
        rejects(
            "R-tensor_reduce-06",
            lambda a: nisa.tensor_reduce(tile((8, 1)), nl.add, tile(shape), 1),
            profile="lenient",
        )

    @pytest.mark.rule("R-tensor_reduce-02", "reject")
    @pytest.mark.rule("R-engine-10", "reject")
    @pytest.mark.parametrize("op", [nl.power, nl.less, nl.left_shift, nl.abs, nl.exp])
    def test_no_reductions(self, op):
        rejects("R-tensor_reduce-02", lambda a: nisa.tensor_reduce(tile((8, 1)), op, tile((8, 2)), 1))

    @pytest.mark.rule("R-tensor_reduce-03", "reject")
    def test_bits_of_floats(self):
        rejects("R-tensor_reduce-03", lambda a: nisa.tensor_reduce(tile((8, 1)), nl.bitwise_or, tile((8, 2)), 1))

    @pytest.mark.rule("R-tensor_reduce-04", "reject")
    def test_negated_bits(self):
        rejects(
            "R-tensor_reduce-04",
            lambda a: nisa.tensor_reduce(tile((8, 1), nl.int32), nl.bitwise_or, tile((8, 2), nl.int32), 1, negate=True),
        )

    @pytest.mark.rule("R-tensor_reduce-05", "reject")
    def test_partitions(self):
        rejects("R-tensor_reduce-05", lambda a: nisa.tensor_reduce(tile((4, 1)), nl.add, tile((8, 2)), 1))

    @pytest.mark.rule("R-tensor_reduce-06", "reject")
    def test_result_elements(self):
        rejects("R-tensor_reduce-06", lambda a: nisa.tensor_reduce(tile((8, 2)), nl.add, tile((8, 3, 2)), 2))

    @pytest.mark.rule("R-tensor_reduce-07", "reject")
    def test_hbm(self):
        rejects("R-tensor_reduce-07", lambda a: nisa.tensor_reduce(tile((8, 1)), nl.add, a, 1), randoms(8, 2))

    def test_unwritten_elements_are_found(self):
        rejects(
            "R-tensor-08",
            lambda a: nisa.tensor_reduce(tile((8, 1)), nl.add, nl.ndarray((8, 2), dtype=nl.float32), 1),
        )

    @settings(max_examples=20, deadline=None)
    @given(st.integers(1, 64), st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
    def test_any_shape(self, partitions, free, data):
        first = data.draw(st.integers(1, len(free)))
        x = randoms(partitions, *free)
        axes = tuple(range(first, len(free) + 1))
        shape = x.shape[:first] if first > 1 else (partitions, 1)
        found = on_tiles(reduced(nl.minimum, axes, shape), x)
        np.testing.assert_array_equal(found, x.min(axis=axes).reshape(shape))


class TestTensorPartitionReduce:
    @covers("accept", *(f"R-tensor_partition_reduce-0{i}" for i in (1, 2, 3)))
    @pytest.mark.parametrize(
        ("op", "oracle"), [(nl.add, np.sum), (nl.average, np.mean), (nl.max, np.max), (nl.maximum, np.max)]
    )
    @pytest.mark.parametrize("shape", [(128, 16), (5, 3, 4)])
    @pytest.mark.parametrize("dtype", [np.float32, bf16])
    def test_values(self, op, oracle, shape, dtype):
        x = randoms(*shape, dtype=dtype)

        def body(a):
            dst = empty(a, np.float32, shape=(1, *shape[1:]))
            nisa.tensor_partition_reduce(dst, op, a)
            return dst

        expected = oracle(wide(x), axis=0)[None]
        np.testing.assert_allclose(on_tiles(body, x), expected, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("op", ["bitwise_or", "bitwise_and"])
    def test_bits(self, op):
        x = np.random.default_rng(0).integers(0, 255, (20, 6)).astype(np.uint8)

        def body(a):
            dst = empty(a, shape=(1, 6))
            nisa.tensor_partition_reduce(dst, getattr(nl, op), a)
            return dst

        np.testing.assert_array_equal(on_tiles(body, x), getattr(np, op).reduce(x, axis=0)[None])

    @pytest.mark.rule("R-tensor_partition_reduce-01", "reject")
    @pytest.mark.parametrize("op", [nl.multiply, nl.minimum, nl.bitwise_xor])
    def test_operators(self, op):
        rejects("R-tensor_partition_reduce-01", lambda a: nisa.tensor_partition_reduce(tile((1, 8)), op, tile((8, 8))))

    @pytest.mark.rule("R-tensor_partition_reduce-02", "reject")
    @pytest.mark.parametrize("buffers", [(nl.psum, nl.sbuf), (nl.sbuf, nl.psum)])
    def test_psum(self, buffers):
        rejects(
            "R-tensor_partition_reduce-02",
            lambda a: nisa.tensor_partition_reduce(
                tile((1, 8), buffer=buffers[0]), nl.add, tile((8, 8), buffer=buffers[1])
            ),
        )

    @pytest.mark.rule("R-tensor_partition_reduce-03", "reject")
    @pytest.mark.parametrize("shape", [(2, 8), (1, 7)])
    def test_result_shape(self, shape):
        rejects(
            "R-tensor_partition_reduce-03", lambda a: nisa.tensor_partition_reduce(tile(shape), nl.add, tile((8, 8)))
        )


def scalar_reduced(dtype=None, **arguments):
    def body(a):
        dst, res = empty(a, dtype), empty(a, np.float32, shape=(a.shape[0], 1))
        nisa.tensor_scalar_reduce(dst, a, reduce_res=res, **arguments)
        return dst, res

    return body


class TestTensorScalarReduce:
    @covers("accept", *(f"R-tensor_scalar_reduce-0{i}" for i in (1, 2, 3, 4, 5, 6)))
    @pytest.mark.parametrize(
        ("op", "oracle"),
        [(nl.add, np.sum), (nl.multiply, np.prod), (nl.max, np.max), (nl.minimum, np.min)],
    )
    @pytest.mark.parametrize("dtype", [np.float32, bf16, np.int8])
    def test_values(self, op, oracle, dtype):
        x = randoms(16, 3, 4, dtype=dtype)
        dst, res = on_tiles(scalar_reduced(np.float32, op0=nl.multiply, operand0=0.5, reduce_op=op), x)
        wanted = x.astype(np.float32) * np.float32(0.5)
        np.testing.assert_array_equal(dst, wanted)
        np.testing.assert_allclose(
            res, oracle(wide(wanted).reshape(16, -1), axis=1, keepdims=True), rtol=1e-6, atol=1e-6
        )

    def test_reduction_is_taken_before_rounding(self):
        x = np.full((4, 2), 1 + 2**-9, np.float32)
        dst, res = on_tiles(scalar_reduced(bf16, op0=nl.multiply, operand0=1.0, reduce_op=nl.add), x)
        assert (dst == 1).all()
        np.testing.assert_array_equal(res, np.full((4, 1), 2 + 2**-8, np.float32))

    def test_abs_maximum_and_negation(self):
        x = randoms(16, 8)
        dst, res = on_tiles(scalar_reduced(op0=nl.abs, operand0=0.0, reduce_op=nl.maximum, reduce_res_negate=True), x)
        np.testing.assert_array_equal(dst, np.abs(x))
        np.testing.assert_array_equal(res, -np.abs(x).max(axis=1, keepdims=True))

    @pytest.mark.parametrize(("op", "oracle"), [(nl.add, np.sum), (nl.maximum, np.max), (nl.multiply, np.prod)])
    def test_chain_of_tiles(self, op, oracle):
        x = randoms(16, 12)

        def body(a):
            dst, res = empty(a), empty(a, shape=(16, 1))
            for i, command in enumerate((RESET, REDUCE, REDUCE)):
                nisa.tensor_scalar_reduce(
                    dst[:, 4 * i : 4 * i + 4],
                    a[:, 4 * i : 4 * i + 4],
                    op0=nl.add,
                    operand0=1.0,
                    reduce_op=op,
                    reduce_res=res if i == 2 else None,
                    reduce_cmd=command,
                )
            return res

        expected = oracle(wide(x) + 1, axis=1, keepdims=True)
        np.testing.assert_allclose(on_tiles(body, x), expected, rtol=2e-5, atol=1e-5)

    def test_negation_leaves_the_registers(self):
        x = randoms(16, 4)

        def body(a):
            dst, first, second = empty(a), empty(a, shape=(16, 1)), empty(a, shape=(16, 1))
            nisa.tensor_scalar_reduce(dst, a, nl.add, 0.0, nl.add, first, reduce_res_negate=True)
            nisa.tensor_scalar_reduce(dst, a, nl.add, 0.0, nl.add, second, reduce_cmd=REDUCE)
            return first, second

        first, second = on_tiles(body, x)
        np.testing.assert_allclose(second, -2 * first, rtol=1e-5)

    @pytest.mark.parametrize("number", [False, True])
    def test_load(self, number):
        x, start = randoms(16, 4), np.full((16, 1), 2.5, np.float32)

        def body(a, init):
            dst, res = empty(a), empty(a, shape=(16, 1))
            nisa.tensor_scalar_reduce(
                dst, a, nl.multiply, 1.0, nl.add, res, reduce_cmd=LOAD, reduce_init=2.5 if number else init
            )
            return res

        np.testing.assert_allclose(on_tiles(body, x, start), wide(x).sum(axis=1, keepdims=True) + 2.5, rtol=1e-5)

    def test_lanes_keep_their_own_registers(self):
        x = randoms(64, 4)

        def body(a):
            dst, res = empty(a), empty(a, shape=(64, 1))
            for start in (0, 32):
                nisa.tensor_scalar_reduce(dst[start : start + 32, :], a[start : start + 32, :], nl.add, 0.0, nl.add)
            nisa.tensor_scalar_reduce(dst, a, nl.add, 0.0, nl.add, res, reduce_cmd=REDUCE)
            return res

        np.testing.assert_allclose(on_tiles(body, x), 2 * wide(x).sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-6)

    @covers("reject", "R-tensor_scalar_cumulative-05")
    def test_nothing_to_continue(self):
        rejects(
            "R-tensor_scalar_cumulative-05",
            lambda a: nisa.tensor_scalar_reduce(tile((8, 8)), tile((8, 8)), nl.add, 0.0, nl.add, reduce_cmd=REDUCE),
        )

    @pytest.mark.rule("R-tensor_scalar_reduce-01", "reject")
    def test_bits(self):
        rejects(
            "R-tensor_scalar_reduce-01",
            lambda a: nisa.tensor_scalar_reduce(
                tile((8, 8), nl.int32), tile((8, 8), nl.int32), nl.bitwise_and, 1, nl.add
            ),
        )

    @pytest.mark.rule("R-tensor_scalar_reduce-02", "reject")
    @pytest.mark.parametrize("op", [nl.subtract, nl.logical_and, nl.power])
    def test_reductions(self, op):
        rejects(
            "R-tensor_scalar_reduce-02",
            lambda a: nisa.tensor_scalar_reduce(tile((8, 8)), tile((8, 8)), nl.add, 1.0, op),
        )

    @pytest.mark.rule("R-tensor_scalar_reduce-03", "reject")
    def test_result_shape(self):
        rejects(
            "R-tensor_scalar_reduce-03",
            lambda a: nisa.tensor_scalar_reduce(tile((8, 8)), tile((8, 8)), nl.add, 1.0, nl.add, tile((8, 2))),
        )

    @pytest.mark.rule("R-tensor_scalar_reduce-04", "reject")
    @pytest.mark.parametrize("arguments", [{"reduce_cmd": LOAD}, {"reduce_init": 1.0}])
    def test_initial_value(self, arguments):
        rejects(
            "R-tensor_scalar_reduce-04",
            lambda a: nisa.tensor_scalar_reduce(tile((8, 8)), tile((8, 8)), nl.add, 1.0, nl.add, **arguments),
        )

    @pytest.mark.rule("R-tensor_scalar_reduce-05", "reject")
    def test_reverse(self):
        rejects(
            "R-tensor_scalar_reduce-05",
            lambda a: nisa.tensor_scalar_reduce(tile((8, 8)), tile((8, 8)), nl.add, 1.0, nl.add, reverse0=True),
        )

    @pytest.mark.rule("R-tensor_scalar_reduce-06", "reject")
    @pytest.mark.parametrize("command", [nisa.reduce_cmd.idle, nisa.reduce_cmd.reset])
    def test_commands(self, command):
        rejects(
            "R-tensor_scalar_reduce-06",
            lambda a: nisa.tensor_scalar_reduce(tile((8, 8)), tile((8, 8)), nl.add, 1.0, nl.add, reduce_cmd=command),
        )


class TestStatistics:
    @covers("accept", "R-bn_stats-01", "R-bn_stats-02")
    @pytest.mark.parametrize("width", [1, 2, 7, 512])
    @pytest.mark.parametrize("dtype", [np.float32, bf16, f8])
    def test_bn_stats(self, width, dtype):
        x = randoms(16, width, dtype=dtype)

        def body(a):
            dst = empty(a, np.float32, shape=(16, 6))
            nisa.bn_stats(dst, a)
            return dst

        expected = []
        for part in (wide(x)[:, 0::2], wide(x)[:, 1::2]):
            n = part.shape[1]
            mean = part.mean(axis=1) if n else np.zeros(16)
            expected += [np.full(16, n), mean, ((part - mean[:, None]) ** 2).sum(axis=1)]
        np.testing.assert_allclose(on_tiles(body, x), np.stack(expected, axis=1), rtol=2e-6, atol=1e-6)

    @covers("accept", "R-bn_aggr-01")
    @pytest.mark.parametrize("width", [6, 512, 1000])
    def test_mean_and_variance(self, width):
        x = randoms(16, width) * 3 + 2
        pieces = -(-width // 512)

        def body(a):
            stats, dst = empty(a, shape=(16, pieces, 6)), empty(a, shape=(16, 2))
            for i in range(pieces):
                nisa.bn_stats(stats[:, i, :], a[:, 512 * i : min(width, 512 * i + 512)])
            nisa.bn_aggr(dst, stats)
            return dst

        expected = np.stack([wide(x).mean(axis=1), wide(x).var(axis=1)], axis=1)
        np.testing.assert_allclose(on_tiles(body, x), expected, rtol=3e-6)

    @pytest.mark.rule("R-bn_stats-01", "reject")
    def test_too_wide(self):
        rejects("R-bn_stats-01", lambda a: nisa.bn_stats(tile((8, 6)), tile((8, 513))))

    @pytest.mark.rule("R-bn_stats-02", "reject")
    def test_stats_results(self):
        rejects("R-bn_stats-02", lambda a: nisa.bn_stats(tile((8, 5)), tile((8, 8))))

    @pytest.mark.rule("R-bn_aggr-01", "reject")
    @pytest.mark.parametrize("shapes", [((8, 2), (8, 7)), ((8, 3), (8, 6))])
    def test_aggregated(self, shapes):
        rejects("R-bn_aggr-01", lambda a: nisa.bn_aggr(tile(shapes[0]), tile(shapes[1])))

    @pytest.mark.rule("R-engine-05", "reject")
    @pytest.mark.parametrize("call", [nisa.bn_stats, nisa.bn_aggr])
    def test_partitions(self, call):
        dst = (4, 6) if call is nisa.bn_stats else (4, 2)
        rejects("R-engine-05", lambda a: call(tile(dst), tile((8, 6))))

    def test_unwritten_elements_are_found(self):
        rejects("R-tensor-08", lambda a: nisa.bn_stats(tile((8, 6)), nl.ndarray((8, 6), dtype=nl.float32)))
        accepts(lambda a: nisa.bn_stats(tile((8, 6)), tile((8, 6))))
