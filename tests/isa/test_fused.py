"""select_reduce, exponential and activate2."""

from __future__ import annotations

import pytest

from tests.isa.compute import bf16, covers, empty, f8, kernel_of, on_tiles, randoms, wide
from tests.kit import accepts, full_run, nisa, nl, np, rejects, tile

IDLE, RESET, REDUCE, RESET_REDUCE, LOAD = (
    nisa.reduce_cmd.idle,
    nisa.reduce_cmd.reset,
    nisa.reduce_cmd.reduce,
    nisa.reduce_cmd.reset_reduce,
    nisa.reduce_cmd.load_reduce,
)


def predicates(*shape, dtype=np.uint8, seed=5):
    return np.random.default_rng(seed).integers(0, 2, shape).astype(dtype)


class TestSelectReduce:
    @covers("accept", *(f"R-select_reduce-0{i}" for i in (1, 2, 3, 4)))
    @pytest.mark.parametrize("dtype", [np.float32, bf16, f8, np.int16])
    @pytest.mark.parametrize("mask_dtype", [np.uint8, np.int8, np.uint16, np.int16])
    @pytest.mark.parametrize("reverse", [False, True])
    def test_selects(self, dtype, mask_dtype, reverse):
        x, mask = randoms(16, 12, dtype=dtype), predicates(16, 3, 4, dtype=mask_dtype)

        def body(a, m):
            dst = empty(a, np.float32)
            nisa.select_reduce(dst, m, a, -7.0, reverse_pred=reverse)
            return dst

        expected = np.where((mask.reshape(16, 12) != 0) != reverse, wide(x), -7.0)
        np.testing.assert_array_equal(on_tiles(body, x, mask), expected)

    @pytest.mark.parametrize("memories", [(nl.psum, nl.sbuf, nl.sbuf), (nl.sbuf, nl.psum, nl.sbuf)])
    def test_column_and_maximum(self, memories):
        x, mask, column = randoms(16, 8), predicates(16, 8), randoms(16, 1, seed=1)

        def body(a, m, c):
            dst, res = empty(a), empty(a, shape=(16, 1))
            nisa.select_reduce(dst, m, a, c, res, RESET_REDUCE, nl.maximum)
            return dst, res

        dst, res = on_tiles(body, x, mask, column, memories=memories)
        expected = np.where(mask != 0, x, column)
        np.testing.assert_array_equal(dst, expected)
        np.testing.assert_array_equal(res, expected.max(axis=1, keepdims=True))

    def test_chain(self):
        x, mask = randoms(16, 8), predicates(16, 8)

        def body(a, m):
            dst, res = empty(a), empty(a, shape=(16, 1))
            nisa.select_reduce(dst[:, 0:4], m[:, 0:4], a[:, 0:4], -9.0, reduce_cmd=RESET_REDUCE)
            nisa.select_reduce(dst[:, 4:8], m[:, 4:8], a[:, 4:8], -9.0, res, REDUCE)
            return res

        expected = np.where(mask != 0, x, np.float32(-9)).max(axis=1, keepdims=True)
        np.testing.assert_array_equal(on_tiles(body, x, mask), expected)

    def test_unwritten_elements_that_are_not_selected(self):
        def kernel(a):
            src = nl.ndarray((4, 8), dtype=nl.float32)
            nisa.memset(src[:, 0:4], value=2.0)
            mask = tile((4, 8), nl.uint8, value=1)
            nisa.memset(mask[:, 4:8], value=0)
            dst = nl.ndarray((4, 8), dtype=nl.float32)
            nisa.select_reduce(dst, mask, src, 5.0)
            out = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)
            nisa.dma_copy(out, dst)
            return out

        np.testing.assert_array_equal(accepts(kernel)[0], [2, 2, 2, 2, 5, 5, 5, 5])

    @pytest.mark.rule("R-select_reduce-01", "reject")
    def test_both_in_psum(self):
        rejects(
            "R-select_reduce-01",
            lambda a: nisa.select_reduce(
                tile((8, 8)), tile((8, 8), nl.uint16, buffer=nl.psum), tile((8, 8), buffer=nl.psum), 0.0
            ),
        )

    @pytest.mark.rule("R-select_reduce-02", "reject")
    @pytest.mark.parametrize(("mask", "other"), [((8, 9), (8, 1)), ((8, 8), (8, 8)), ((4, 8), (8, 1))])
    def test_shapes(self, mask, other):
        rejects(
            "R-select_reduce-02",
            lambda a: nisa.select_reduce(tile((8, 8)), tile(mask, nl.uint8), tile((8, 8)), tile(other)),
        )

    @pytest.mark.rule("R-select_reduce-03", "reject")
    @pytest.mark.parametrize(
        ("data", "mask", "reduced"),
        [
            (nl.int32, nl.uint8, nl.float32),
            (nl.tfloat32, nl.uint8, nl.float32),
            (nl.float32, nl.uint32, nl.float32),
            (nl.float32, nl.float32, nl.float32),
            (nl.float32, nl.uint8, nl.int32),
        ],
    )
    def test_dtypes(self, data, mask, reduced):
        rejects(
            "R-select_reduce-03",
            lambda a: nisa.select_reduce(
                tile((8, 8)), tile((8, 8), mask), tile((8, 8), data), 0.0, tile((8, 1), reduced), RESET_REDUCE
            ),
        )

    @pytest.mark.rule("R-select_reduce-04", "reject")
    @pytest.mark.parametrize(
        "arguments",
        [{"reduce_op": nl.add}, {"reduce_cmd": LOAD}, {"reduce_cmd": RESET}, {"reduce_res": True, "reduce_cmd": IDLE}],
    )
    def test_commands(self, arguments):
        def kernel(a):
            given = dict(arguments)
            if "reduce_res" in given:
                given["reduce_res"] = tile((8, 1))
            nisa.select_reduce(tile((8, 8)), tile((8, 8), nl.uint8), tile((8, 8)), 0.0, **given)

        rejects("R-select_reduce-04", kernel)

    @pytest.mark.rule("R-tensor_scalar_cumulative-05", "reject")
    def test_an_idle_instruction_spoils_the_registers(self):
        def kernel(a):
            t, m = tile((8, 8)), tile((8, 8), nl.uint8)
            nisa.select_reduce(t, m, t, 0.0, reduce_cmd=RESET_REDUCE)
            nisa.select_reduce(t, m, t, 0.0)
            nisa.select_reduce(t, m, t, 0.0, reduce_cmd=REDUCE)

        rejects("R-tensor_scalar_cumulative-05", kernel)


class TestExponential:
    @covers("accept", *(f"R-exponential-0{i}" for i in (1, 2, 4, 5)))
    @pytest.mark.parametrize("dtypes", [(np.float32, bf16), (bf16, np.float32), (np.int8, np.float32), (f8, f8)])
    def test_values(self, dtypes):
        x, top = randoms(16, 3, 4, dtype=dtypes[0]).clip(-3, 3), randoms(16, 1, seed=1)

        def body(a, m):
            dst = empty(a, dtypes[1])
            nisa.exponential(dst, a, m)
            return dst

        x = x.astype(dtypes[0])
        found = on_tiles(body, x, top, target="trn3")
        expected = np.exp(wide(x).reshape(16, 12) - top)
        np.testing.assert_allclose(
            found.astype(np.float64).reshape(16, 12), expected, rtol=0.07 if dtypes[1] is f8 else 2**-8
        )

    @covers("accept", "R-exponential-03", "R-exponential-06")
    @pytest.mark.parametrize("start", [None, 2.5])
    def test_softmax_sum_over_pieces(self, start):
        x = randoms(16, 12)

        def body(a):
            dst, res = empty(a), empty(a, shape=(16, 1))
            first = {"reduce_cmd": RESET_REDUCE} if start is None else {"reduce_cmd": LOAD, "reduce_init": start}
            nisa.exponential(dst[:, 0:6], a[:, 0:6], 1.0, **first)
            nisa.exponential(dst[:, 6:12], a[:, 6:12], 1.0, res, REDUCE)
            return dst, res

        dst, res = on_tiles(body, x, target="trn3")
        expected = np.exp(wide(x) - 1)
        np.testing.assert_allclose(dst, expected, rtol=1e-6)
        np.testing.assert_allclose(res, expected.sum(axis=1, keepdims=True) + (start or 0), rtol=1e-6)

    @pytest.mark.rule("R-exponential-01", "reject")
    @pytest.mark.parametrize("target", ["trn1", "trn2"])
    def test_generation(self, target):
        rejects("R-exponential-01", lambda a: nisa.exponential(tile((8, 8)), tile((8, 8))), target=target)

    @pytest.mark.rule("R-exponential-02", "reject")
    @pytest.mark.parametrize("shapes", [((8, 8), (8, 9)), ((8, 1, 2, 2, 2), (8, 8))])
    def test_shapes(self, shapes):
        rejects("R-exponential-02", lambda a: nisa.exponential(tile(shapes[0]), tile(shapes[1])), target="trn3")

    @pytest.mark.rule("R-exponential-03", "reject")
    @pytest.mark.parametrize("arguments", [{"reduce_init": 1.0}, {"reduce_cmd": RESET}])
    def test_initial(self, arguments):
        rejects("R-exponential-03", lambda a: nisa.exponential(tile((8, 8)), tile((8, 8)), **arguments), target="trn3")

    @pytest.mark.rule("R-exponential-04", "reject")
    @pytest.mark.parametrize(
        ("dst", "src", "top"),
        [
            (nl.uint32, nl.float32, nl.float32),
            (nl.float32, nl.tfloat32, nl.float32),
            (nl.float32, nl.float32, nl.bfloat16),
        ],
    )
    def test_dtypes(self, dst, src, top):
        rejects(
            "R-exponential-04",
            lambda a: nisa.exponential(tile((8, 8), dst), tile((8, 8), src), tile((8, 1), top)),
            target="trn3",
        )

    @pytest.mark.rule("R-exponential-05", "reject")
    @pytest.mark.parametrize("shapes", [((8, 2), (8, 1)), ((8, 1), (8, 2))])
    def test_vectors(self, shapes):
        rejects(
            "R-exponential-05",
            lambda a: nisa.exponential(tile((8, 8)), tile((8, 8)), tile(shapes[0]), tile(shapes[1]), RESET_REDUCE),
            target="trn3",
        )

    @pytest.mark.rule("R-exponential-06", "reject")
    def test_after_idle(self):
        def kernel(a):
            t = tile((8, 8))
            nisa.exponential(t, t, reduce_cmd=RESET_REDUCE)
            nisa.exponential(t, t)
            nisa.exponential(t, t, reduce_cmd=REDUCE)

        rejects("R-exponential-06", kernel, target="trn3")
        rejects(
            "R-exponential-06", lambda a: nisa.exponential(tile((8, 8)), tile((8, 8)), 0.0, tile((8, 1))), target="trn3"
        )


def activated2(op, op0, imm0, op1, imm1, dtype=None, **arguments):
    def body(a):
        dst = empty(a, dtype)
        nisa.activate2(dst, op, a, imm0, imm1, op0, op1, **arguments)
        return dst

    return body


class TestActivate2:
    @covers("accept", *(f"R-activate2-0{i}" for i in (1, 2, 3, 4, 6, 7)))
    @pytest.mark.parametrize(
        ("op0", "op1", "reverse0", "reverse1", "oracle"),
        [
            (nl.multiply, nl.add, False, False, lambda x: x * 2 + 0.5),
            (nl.multiply, nl.subtract, False, False, lambda x: x * 2 - 0.5),
            (nl.multiply, nl.subtract, False, True, lambda x: 0.5 - x * 2),
            (nl.multiply, nl.bypass, False, False, lambda x: x * 2),
            (nl.add, nl.bypass, False, False, lambda x: x + 2),
            (nl.subtract, nl.bypass, False, False, lambda x: x - 2),
            (nl.subtract, nl.bypass, True, False, lambda x: 2 - x),
            (nl.bypass, nl.bypass, False, False, lambda x: x),
        ],
    )
    @pytest.mark.parametrize("dtype", [np.float32, bf16])
    def test_combinations(self, op0, op1, reverse0, reverse1, oracle, dtype):
        x = randoms(16, 2, 6, dtype=dtype)
        body = activated2(nl.tanh, op0, 2.0, op1, 0.5, np.float32, reverse0=reverse0, reverse1=reverse1)
        np.testing.assert_allclose(on_tiles(body, x, target="trn3"), np.tanh(oracle(wide(x))), rtol=1e-5, atol=1e-6)

    def test_vectors(self):
        x, scale, bias = randoms(16, 8), randoms(16, 1, seed=1), randoms(16, 1, seed=2)

        def body(a, b, c):
            dst = empty(a)
            nisa.activate2(dst, nl.copy, a, b, c, nl.multiply, nl.add)
            return dst

        np.testing.assert_array_equal(on_tiles(body, x, scale, bias, target="trn3"), x * scale + bias)

    @pytest.mark.parametrize("slope", [0.0, 0.25])
    def test_prelu(self, slope):
        x = randoms(16, 8)
        body = activated2(nl.prelu, nl.bypass, None, nl.bypass, None, relu_param=slope)
        expected = np.where(x < 0, x * np.float32(slope), x)
        np.testing.assert_array_equal(on_tiles(body, x, target="trn3"), expected)

    @covers("accept", "R-activate2-05")
    @pytest.mark.parametrize("op", ["add", "maximum", "minimum", "abs_max", "abs_min"])
    def test_reductions(self, op):
        x = randoms(16, 12)

        def body(a):
            dst, res = empty(a), empty(a, shape=(16, 1))
            for i, command in enumerate((RESET_REDUCE, REDUCE, REDUCE)):
                part = slice(4 * i, 4 * i + 4)
                nisa.activate2(
                    dst[:, part],
                    nl.copy,
                    a[:, part],
                    2.0,
                    0.0,
                    nl.multiply,
                    nl.bypass,
                    reduce_op=getattr(nl, op),
                    reduce_res=res if i == 2 else None,
                    reduce_cmd=command,
                )
            return res

        y = wide(x) * 2
        place = {"abs_max": np.abs(y).argmax(axis=1), "abs_min": np.abs(y).argmin(axis=1)}.get(op)
        if place is not None:
            expected = np.take_along_axis(y, place[:, None], axis=1)
        else:
            expected = getattr(np, op).reduce(y, axis=1, keepdims=True)
        np.testing.assert_allclose(on_tiles(body, x, target="trn3"), expected, rtol=1e-5, atol=1e-6)

    def test_range_is_checked(self):
        body = activated2(nl.sin, nl.multiply, 3.0, nl.bypass, 0.0)
        found = full_run(kernel_of(body), np.full((2, 2), 3.0, np.float32), target="trn3").diagnostics
        assert [each.rule for each in found] == ["R-engine-09"]

    @pytest.mark.rule("R-activate2-01", "reject")
    @pytest.mark.parametrize("target", ["trn1", "trn2"])
    def test_generation(self, target):
        rejects(
            "R-activate2-01",
            lambda a: nisa.activate2(tile((8, 8)), nl.exp, tile((8, 8)), 1.0, 1.0, nl.multiply, nl.add),
            target=target,
        )

    @pytest.mark.rule("R-activate2-02", "reject")
    @pytest.mark.parametrize(("op0", "op1"), [(nl.add, nl.add), (nl.subtract, nl.multiply), (nl.maximum, nl.bypass)])
    def test_other_combinations(self, op0, op1):
        rejects(
            "R-activate2-02",
            lambda a: nisa.activate2(tile((8, 8)), nl.exp, tile((8, 8)), 1.0, 1.0, op0, op1),
            target="trn3",
        )

    @pytest.mark.rule("R-activate2-03", "reject")
    def test_immediates_of_two_dtypes(self):
        rejects(
            "R-activate2-03",
            lambda a: nisa.activate2(
                tile((8, 8)), nl.exp, tile((8, 8)), tile((8, 1)), tile((8, 1), nl.bfloat16), nl.multiply, nl.add
            ),
            target="trn3",
        )

    @pytest.mark.rule("R-activate2-04", "reject")
    @pytest.mark.parametrize(
        ("op0", "op1", "arguments"),
        [
            (nl.bypass, nl.add, {}),
            (nl.bypass, nl.bypass, {"reverse0": True}),
            (nl.multiply, nl.bypass, {"reverse1": True}),
        ],
    )
    def test_order_of_operators(self, op0, op1, arguments):
        rejects(
            "R-activate2-04",
            lambda a: nisa.activate2(tile((8, 8)), nl.exp, tile((8, 8)), 1.0, 1.0, op0, op1, **arguments),
            target="trn3",
        )

    @pytest.mark.rule("R-activate2-05", "reject")
    @pytest.mark.parametrize(("op", "command"), [(nl.multiply, RESET_REDUCE), (None, REDUCE), (nl.add, LOAD)])
    def test_reduction_operators(self, op, command):
        rejects(
            "R-activate2-05",
            lambda a: nisa.activate2(
                tile((8, 8)), nl.exp, tile((8, 8)), 1.0, 1.0, nl.multiply, nl.add, reduce_op=op, reduce_cmd=command
            ),
            target="trn3",
        )

    @pytest.mark.rule("R-activate2-06", "reject")
    @pytest.mark.parametrize(("dst", "imm"), [((8, 9), (8, 1)), ((8, 8), (8, 2))])
    def test_shapes(self, dst, imm):
        rejects(
            "R-activate2-06",
            lambda a: nisa.activate2(tile(dst), nl.exp, tile((8, 8)), tile(imm), 1.0, nl.multiply, nl.add),
            target="trn3",
        )

    @pytest.mark.rule("R-activate2-07", "reject")
    def test_hbm(self):
        rejects(
            "R-activate2-07",
            lambda a: nisa.activate2(tile((8, 8)), nl.exp, a, 1.0, 1.0, nl.multiply, nl.add),
            randoms(8, 8),
            target="trn3",
        )
