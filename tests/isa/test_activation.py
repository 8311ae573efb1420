"""activation and activation_reduce."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.isa.compute import SHAPES, bf16, codes, covers, empty, f8, kernel_of, on_tiles, randoms, wide
from tests.kit import accepts, full_run, nisa, nl, np, rejects, tile
from tilewright.tile.alu import ACTIVATIONS

IDLE, RESET, REDUCE, RESET_REDUCE = (
    nisa.reduce_cmd.idle,
    nisa.reduce_cmd.reset,
    nisa.reduce_cmd.reduce,
    nisa.reduce_cmd.reset_reduce,
)


def activated(op, dtype=None, memory=nl.sbuf, **arguments):
    def body(a):
        dst = empty(a, dtype, memory)
        nisa.activation(dst, op, a, **arguments)
        return dst

    return body


def findings(body, *arrays, **options):
    """(rule or code, message) of what a body is warned about."""
    found = full_run(kernel_of(body), *arrays, **options).diagnostics
    return [(each.rule or each.code, each.message) for each in found]


class TestActivation:
    @covers("accept", "R-activation-01", "R-activation-09")
    @pytest.mark.parametrize("name", ACTIVATIONS)
    def test_functions(self, name):
        x = np.abs(randoms(16, 12)) + 0.1 if name in ("log", "sqrt", "rsqrt") else randoms(16, 12).clip(-1.5, 1.5)
        found = on_tiles(activated(getattr(nl, name)), x)
        np.testing.assert_array_equal(found, ACTIVATIONS[name].apply(x))

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("dtypes", [(np.float32, bf16), (bf16, np.float32), (f8, np.float16), (np.int32, np.int32)])
    def test_dtypes_and_shapes(self, shape, dtypes):
        x = randoms(*shape, dtype=dtypes[0])
        found = on_tiles(activated(nl.relu, dtypes[1]), x)
        expected = np.maximum(x.astype(np.float32), 0).astype(dtypes[1])
        np.testing.assert_array_equal(found, expected)

    @covers("accept", "R-activation-02", "R-activation-03", "R-activation-04")
    @pytest.mark.parametrize("bias_dtype", [np.float32, bf16, np.float16, f8])
    @pytest.mark.parametrize("memory", [nl.sbuf, nl.psum])
    def test_scale_and_bias_vectors(self, bias_dtype, memory):
        x, scale, bias = randoms(16, 3, 4), randoms(16, 1, seed=1), randoms(16, 1, dtype=bias_dtype, seed=2)

        def body(a, b, c):
            dst = empty(a)
            nisa.activation(dst, nl.exp, a, bias=c, scale=b)
            return dst

        found = on_tiles(body, x, scale, bias, memories=(memory, nl.sbuf, nl.sbuf))
        expected = np.exp(wide(x).reshape(16, 12) * scale + wide(bias))
        np.testing.assert_allclose(found.reshape(16, 12), expected, rtol=2e-6)

    @covers("accept", "R-activation-05")
    @pytest.mark.parametrize("target", ["trn2", "trn3"])
    def test_number_bias(self, target):
        x = randoms(16, 8)
        found = on_tiles(activated(nl.copy, bias=0.5, scale=2.0), x, target=target)
        np.testing.assert_array_equal(found, x * 2 + np.float32(0.5))

    @pytest.mark.req("S3-14")
    def test_negative_scale_negates_the_argument(self):
        x = randoms(16, 8)
        np.testing.assert_array_equal(on_tiles(activated(nl.relu, scale=-1.0), x), np.maximum(-x, 0))

    @settings(max_examples=20, deadline=None)
    @given(
        st.sampled_from(["relu", "square", "abs", "copy", "sign"]),
        st.floats(-3, 3, width=32),
        st.floats(-3, 3, width=32),
        st.sampled_from([np.float32, bf16, np.float16]),
    )
    def test_any_scale_and_bias(self, op, scale, bias, dtype):
        oracle = {"relu": lambda v: np.maximum(v, 0), "copy": lambda v: v}.get(op) or getattr(np, op)
        x = randoms(8, 12, dtype=dtype)
        expected = oracle(x.astype(np.float32) * np.float32(scale) + np.float32(bias)).astype(dtype)
        np.testing.assert_array_equal(on_tiles(activated(getattr(nl, op), scale=scale, bias=bias), x), expected)

    def test_unwritten_elements_flow_on_but_not_into_a_reduction(self):
        def kernel(a, **arguments):
            half = nl.ndarray((4, 8), dtype=nl.float32)
            nisa.memset(half[:, 0:4], value=1.0)
            moved = nl.ndarray((4, 8), dtype=nl.float32)
            nisa.activation(moved, nl.exp, half, **arguments)
            out = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)
            nisa.dma_copy(out, moved[:, 0:4])
            return out

        np.testing.assert_allclose(accepts(kernel), np.full((4, 4), math.e), rtol=1e-6)
        rejects("R-tensor-08", lambda a: kernel(a, reduce_op=nl.add, reduce_cmd=RESET_REDUCE))

    # What it refuses.

    @pytest.mark.rule("R-activation-01", "reject")
    @pytest.mark.req("S3-13")
    @pytest.mark.parametrize("op", [nl.add, nl.maximum, nl.cos, "identity", None])
    def test_functions_it_does_not_have(self, op):
        found = rejects("R-activation-01", lambda a: nisa.activation(tile((8, 8)), op, tile((8, 8))))
        assert "the identity is nl.copy" in (found.hint or "")
        assert op is not nl.add or "nisa.tensor_tensor and nisa.tensor_scalar compute nl.add" in (found.hint or "")

    @pytest.mark.req("S3-13")
    def test_identity_is_copy(self):
        assert not hasattr(nl, "identity")
        x = randoms(8, 8)
        np.testing.assert_array_equal(on_tiles(activated(nl.copy), x), x)

    @pytest.mark.req("S3-13")
    def test_dtype_keyword(self):
        with pytest.raises(TypeError, match="unexpected keyword argument 'dtype'"):
            full_run(lambda a: nisa.activation(tile((8, 8)), nl.exp, tile((8, 8)), dtype=nl.float32))

    @pytest.mark.req("S3-13")
    def test_missing_destination(self):
        with pytest.raises(TypeError, match="dst"):
            full_run(lambda a: nisa.activation(op=nl.exp, data=tile((8, 8))))

    @pytest.mark.rule("R-activation-02", "reject")
    def test_scale_dtype(self):
        rejects(
            "R-activation-02",
            lambda a: nisa.activation(tile((8, 8)), nl.exp, tile((8, 8)), scale=tile((8, 1), nl.bfloat16)),
        )

    @pytest.mark.rule("R-activation-03", "reject")
    def test_bias_dtype(self):
        rejects(
            "R-activation-03",
            lambda a: nisa.activation(tile((8, 8)), nl.exp, tile((8, 8)), bias=tile((8, 1), nl.tfloat32)),
        )

    @pytest.mark.rule("R-activation-04", "reject")
    @pytest.mark.parametrize("name", ["bias", "scale"])
    @pytest.mark.parametrize("shape", [(8, 8), (4, 1), (1, 8)])
    def test_vectors(self, name, shape):
        rejects(
            "R-activation-04",
            lambda a: nisa.activation(tile((8, 8)), nl.exp, tile((8, 8)), **{name: tile(shape)}),
        )

    @pytest.mark.rule("R-activation-05", "reject")
    def test_number_bias_of_the_first_generation(self):
        rejects(
            "R-activation-05",
            lambda a: nisa.activation(tile((8, 8)), nl.exp, tile((8, 8)), bias=1.0),
            target="trn1",
        )

    @pytest.mark.rule("R-activation-06", "accept")
    @pytest.mark.parametrize(("target", "biased"), [("trn1", False), ("trn2", True)])
    def test_reciprocal(self, target, biased):
        def kernel(a):
            bias = tile((8, 1)) if biased else None
            nisa.activation(tile((8, 8)), nl.reciprocal, tile((8, 8), value=2.0), bias=bias)

        accepts(kernel, target=target)

    @pytest.mark.rule("R-activation-06", "reject")
    def test_reciprocal_with_bias_of_the_first_generation(self):
        rejects(
            "R-activation-06",
            lambda a: nisa.activation(tile((8, 8)), nl.reciprocal, tile((8, 8), value=2.0), bias=tile((8, 1))),
            target="trn1",
        )

    @pytest.mark.rule("R-activation-07", "reject")
    @pytest.mark.parametrize("op", [nl.maximum, nl.multiply, None])
    def test_reduction_is_a_sum(self, op):
        rejects(
            "R-activation-07",
            lambda a: nisa.activation(tile((8, 8)), nl.exp, tile((8, 8)), reduce_op=op, reduce_cmd=RESET_REDUCE),
        )

    @pytest.mark.rule("R-activation-08", "reject")
    @pytest.mark.parametrize("shape", [(8, 2), (4, 1)])
    def test_reduction_result(self, shape):
        rejects(
            "R-activation-08",
            lambda a: nisa.activation(
                tile((8, 8)), nl.exp, tile((8, 8)), reduce_op=nl.add, reduce_res=tile(shape), reduce_cmd=RESET_REDUCE
            ),
        )

    @pytest.mark.rule("R-activation-09", "reject")
    @pytest.mark.parametrize("shape", [(4, 8), (8, 9)])
    def test_shapes(self, shape):
        rejects("R-activation-09", lambda a: nisa.activation(tile(shape), nl.exp, tile((8, 8))))


class TestReduction:
    @covers("accept", "R-activation-07", "R-activation-08", "R-activation-11")
    @pytest.mark.parametrize("memory", [nl.sbuf, nl.psum])
    def test_sum_of_the_row(self, memory):
        x = randoms(16, 3, 4)

        def body(a):
            dst, res = empty(a, bf16), empty(a, np.float32, memory, (16, 1))
            nisa.activation(dst, nl.exp, a, reduce_op=nl.add, reduce_res=res, reduce_cmd=RESET_REDUCE)
            return dst, res

        dst, res = on_tiles(body, x)
        expected = np.exp(wide(x)).reshape(16, 12)
        np.testing.assert_allclose(dst.astype(np.float32).reshape(16, 12), expected, rtol=2**-8)
        # The sum is that of the values before they are rounded to bfloat16.
        np.testing.assert_allclose(res, expected.sum(axis=1, keepdims=True), rtol=1e-6)

    def test_chain_over_tiles(self):
        x = randoms(16, 12)

        def body(a):
            dst, res = empty(a), empty(a, shape=(16, 1))
            nisa.activation(dst, nl.copy, a, reduce_op=nl.add, reduce_cmd=RESET)
            for i in range(3):
                part = slice(4 * i, 4 * i + 4)
                nisa.activation(
                    dst[:, part],
                    nl.square,
                    a[:, part],
                    reduce_op=nl.add,
                    reduce_res=res if i == 2 else None,
                    reduce_cmd=REDUCE,
                )
            return res

        np.testing.assert_allclose(on_tiles(body, x), (wide(x) ** 2).sum(axis=1, keepdims=True), rtol=1e-6)

    def test_idle_leaves_the_registers_and_reads_them(self):
        x = randoms(16, 4)

        def body(a):
            dst, res = empty(a), empty(a, shape=(16, 1))
            nisa.activation(dst, nl.copy, a, reduce_op=nl.add, reduce_cmd=RESET_REDUCE)
            nisa.activation(dst, nl.exp, a)
            nisa.activation(dst, nl.exp, a, reduce_op=nl.add, reduce_res=res, reduce_cmd=IDLE)
            return res

        np.testing.assert_allclose(on_tiles(body, x), wide(x).sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-6)

    def test_reset_reads_zero(self):
        def body(a):
            dst, res = empty(a), empty(a, shape=(4, 1))
            nisa.activation(dst, nl.copy, a, reduce_op=nl.add, reduce_cmd=RESET_REDUCE)
            nisa.activation(dst, nl.copy, a, reduce_op=nl.add, reduce_res=res, reduce_cmd=RESET)
            return res

        np.testing.assert_array_equal(on_tiles(body, randoms(4, 4)), np.zeros((4, 1)))

    @covers("holds", "R-activation-10")
    def test_result_may_be_part_of_the_destination(self):
        x = randoms(16, 8)

        def body(a):
            dst = empty(a)
            nisa.activation(dst, nl.square, a, reduce_op=nl.add, reduce_res=dst[:, 0:1], reduce_cmd=RESET_REDUCE)
            return dst

        found = on_tiles(body, x)
        np.testing.assert_allclose(found[:, :1], (wide(x) ** 2).sum(axis=1, keepdims=True), rtol=1e-6)
        np.testing.assert_array_equal(found[:, 1:], np.square(x[:, 1:]))

    @pytest.mark.rule("R-activation-11", "reject")
    @pytest.mark.parametrize("command", [REDUCE, IDLE])
    def test_registers_that_hold_nothing(self, command):
        found = rejects(
            "R-activation-11",
            lambda a: nisa.activation(
                tile((8, 8)), nl.exp, tile((8, 8)), reduce_op=nl.add, reduce_res=tile((8, 1)), reduce_cmd=command
            ),
        )
        assert "reset_reduce" in (found.hint or "")

    @pytest.mark.rule("R-activation-11", "reject")
    def test_other_lanes_hold_nothing(self):
        def kernel(a):
            first, second = tile((32, 8)), tile((64, 8))
            nisa.activation(first, nl.exp, first, reduce_op=nl.add, reduce_cmd=RESET_REDUCE)
            nisa.activation(second, nl.exp, second, reduce_op=nl.add, reduce_cmd=REDUCE)

        rejects("R-activation-11", kernel)


class TestActivationReduce:
    @covers("accept", "R-activation_reduce-01", "R-activation_reduce-02")
    @pytest.mark.parametrize(
        ("op", "oracle", "target"),
        [(nl.add, np.sum, "trn1"), (nl.add, np.sum, "trn2"), (nl.maximum, np.max, "trn2"), (nl.min, np.min, "trn3")],
    )
    def test_values(self, op, oracle, target):
        x, bias = randoms(16, 2, 6), randoms(16, 1, seed=1)

        def body(a, b):
            dst, res = empty(a), empty(a, shape=(16, 1))
            nisa.activation_reduce(dst, nl.square, a, op, res, bias=b, scale=0.5)
            return dst, res

        dst, res = on_tiles(body, x, bias, target=target)
        expected = (wide(x).reshape(16, 12) * 0.5 + bias) ** 2
        np.testing.assert_allclose(dst.reshape(16, 12), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(res, oracle(expected, axis=1, keepdims=True), rtol=1e-5)

    def test_result_stays_in_the_registers(self):
        x = randoms(16, 4)

        def body(a):
            dst, res = empty(a), empty(a, shape=(16, 1))
            nisa.activation_reduce(dst, nl.copy, a, nl.add, None)
            nisa.activation(dst, nl.copy, a, reduce_op=nl.add, reduce_res=res, reduce_cmd=REDUCE)
            return res

        np.testing.assert_allclose(on_tiles(body, x), 2 * wide(x).sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-6)

    @pytest.mark.rule("R-activation_reduce-01", "reject")
    def test_operator_of_the_first_generation(self):
        rejects(
            "R-activation_reduce-01",
            lambda a: nisa.activation_reduce(tile((8, 8)), nl.exp, tile((8, 8)), nl.maximum, tile((8, 1))),
            target="trn1",
        )

    @pytest.mark.rule("R-engine-10", "reject")
    def test_no_reduction(self):
        rejects(
            "R-engine-10",
            lambda a: nisa.activation_reduce(tile((8, 8)), nl.exp, tile((8, 8)), nl.power, tile((8, 1))),
        )

    @pytest.mark.rule("R-activation_reduce-02", "reject")
    def test_result_shape(self):
        rejects(
            "R-activation_reduce-02",
            lambda a: nisa.activation_reduce(tile((8, 8)), nl.exp, tile((8, 8)), nl.add, tile((8, 8))),
        )

    def test_unwritten_elements_are_found(self):
        rejects(
            "R-tensor-08",
            lambda a: nisa.activation_reduce(
                tile((8, 8)), nl.exp, nl.ndarray((8, 8), dtype=nl.float32), nl.add, tile((8, 1))
            ),
        )


class TestRanges:
    LIMITS = (
        ("log", 2.0**-60, 2.0**-66),
        ("log", 2.0**60, 2.0**66),
        ("sin", 3.1, 3.2),
        ("sin", -3.1, -3.2),
        ("arctan", 1.5, 1.6),
        ("sqrt", 2.0**-100, 0.0),
        ("rsqrt", 2.0**-80, 2.0**-90),
        ("reciprocal", -(2.0**-40), -(2.0**-44)),
        ("reciprocal", 2.0**40, 2.0**44),
    )

    @covers("accept", "R-engine-09")
    @covers("reject", "R-engine-09")
    @pytest.mark.parametrize(("name", "inside", "outside"), LIMITS)
    def test_arguments_outside_the_range_warn(self, name, inside, outside):
        body = activated(getattr(nl, name))
        assert findings(body, np.full((4, 4), inside, np.float32)) == []
        x = np.full((4, 4), inside, np.float32)
        x[2, 1] = outside
        ((rule, message),) = findings(body, x)
        assert rule == "R-engine-09" and "1 of 16" in message and name in message

    def test_other_functions_give_the_right_value_outside(self):
        x = np.array([[2.0, 100.0]], np.float32)
        np.testing.assert_allclose(on_tiles(activated(nl.arctan), x), np.arctan(x), rtol=1e-6)

    @pytest.mark.rule("R-engine-09", "holds")
    def test_sin_extrapolates(self):
        found = on_tiles(activated(nl.sin), np.array([[9.0, np.pi]], np.float32))
        np.testing.assert_allclose(found, [[27.65, 0]], rtol=2e-4, atol=1e-6)

    def test_bounds_themselves_are_inside(self):
        assert findings(activated(nl.sin), np.full((2, 2), np.pi, np.float32)) == []

    def test_scale_and_bias_count(self):
        body = activated(nl.sin, scale=0.1)
        assert findings(body, np.full((2, 2), 9.0, np.float32)) == []

    def test_once_per_line(self):
        def body(a):
            dst = empty(a)
            for _ in range(3):
                nisa.activation(dst, nl.sin, a)
            return dst

        assert len(findings(body, np.full((2, 2), 9.0, np.float32))) == 1

    def test_large_integers_warn(self):
        assert codes(activated(nl.copy), np.full((2, 2), 2**24 + 1, np.int32)) == ["W102"]


@pytest.mark.req("S3-12")
class TestDrainingPsum:
    """Four ways to move PSUM to SBUF."""

    VALUES = np.array([[-0.0, 0.0, np.inf, -np.inf, 1.5, -2.25, 3e38, 1e-40]], np.float32)

    @staticmethod
    def _copy(a, dst):
        nisa.tensor_copy(dst, a)

    @staticmethod
    def _identity(a, dst):
        nisa.activation(dst, nl.copy, a)

    @staticmethod
    def _add_zero(a, dst):
        nisa.tensor_scalar(dst, a, op0=nl.add, operand0=0.0)

    @staticmethod
    def _relus(a, dst):
        positive, negative = empty(a), empty(a)
        nisa.activation(positive, nl.relu, a)
        nisa.activation(negative, nl.relu, a, scale=-1.0)
        nisa.tensor_tensor(dst, positive, negative, op=nl.subtract)

    @pytest.mark.parametrize("way", ["_copy", "_identity", "_add_zero", "_relus"])
    @pytest.mark.parametrize("data", ["special", "random"])
    def test_equal(self, way, data):
        x = self.VALUES if data == "special" else randoms(128, 64)

        def body(a):
            dst = empty(a)
            getattr(self, way)(a, dst)
            return dst

        np.testing.assert_array_equal(on_tiles(body, x, memories=(nl.psum,)), x)

    def test_relus_take_three_instructions(self):
        def count(way):
            def kernel(a):
                getattr(self, way)(tile((8, 8), buffer=nl.psum), nl.ndarray((8, 8), dtype=nl.float32))

            return full_run(kernel).session.counts.total - 1

        assert [count(way) for way in ("_copy", "_identity", "_add_zero", "_relus")] == [1, 1, 1, 3]
