"""tensor_scalar and scalar_tensor_tensor."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.isa.compute import SHAPES, bf16, codes, covers, empty, f8, on_tiles, randoms, wide
from tests.kit import accepts, full_run, nisa, nl, np, rejects, tile

VECTOR, SCALAR, GPSIMD = nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd


def scaled(dtype=None, memory=nl.sbuf, **arguments):
    def body(a):
        dst = empty(a, dtype, memory)
        nisa.tensor_scalar(dst, a, **arguments)
        return dst

    return body


def with_column(dtype=None, **arguments):
    def body(a, column):
        dst = empty(a, dtype)
        nisa.tensor_scalar(dst, a, operand0=column, **arguments)
        return dst

    return body


def engine_of(kernel, name, **options):
    executed = full_run(kernel, **options).session.counts.executed
    return next(key[0] for key in executed if key[1] == name)


class TestTensorScalar:
    @covers("accept", "R-tensor_scalar-01", "R-tensor_scalar-09")
    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("dtype", [np.float32, bf16, np.float16, f8, np.int8])
    def test_number(self, shape, dtype):
        x = randoms(*shape, dtype=dtype)
        expected = (x.astype(np.float32) * np.float32(0.3)).astype(np.float32)
        np.testing.assert_array_equal(on_tiles(scaled(np.float32, op0=nl.multiply, operand0=0.3), x), expected)

    @covers("accept", "R-tensor_scalar-01", "R-tensor_scalar-02")
    @pytest.mark.parametrize("shape", SHAPES)
    def test_column(self, shape):
        x, column = randoms(*shape), randoms(shape[0], 1, seed=1)
        expected = x.reshape(shape[0], -1) - column
        np.testing.assert_array_equal(on_tiles(with_column(op0=nl.subtract), x, column), expected.reshape(shape))

    @covers("accept", "R-tensor_scalar-03", "R-tensor_scalar-07")
    @pytest.mark.parametrize("reverse0", [False, True])
    @pytest.mark.parametrize("reverse1", [False, True])
    def test_two_operators_and_their_order(self, reverse0, reverse1):
        x, c0, c1 = randoms(16, 8), randoms(16, 1, seed=1), randoms(16, 1, seed=2)

        def body(a, first, second):
            dst = empty(a)
            nisa.tensor_scalar(dst, a, nl.subtract, first, reverse0, nl.subtract, second, reverse1)
            return dst

        step = c0 - x if reverse0 else x - c0
        expected = c1 - step if reverse1 else step - c1
        np.testing.assert_array_equal(on_tiles(body, x, c0, c1), expected)

    @pytest.mark.parametrize("op", [nl.less, nl.greater_equal, nl.equal, nl.maximum, nl.logical_or, nl.power])
    def test_more_operators(self, op):
        x = np.abs(randoms(16, 8)).round(1)
        oracle = {"power": np.power}.get(op.op_name) or getattr(np, op.op_name)
        found = on_tiles(scaled(op0=op, operand0=0.5), x)
        np.testing.assert_allclose(found, oracle(x, np.float32(0.5)).astype(np.float32), rtol=2e-7)

    @covers("accept", "R-tensor_scalar-08")
    @pytest.mark.parametrize("operand", [None, 0, 0.0])
    @pytest.mark.parametrize(("op", "oracle"), [(nl.abs, np.abs), (nl.reciprocal, lambda x: 1 / x)])
    def test_unary_operators(self, operand, op, oracle):
        x = randoms(16, 8)
        np.testing.assert_array_equal(on_tiles(scaled(op0=op, operand0=operand), x), oracle(x))

    @covers("accept", "R-tensor_scalar-06", "R-tensor_scalar-07")
    def test_rsqrt_runs_on_gpsimd(self):
        x = np.abs(randoms(16, 8)) + 0.1
        found = on_tiles(scaled(op0=nl.add, operand0=1e-6, op1=nl.rsqrt, operand1=0), x)
        np.testing.assert_allclose(found, 1 / np.sqrt(wide(x) + 1e-6), rtol=3e-7)

        def kernel(a):
            nisa.tensor_scalar(tile((8, 8)), tile((8, 8), value=1.0), op0=nl.rsqrt, operand0=0.0, engine=GPSIMD)

        assert engine_of(kernel, "tensor_scalar") == "gpsimd"

    @covers("accept", "R-tensor_scalar-04")
    @pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.uint16])
    def test_bit_patterns(self, dtype):
        x = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, (16, 8)).astype(dtype)
        found = on_tiles(scaled(op0=nl.right_shift, operand0=3, op1=nl.bitwise_and, operand1=0x0F), x)
        np.testing.assert_array_equal(found, (x >> 3) & 0x0F)
        np.testing.assert_array_equal(on_tiles(scaled(op0=nl.invert, operand0=None), x), ~x)
        np.testing.assert_array_equal(on_tiles(scaled(op0=nl.bitwise_xor, operand0=-1), x), ~x)

    def test_bits_with_a_column_and_reversed(self):
        x, column = np.arange(8, dtype=np.int32).reshape(2, 4), np.array([[1], [2]], np.int32)
        found = on_tiles(with_column(op0=nl.left_shift), x, column)
        np.testing.assert_array_equal(found, x << column)
        found = on_tiles(with_column(op0=nl.left_shift, reverse0=True), x, column)
        np.testing.assert_array_equal(found, column << x)

    @covers("accept", "R-tensor_scalar-05")
    @pytest.mark.parametrize("op1", [None, nl.add])
    def test_scalar_engine(self, op1):
        x = randoms(16, 8)
        operand1 = None if op1 is None else 0.5
        body = scaled(op0=nl.multiply, operand0=2.0, op1=op1, operand1=operand1, engine=SCALAR)
        np.testing.assert_array_equal(on_tiles(body, x), x * 2 + (0.5 if op1 else 0))

    def test_scalar_engine_of_the_newest_generation_takes_any(self):
        accepts(
            lambda a: nisa.tensor_scalar(tile((8, 8)), tile((8, 8)), op0=nl.maximum, operand0=0.0, engine=SCALAR),
            target="trn3",
        )

    def test_psum_and_large_integers(self):
        x = np.full((4, 4), 2**24 - 1, np.int32)
        body = scaled(op0=nl.add, operand0=1, memory=nl.psum)
        np.testing.assert_array_equal(on_tiles(body, x, memories=(nl.psum,)), x + 1)
        assert codes(body, x) == []
        assert codes(body, x + 1) == []
        assert codes(body, x + 3) == ["W102"]

    @pytest.mark.rule("R-tensor_scalar-01", "reject")
    @pytest.mark.parametrize("shape", [(8, 2), (4, 1), (1, 8)])
    def test_operand_shape(self, shape):
        rejects(
            "R-tensor_scalar-01",
            lambda a: nisa.tensor_scalar(tile((8, 8)), tile((8, 8)), op0=nl.add, operand0=tile(shape)),
        )

    @pytest.mark.rule("R-tensor_scalar-02", "reject")
    @pytest.mark.parametrize("dtype", [nl.bfloat16, nl.int32])
    def test_operand_dtype(self, dtype):
        rejects(
            "R-tensor_scalar-02",
            lambda a: nisa.tensor_scalar(tile((8, 8)), tile((8, 8)), op0=nl.add, operand0=tile((8, 1), dtype)),
        )

    @pytest.mark.rule("R-tensor_scalar-03", "reject")
    def test_mixed_kinds(self):
        rejects(
            "R-tensor_scalar-03",
            lambda a: nisa.tensor_scalar(
                tile((8, 8), nl.int32),
                tile((8, 8), nl.int32),
                op0=nl.add,
                operand0=1,
                op1=nl.bitwise_and,
                operand1=1,
            ),
        )

    @pytest.mark.rule("R-tensor_scalar-03", "reject")
    @pytest.mark.parametrize(
        ("op", "instead"),
        [
            (nl.exp, "nisa.activation computes nl.exp"),
            (nl.divide, "nisa.reciprocal"),
            (nl.copy, "nisa.activation"),
            (np.add, "write nl.add, not NumPy's"),
            (np.max, "write nl.maximum, not NumPy's"),
        ],
    )
    def test_operators_it_does_not_take(self, op, instead):
        found = rejects(
            "R-tensor_scalar-03", lambda a: nisa.tensor_scalar(tile((8, 8)), tile((8, 8)), op0=op, operand0=1.0)
        )
        assert str(found.hint).startswith(("multiply by", "nisa.", "write")) and instead in str(found.hint)

    @pytest.mark.rule("R-tensor_scalar-04", "reject")
    @pytest.mark.parametrize(
        ("data", "operand", "engine"),
        [(nl.float32, 1, VECTOR), (nl.int32, 1.5, VECTOR), (nl.int32, 1, SCALAR), (nl.int32, 1, GPSIMD)],
    )
    def test_bits_of_other_things(self, data, operand, engine):
        found = rejects(
            "R-tensor_scalar-04",
            lambda a: nisa.tensor_scalar(
                tile((8, 8), nl.int32), tile((8, 8), data), op0=nl.bitwise_or, operand0=operand, engine=engine
            ),
        )
        assert data is nl.int32 or "data.view(nl.int32)" in str(found.hint)

    @pytest.mark.rule("R-tensor_scalar-05", "reject")
    @pytest.mark.parametrize(
        ("arguments", "target"),
        [
            ({"op0": nl.subtract, "operand0": 1.0}, "trn2"),
            ({"op0": nl.add, "operand0": 1.0, "op1": nl.multiply, "operand1": 1.0}, "trn2"),
            ({"op0": nl.multiply, "operand0": 1.0}, "trn1"),
        ],
    )
    def test_what_the_scalar_engine_lacks(self, arguments, target):
        rejects(
            "R-tensor_scalar-05",
            lambda a: nisa.tensor_scalar(tile((8, 8)), tile((8, 8)), engine=SCALAR, **arguments),
            target=target,
        )

    @pytest.mark.rule("R-tensor_scalar-06", "reject")
    @pytest.mark.parametrize(("op", "engine"), [(nl.add, GPSIMD), (nl.rsqrt, VECTOR), (nl.add, nisa.engine.tensor)])
    def test_engines(self, op, engine):
        rejects(
            "R-tensor_scalar-06",
            lambda a: nisa.tensor_scalar(tile((8, 8)), tile((8, 8)), op0=op, operand0=0, engine=engine),
        )

    @pytest.mark.rule("R-tensor_scalar-07", "reject")
    @pytest.mark.parametrize("arguments", [{"op1": nl.add}, {"operand1": 1.0}, {"op1": nl.abs, "operand1": 2.0}])
    def test_second_operator_and_operand(self, arguments):
        rejects(
            "R-tensor_scalar-07",
            lambda a: nisa.tensor_scalar(tile((8, 8)), tile((8, 8)), op0=nl.add, operand0=1.0, **arguments),
        )

    @pytest.mark.rule("R-tensor_scalar-08", "reject")
    @pytest.mark.parametrize(("op", "operand"), [(nl.abs, 1.0), (nl.rsqrt, 2), (nl.add, None)])
    def test_operand_of_unary(self, op, operand):
        rejects(
            "R-tensor_scalar-08", lambda a: nisa.tensor_scalar(tile((8, 8)), tile((8, 8)), op0=op, operand0=operand)
        )

    @pytest.mark.rule("R-tensor_scalar-09", "reject")
    def test_shapes(self):
        rejects("R-tensor_scalar-09", lambda a: nisa.tensor_scalar(tile((8, 9)), tile((8, 8)), nl.add, 1.0))

    @covers("accept", "R-engine-14")
    @pytest.mark.parametrize(("op", "oracle"), [(nl.square, np.square), (nl.relu, lambda x: np.maximum(x, 0))])
    def test_square_and_relu_of_the_newest_generation(self, op, oracle):
        x = randoms(16, 8)
        found = on_tiles(scaled(op0=op, operand0=0), x, target="trn3")
        np.testing.assert_array_equal(found, oracle(x))

    @covers("reject", "R-engine-14")
    @pytest.mark.parametrize("op", [nl.square, nl.relu])
    def test_square_and_relu_earlier(self, op):
        rejects("R-engine-14", lambda a: nisa.tensor_scalar(tile((8, 8)), tile((8, 8)), op0=op, operand0=0))

    @settings(max_examples=25, deadline=None)
    @given(
        st.sampled_from(["add", "subtract", "multiply", "maximum", "minimum", "less"]),
        st.sampled_from(["add", "subtract", "multiply", "maximum", "minimum", "greater"]),
        st.booleans(),
        st.booleans(),
        st.floats(-4, 4, width=32),
    )
    def test_any_pair_of_operators(self, op0, op1, reverse0, reverse1, number):
        x, column = randoms(8, 12), randoms(8, 1, seed=1)

        def body(a, c):
            dst = empty(a)
            nisa.tensor_scalar(dst, a, getattr(nl, op0), c, reverse0, getattr(nl, op1), number, reverse1)
            return dst

        def step(op, x, y, reverse):
            return getattr(np, op)(*((y, x) if reverse else (x, y))).astype(np.float32)

        expected = step(op1, step(op0, x, column, reverse0), np.float32(number), reverse1)
        np.testing.assert_array_equal(on_tiles(body, x, column), expected)


class TestScalarTensorTensor:
    @covers("accept", *(f"R-scalar_tensor_tensor-0{i}" for i in (1, 2, 3)))
    @pytest.mark.parametrize("memories", [(nl.sbuf, nl.sbuf), (nl.sbuf, nl.psum), (nl.psum, nl.sbuf)])
    @pytest.mark.parametrize("dtype", [np.float32, bf16])
    @pytest.mark.parametrize("reverse0", [False, True])
    @pytest.mark.parametrize("reverse1", [False, True])
    def test_values(self, memories, dtype, reverse0, reverse1):
        x, y = randoms(16, 4, 3, dtype=dtype), randoms(16, 12, dtype=dtype, seed=1)

        def body(a, b):
            dst = empty(a, np.float32)
            nisa.scalar_tensor_tensor(dst, a, nl.subtract, 0.5, nl.subtract, b, reverse0, reverse1)
            return dst

        wide_x, wide_y = x.astype(np.float32).reshape(16, 12), y.astype(np.float32)
        step = np.float32(0.5) - wide_x if reverse0 else wide_x - np.float32(0.5)
        expected = wide_y - step if reverse1 else step - wide_y
        np.testing.assert_array_equal(on_tiles(body, x, y, memories=memories).reshape(16, 12), expected)

    def test_column_and_unary(self):
        x, y, column = randoms(16, 8), randoms(16, 8, seed=1), randoms(16, 1, seed=2)

        def body(a, b, c):
            dst = empty(a)
            nisa.scalar_tensor_tensor(dst=dst, data=a, op0=nl.multiply, operand0=c, op1=nl.add, operand1=b)
            nisa.scalar_tensor_tensor(dst=dst, data=dst, op0=nl.abs, operand0=None, op1=nl.maximum, operand1=b)
            return dst

        np.testing.assert_array_equal(on_tiles(body, x, y, column), np.maximum(np.abs(x * column + y), y))

    @pytest.mark.rule("R-scalar_tensor_tensor-01", "reject")
    @pytest.mark.parametrize(
        ("op0", "op1"), [(nl.bitwise_and, nl.add), (nl.add, nl.bitwise_or), (nl.add, nl.abs), (nl.exp, nl.add)]
    )
    def test_operators(self, op0, op1):
        rejects(
            "R-scalar_tensor_tensor-01",
            lambda a: nisa.scalar_tensor_tensor(
                tile((8, 8), nl.int32), tile((8, 8), nl.int32), op0, 1, op1, tile((8, 8), nl.int32)
            ),
        )

    @pytest.mark.rule("R-scalar_tensor_tensor-02", "reject")
    def test_both_in_psum(self):
        rejects(
            "R-scalar_tensor_tensor-02",
            lambda a: nisa.scalar_tensor_tensor(
                tile((8, 8)), tile((8, 8), buffer=nl.psum), nl.add, 1.0, nl.add, tile((8, 8), buffer=nl.psum)
            ),
        )

    @pytest.mark.rule("R-scalar_tensor_tensor-03", "reject")
    @pytest.mark.parametrize("shapes", [((8, 9), (8, 1)), ((4, 8), (8, 1)), ((8, 8), (8, 2))])
    def test_shapes(self, shapes):
        rejects(
            "R-scalar_tensor_tensor-03",
            lambda a: nisa.scalar_tensor_tensor(
                tile((8, 8)), tile((8, 8)), nl.add, tile(shapes[1]), nl.add, tile(shapes[0])
            ),
        )
