"""tensor_tensor_scan and tensor_scalar_cumulative."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.isa.compute import bf16, covers, empty, f8, on_tiles, randoms
from tests.kit import nisa, nl, np, rejects, tile

RESET, REDUCE, LOAD = nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.reduce, nisa.reduce_cmd.load_reduce


def scan(x, y, start, op0, op1, reverse0=False, reverse1=False):
    """The documented loop, in float32."""
    x, y = x.astype(np.float32).reshape(len(x), -1), y.astype(np.float32).reshape(len(y), -1)
    last = np.broadcast_to(np.asarray(start, np.float32).reshape(-1), (len(x),))
    out = np.empty_like(x)
    for i in range(x.shape[1]):
        a, b = (last, x[:, i]) if reverse0 else (x[:, i], last)
        step = getattr(np, op0)(a, b).astype(np.float32)
        a, b = (y[:, i], step) if reverse1 else (step, y[:, i])
        last = out[:, i] = getattr(np, op1)(a, b).astype(np.float32)
    return out


def scanned(op0, op1, start=0.0, dtype: Any = np.float32, **arguments):
    def body(a, b, *column):
        dst = empty(a, dtype)
        nisa.tensor_tensor_scan(
            dst, a, b, column[0] if column else start, getattr(nl, op0), getattr(nl, op1), **arguments
        )
        return dst

    return body


class TestTensorTensorScan:
    @covers("accept", *(f"R-tensor_tensor_scan-0{i}" for i in (1, 2, 3, 4)))
    @pytest.mark.parametrize("dtype", [np.float32, bf16])
    @pytest.mark.parametrize("memories", [(nl.sbuf, nl.sbuf), (nl.psum, nl.sbuf), (nl.sbuf, nl.psum)])
    def test_multiply_add(self, dtype, memories):
        x, y = randoms(32, 40, dtype=dtype), randoms(32, 40, dtype=dtype, seed=1)
        found = on_tiles(scanned("multiply", "add", 0.5), x, y, memories=memories)
        np.testing.assert_array_equal(found, scan(x, y, 0.5, "multiply", "add"))

    @settings(max_examples=30, deadline=None)
    @given(
        st.sampled_from(["add", "subtract", "multiply", "maximum", "minimum", "less", "logical_or"]),
        st.sampled_from(["add", "subtract", "multiply", "maximum", "minimum", "greater", "logical_and"]),
        st.booleans(),
        st.booleans(),
        st.integers(1, 17),
    )
    def test_any_operators(self, op0, op1, reverse0, reverse1, width):
        x, y, start = randoms(8, width), randoms(8, width, seed=1), randoms(8, 1, seed=2)
        body = scanned(op0, op1, reverse0=reverse0, reverse1=reverse1)
        np.testing.assert_array_equal(on_tiles(body, x, y, start), scan(x, y, start, op0, op1, reverse0, reverse1))

    @pytest.mark.parametrize("op1", ["add", "multiply", "maximum", "minimum"])
    def test_running_reductions_are_the_loop_bit_for_bit(self, op1):
        x, y = np.ones((16, 100), np.float32), randoms(16, 100) * 1.1
        np.testing.assert_array_equal(on_tiles(scanned("multiply", op1, 0.3), x, y), scan(x, y, 0.3, "multiply", op1))

    def test_pieces_continue_each_other_bit_for_bit(self):
        x, y = randoms(16, 24), randoms(16, 24, seed=1)

        def body(a, b):
            dst = empty(a)
            for i in range(3):
                part = slice(8 * i, 8 * i + 8)
                start = 0.0 if i == 0 else dst[:, 8 * i - 1 : 8 * i]
                nisa.tensor_tensor_scan(dst[:, part], a[:, part], b[:, part], start, op0=nl.multiply, op1=nl.add)
            return dst

        np.testing.assert_array_equal(on_tiles(body, x, y), scan(x, y, 0.0, "multiply", "add"))

    def test_free_dims_are_flattened_and_rounded_at_the_end(self):
        x, y = randoms(8, 3, 4, dtype=f8), randoms(8, 12, seed=1)
        found = on_tiles(scanned("multiply", "add", 1.0, bf16), x, y)
        np.testing.assert_array_equal(found.reshape(8, 12), scan(x, y, 1.0, "multiply", "add").astype(bf16))

    @pytest.mark.rule("R-tensor_tensor_scan-01", "reject")
    @pytest.mark.parametrize("shapes", [((8, 4), (8, 5)), ((8, 4), (4, 4))])
    def test_shapes(self, shapes):
        rejects(
            "R-tensor_tensor_scan-01",
            lambda a: nisa.tensor_tensor_scan(tile((8, 4)), tile(shapes[0]), tile(shapes[1]), 0.0, nl.multiply, nl.add),
        )

    @pytest.mark.rule("R-tensor_tensor_scan-02", "reject")
    def test_both_in_psum(self):
        rejects(
            "R-tensor_tensor_scan-02",
            lambda a: nisa.tensor_tensor_scan(
                tile((8, 4)), tile((8, 4), buffer=nl.psum), tile((8, 4), buffer=nl.psum), 0.0, nl.multiply, nl.add
            ),
        )

    @pytest.mark.rule("R-tensor_tensor_scan-03", "reject")
    @pytest.mark.parametrize(("op0", "op1"), [(nl.bitwise_and, nl.add), (nl.multiply, nl.abs), (nl.exp, nl.add)])
    def test_operators(self, op0, op1):
        rejects(
            "R-tensor_tensor_scan-03",
            lambda a: nisa.tensor_tensor_scan(tile((8, 4)), tile((8, 4)), tile((8, 4)), 0.0, op0, op1),
        )

    @pytest.mark.rule("R-tensor_tensor_scan-04", "reject")
    @pytest.mark.parametrize("shape", [(8, 2), (4, 1)])
    def test_initial(self, shape):
        rejects(
            "R-tensor_tensor_scan-04",
            lambda a: nisa.tensor_tensor_scan(
                tile((8, 4)), tile((8, 4)), tile((8, 4)), tile(shape), nl.multiply, nl.add
            ),
        )

    def test_unwritten_elements_are_found(self):
        rejects(
            "R-tensor-08",
            lambda a: nisa.tensor_tensor_scan(
                tile((8, 4)), nl.ndarray((8, 4), dtype=nl.float32), tile((8, 4)), 0.0, nl.multiply, nl.add
            ),
        )


def cumulative(x, start, op0, op1, operand):
    x = getattr(np, op0)(x.astype(np.float32).reshape(len(x), -1), operand).astype(np.float32)
    last = np.broadcast_to(np.asarray(start, np.float32).reshape(-1), (len(x),))
    out = np.empty_like(x)
    for i in range(x.shape[1]):
        last = out[:, i] = getattr(np, op1)(x[:, i], last)
    return out


STARTS = {"add": 0, "subtract": 0, "multiply": 1, "maximum": -np.inf, "minimum": np.inf}


class TestTensorScalarCumulative:
    @covers("accept", *(f"R-tensor_scalar_cumulative-0{i}" for i in (1, 2, 3, 4)))
    @pytest.mark.parametrize("op1", STARTS)
    @pytest.mark.parametrize("dtype", [np.float32, bf16, np.int16, f8])
    def test_operators(self, op1, dtype):
        x = randoms(8, 3, 4, dtype=dtype)

        def body(a):
            dst = empty(a, np.float32)
            nisa.tensor_scalar_cumulative(dst, a, nl.multiply, getattr(nl, op1), 0.5)
            return dst

        expected = cumulative(x, STARTS[op1], "multiply", op1, np.float32(0.5))
        np.testing.assert_array_equal(on_tiles(body, x).reshape(8, 12), expected)

    @covers("accept", "R-tensor_scalar_cumulative-05")
    @pytest.mark.parametrize("op1", STARTS)
    def test_chain(self, op1):
        x, column = randoms(8, 12), randoms(8, 1, seed=1)

        def body(a, c):
            dst = empty(a)
            for i, command in enumerate((RESET, REDUCE, REDUCE)):
                part = slice(4 * i, 4 * i + 4)
                nisa.tensor_scalar_cumulative(dst[:, part], a[:, part], nl.add, getattr(nl, op1), c, reduce_cmd=command)
            return dst

        np.testing.assert_array_equal(on_tiles(body, x, column), cumulative(x, STARTS[op1], "add", op1, column))

    def test_load(self):
        x, start = randoms(8, 6), randoms(8, 1, seed=1)

        def body(a, c):
            dst = empty(a)
            nisa.tensor_scalar_cumulative(dst, a, nl.add, nl.add, 0.0, c, LOAD)
            return dst

        np.testing.assert_array_equal(on_tiles(body, x, start), cumulative(x, start, "add", "add", np.float32(0)))

    @pytest.mark.rule("R-tensor_scalar_cumulative-01", "reject")
    @pytest.mark.parametrize(("op0", "op1"), [(nl.bitwise_and, nl.add), (nl.add, nl.logical_and), (nl.add, nl.power)])
    def test_operators_it_does_not_take(self, op0, op1):
        rejects(
            "R-tensor_scalar_cumulative-01",
            lambda a: nisa.tensor_scalar_cumulative(tile((8, 4)), tile((8, 4)), op0, op1, 1.0),
        )

    @pytest.mark.rule("R-tensor_scalar_cumulative-02", "reject")
    @pytest.mark.parametrize("dtypes", [(nl.int32, nl.float32), (nl.float32, nl.uint32)])
    def test_dtypes(self, dtypes):
        rejects(
            "R-tensor_scalar_cumulative-02",
            lambda a: nisa.tensor_scalar_cumulative(
                tile((8, 4), dtypes[0]), tile((8, 4), dtypes[1]), nl.add, nl.add, 1.0
            ),
        )

    @pytest.mark.rule("R-tensor_scalar_cumulative-03", "reject")
    @pytest.mark.parametrize(("shape", "dtype"), [((8, 1), nl.bfloat16), ((8, 2), nl.float32)])
    def test_immediates(self, shape, dtype):
        rejects(
            "R-tensor_scalar_cumulative-03",
            lambda a: nisa.tensor_scalar_cumulative(tile((8, 4)), tile((8, 4)), nl.add, nl.add, tile(shape, dtype)),
        )

    @pytest.mark.rule("R-tensor_scalar_cumulative-04", "reject")
    @pytest.mark.parametrize("command", [nisa.reduce_cmd.idle, nisa.reduce_cmd.reset, LOAD])
    def test_commands(self, command):
        rejects(
            "R-tensor_scalar_cumulative-04",
            lambda a: nisa.tensor_scalar_cumulative(
                tile((8, 4)), tile((8, 4)), nl.add, nl.add, 0.0, reduce_cmd=command
            ),
        )

    @pytest.mark.rule("R-tensor_scalar_cumulative-05", "reject")
    def test_nothing_to_continue(self):
        rejects(
            "R-tensor_scalar_cumulative-05",
            lambda a: nisa.tensor_scalar_cumulative(tile((8, 4)), tile((8, 4)), nl.add, nl.add, 0.0, reduce_cmd=REDUCE),
        )
