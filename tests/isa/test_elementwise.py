"""tensor_copy, memset, tensor_copy_predicated, tensor_tensor, reciprocal, and the rules of all compute engines."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.isa.compute import FLOATS, SHAPES, bf16, codes, covers, empty, f8, on_tiles, randoms, wide
from tests.kit import accepts, full_run, nisa, nl, np, rejects, tile
from tilewright.errors import TileError
from tilewright.rules import Reporter
from tilewright.target import get_target
from tilewright.tile.alu import BINARY_ARITHMETIC
from tilewright.tile.memory import SBUF, Buffer
from tilewright.tile.record import TABLE
from tilewright.tile.verdict import Verifier
from tilewright.tile.view import whole

VECTOR, SCALAR, GPSIMD = nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd


def copied(engine=nisa.engine.unknown, dtype=None, memory=nl.sbuf):
    def body(a):
        dst = empty(a, dtype, memory)
        nisa.tensor_copy(dst, a, engine=engine)
        return dst

    return body


class TestTensorCopy:
    @covers("accept", "R-tensor_copy-01", "R-tensor_copy-02", "R-tensor_copy-07")
    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("engine", [nisa.engine.unknown, VECTOR, SCALAR, GPSIMD])
    def test_copies(self, shape, engine):
        x = randoms(*shape)
        np.testing.assert_array_equal(on_tiles(copied(engine), x), x)

    @pytest.mark.rule("R-tensor_copy-06", "holds")
    @pytest.mark.parametrize("dtype", [np.float32, bf16, f8, np.uint32, np.int16, np.uint8])
    def test_equal_dtypes_keep_every_bit(self, dtype):
        itemsize = np.dtype(dtype).itemsize
        bits = np.random.default_rng(0).integers(0, 256, (64, 32 * itemsize)).astype(np.uint8)
        x = bits.view(dtype)
        for engine in (VECTOR, GPSIMD):
            assert on_tiles(copied(engine), x).tobytes() == x.tobytes()

    @pytest.mark.rule("R-tensor_copy-06", "holds")
    @pytest.mark.parametrize(
        ("given", "wanted"), [(np.float32, bf16), (bf16, np.float32), (np.float32, np.int8), (np.int32, np.float16)]
    )
    def test_other_dtypes_go_through_float32(self, given, wanted):
        x = (randoms(8, 16) * 50).astype(given)
        if np.dtype(wanted).kind == "i":
            expected = np.clip(np.rint(x), -128, 127)
        else:
            expected = x.astype(np.float32).astype(wanted)
        np.testing.assert_array_equal(on_tiles(copied(dtype=wanted), x), expected.astype(wanted))

    def test_large_integers_that_change_warn(self):
        x = np.full((4, 4), 2**24 + 1, np.int32)
        assert codes(copied(dtype=np.float32), x) == ["W102"]
        assert codes(copied(), x) == []
        assert codes(copied(dtype=np.float32), x - 1) == []

    @pytest.mark.parametrize("memories", [(nl.sbuf, nl.psum), (nl.psum, nl.sbuf), (nl.psum, nl.psum)])
    def test_between_memories(self, memories):
        x = randoms(64, 32)
        found = on_tiles(copied(memory=memories[1]), x, memories=memories[:1])
        np.testing.assert_array_equal(found, x)

    @pytest.mark.rule("R-tensor_copy-01", "reject")
    def test_hbm_is_refused(self):
        rejects("R-tensor_copy-01", lambda a: nisa.tensor_copy(tile((8, 8)), a), randoms(8, 8))

    @pytest.mark.rule("R-tensor_copy-02", "reject")
    def test_other_number_of_elements(self):
        found = rejects("R-tensor_copy-02", lambda a: nisa.tensor_copy(tile((8, 8)), tile((8, 9))))
        assert "dst has 8 elements per partition, but src has 9" in found.message

    @pytest.mark.rule("R-tensor_copy-03", "accept")
    def test_gpsimd_in_sbuf(self):
        accepts(lambda a: nisa.tensor_copy(tile((8, 8)), tile((8, 8)), engine=GPSIMD))

    @pytest.mark.rule("R-tensor_copy-03", "reject")
    @pytest.mark.parametrize("buffers", [(nl.psum, nl.sbuf), (nl.sbuf, nl.psum)])
    def test_gpsimd_and_psum(self, buffers):
        rejects(
            "R-tensor_copy-03",
            lambda a: nisa.tensor_copy(tile((8, 8), buffer=buffers[0]), tile((8, 8), buffer=buffers[1]), engine=GPSIMD),
        )

    @pytest.mark.rule("R-tensor_copy-04", "accept")
    @pytest.mark.parametrize("target", ["trn2", "trn3"])
    def test_scalar_engine(self, target):
        accepts(lambda a: nisa.tensor_copy(tile((8, 8)), tile((8, 8)), engine=SCALAR), target=target)

    @pytest.mark.rule("R-tensor_copy-04", "reject")
    def test_scalar_engine_of_the_first_generation(self):
        found = rejects(
            "R-tensor_copy-04",
            lambda a: nisa.tensor_copy(tile((8, 8)), tile((8, 8)), engine=SCALAR),
            target="trn1",
        )
        assert "nl.copy" in (found.hint or "")

    @pytest.mark.rule("R-tensor_copy-07", "reject")
    def test_no_other_engine(self):
        rejects("R-tensor_copy-07", lambda a: nisa.tensor_copy(tile((8, 8)), tile((8, 8)), engine=nisa.engine.tensor))

    def test_unwritten_elements_flow_on(self):
        def kernel(a):
            half = nl.ndarray((4, 8), dtype=nl.float32)
            nisa.memset(half[:, 0:4], value=1.0)
            moved = nl.ndarray((4, 8), dtype=nl.float32)
            nisa.tensor_copy(moved, half)
            out = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)
            nisa.dma_copy(out, moved[:, 0:4])
            return out

        np.testing.assert_array_equal(accepts(kernel), np.ones((4, 4)))

    def test_overlapping_copy(self):
        def shifted(a):
            nisa.tensor_copy(a[:, 1:8], a[:, 0:7])
            return a

        with pytest.raises(TileError, match="R-engine-16"):
            on_tiles(shifted, randoms(4, 8))


class TestMemset:
    @pytest.mark.parametrize(
        ("dtype", "value"),
        [
            (nl.float32, 1.5),
            (nl.bfloat16, -3),
            (nl.float16, np.inf),
            (nl.int32, 2**31 - 1),
            (nl.uint8, 255),
            (nl.float8_e4m3, 0.3),
            (nl.int32, np.int64(7)),
            (nl.float32, np.float32(0.1)),
        ],
    )
    @covers("accept", "R-memset-01")
    def test_values(self, dtype, value):
        def body(a):
            made = nl.ndarray((16, 3, 5), dtype=dtype)
            nisa.memset(made, value)
            return made

        found = on_tiles(body, randoms(1, 1))
        np.testing.assert_array_equal(found, np.full((16, 3, 5), value).astype(found.dtype))

    @pytest.mark.parametrize("engine", [nisa.engine.unknown, VECTOR, GPSIMD])
    @covers("accept", "R-memset-03")
    def test_engines(self, engine):
        accepts(lambda a: nisa.memset(nl.ndarray((8, 8), dtype=nl.float32), value=0, engine=engine))

    @pytest.mark.rule("R-memset-01", "reject")
    @pytest.mark.parametrize("dtype", [nl.int32, nl.uint8, nl.bool_])
    def test_float_into_integers(self, dtype):
        rejects("R-memset-01", lambda a: nisa.memset(nl.ndarray((8, 8), dtype=dtype), value=2.0))

    @pytest.mark.rule("R-memset-04", "accept")
    @pytest.mark.rule("R-memset-04", "reject")
    @pytest.mark.parametrize("profile", ["strict", "lenient"])
    def test_zero_into_integers(self, profile):
        def kernel(value):
            made, out = nl.ndarray((8, 8), dtype=nl.uint32), nl.ndarray((8, 8), nl.uint32, nl.shared_hbm)
            nisa.memset(made, value)
            nisa.dma_copy(out, made)
            return out

        assert not full_run(kernel, 0, profile=profile).diagnostics
        done = full_run(kernel, 0.0, profile=profile)
        assert [(found.rule, found.severity) for found in done.diagnostics] == [("R-memset-04", "warning")]
        assert not done.result.any()

    @pytest.mark.rule("R-memset-02", "accept")
    @pytest.mark.parametrize("dtype", [nl.float8_e4m3fn_x4, nl.float8_e5m2_x4, nl.float4_e2m1fn_x4])
    def test_zero_into_packed(self, dtype):
        accepts(lambda a: nisa.memset(nl.ndarray((8, 8), dtype=dtype), value=0), target="trn3")

    @pytest.mark.rule("R-memset-02", "reject")
    def test_one_into_packed(self):
        rejects(
            "R-memset-02",
            lambda a: nisa.memset(nl.ndarray((8, 8), dtype=nl.float8_e4m3fn_x4), value=1),
            target="trn3",
        )

    @pytest.mark.rule("R-memset-03", "reject")
    @pytest.mark.parametrize(("engine", "buffer"), [(SCALAR, nl.sbuf), (GPSIMD, nl.psum), (nisa.engine.dma, nl.sbuf)])
    def test_other_engines(self, engine, buffer):
        rejects(
            "R-memset-03",
            lambda a: nisa.memset(nl.ndarray((8, 8), dtype=nl.float32, buffer=buffer), value=0, engine=engine),
        )

    def test_missing_value_shows_the_signature(self):
        with pytest.raises(TypeError, match="value"):
            full_run(lambda a: nisa.memset(nl.ndarray((8, 8), dtype=nl.float32)))


class TestTensorCopyPredicated:
    @covers("accept", *(f"R-tensor_copy_predicated-0{i}" for i in (1, 2, 3, 4)))
    @pytest.mark.parametrize("dtype", [np.float32, bf16, np.int32])
    @pytest.mark.parametrize("mask_dtype", [np.uint8, np.uint16, np.uint32])
    @pytest.mark.parametrize("reverse", [False, True])
    def test_chooses(self, dtype, mask_dtype, reverse):
        a, b = randoms(16, 12, dtype=dtype), randoms(16, 12, dtype=dtype, seed=1)
        mask = (np.random.default_rng(2).integers(0, 3, (16, 12))).astype(mask_dtype)

        def body(dst, src, predicate):
            nisa.tensor_copy_predicated(dst, src, predicate, reverse_pred=reverse)
            return dst

        expected = np.where((mask != 0) != reverse, b, a)
        np.testing.assert_array_equal(on_tiles(body, a, b, mask), expected)

    def test_number_and_ranks(self):
        a, mask = randoms(8, 4, 3), np.eye(8, 12, dtype=np.uint8)

        def body(dst, predicate):
            nisa.tensor_copy_predicated(dst, 2.5, predicate)
            return dst

        expected = np.where(mask.reshape(8, 4, 3) != 0, np.float32(2.5), a)
        np.testing.assert_array_equal(on_tiles(body, a, mask), expected)

    def test_unwritten_destination_and_source(self):
        def kernel(a):
            dst, src = nl.ndarray((4, 8), dtype=nl.float32), nl.ndarray((4, 8), dtype=nl.float32)
            nisa.memset(dst[:, 0:4], value=1.0)
            nisa.memset(src[:, 4:8], value=2.0)
            mask = tile((4, 8), nl.uint8, value=1)
            nisa.memset(mask[:, 0:4], value=0)
            nisa.tensor_copy_predicated(dst, src, mask)
            out = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)
            nisa.dma_copy(out, dst)
            return out

        np.testing.assert_array_equal(accepts(kernel)[0], [1, 1, 1, 1, 2, 2, 2, 2])

    def test_what_stays_unwritten_is_found(self):
        def kernel(a):
            dst = nl.ndarray((4, 8), dtype=nl.float32)
            mask = tile((4, 8), nl.uint8, value=1)
            nisa.memset(mask[:, 0:4], value=0)
            nisa.tensor_copy_predicated(dst, 3.0, mask)
            out = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)
            nisa.dma_copy(out, dst)
            return out

        rejects("R-tensor-18", kernel)

    def test_unwritten_predicate(self):
        rejects(
            "R-tensor-08",
            lambda a: nisa.tensor_copy_predicated(tile((4, 4)), 1.0, nl.ndarray((4, 4), dtype=nl.uint8)),
        )

    @pytest.mark.rule("R-tensor_copy_predicated-01", "reject")
    def test_both_in_psum(self):
        rejects(
            "R-tensor_copy_predicated-01",
            lambda a: nisa.tensor_copy_predicated(
                tile((4, 4)), tile((4, 4), buffer=nl.psum), tile((4, 4), nl.uint32, buffer=nl.psum)
            ),
        )

    @pytest.mark.rule("R-tensor_copy_predicated-02", "reject")
    def test_shapes(self):
        rejects(
            "R-tensor_copy_predicated-02",
            lambda a: nisa.tensor_copy_predicated(tile((4, 4)), tile((4, 4)), tile((4, 5), nl.uint8)),
        )

    @pytest.mark.rule("R-tensor_copy_predicated-03", "reject")
    @pytest.mark.parametrize("dtype", [nl.float32, nl.int32, nl.int8])
    def test_predicate_dtype(self, dtype):
        rejects(
            "R-tensor_copy_predicated-03",
            lambda a: nisa.tensor_copy_predicated(tile((4, 4)), tile((4, 4)), tile((4, 4), dtype)),
        )

    @pytest.mark.rule("R-tensor_copy_predicated-04", "reject")
    def test_dtypes_differ(self):
        rejects(
            "R-tensor_copy_predicated-04",
            lambda a: nisa.tensor_copy_predicated(tile((4, 4)), tile((4, 4), nl.bfloat16), tile((4, 4), nl.uint8)),
        )


def combined(op, dtype=None, memory=nl.sbuf, engine=nisa.engine.unknown):
    def body(a, b):
        dst = empty(a, dtype, memory)
        nisa.tensor_tensor(dst, a, b, op=op, engine=engine)
        return dst

    return body


ORACLES = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater_equal": np.greater_equal,
    "greater": np.greater,
    "less_equal": np.less_equal,
    "less": np.less,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "power": lambda a, b: np.abs(a) ** b,
}


class TestTensorTensor:
    @covers("accept", "R-tensor_tensor-01", "R-tensor_tensor-03", "R-tensor_tensor-04")
    @covers("holds", "R-engine-12")
    @pytest.mark.parametrize("op", ORACLES)
    @pytest.mark.parametrize("dtype", [np.float32, bf16])
    def test_operators_compute_in_float32(self, op, dtype):
        a, b = randoms(32, 24, dtype=dtype), randoms(32, 24, dtype=dtype, seed=1)
        a = np.abs(a) if op == "power" else a
        b[:, ::3] = a[:, ::3]
        found = on_tiles(combined(getattr(nl, op), np.float32), a, b)
        with np.errstate(over="ignore"):
            expected = ORACLES[op](wide(a), wide(b))
        np.testing.assert_allclose(found, expected.astype(np.float32), rtol=3e-7 if op == "power" else 0)

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("dtypes", [(np.float32, bf16, np.float16), (f8, np.float32, bf16), (np.uint8, bf16, bf16)])
    def test_mixed_dtypes_round_once(self, shape, dtypes):
        a, b = randoms(*shape, dtype=dtypes[0]), randoms(*shape, dtype=dtypes[1], seed=1)
        expected = (a.astype(np.float32) * b.astype(np.float32)).astype(dtypes[2])
        np.testing.assert_array_equal(on_tiles(combined(nl.multiply, dtypes[2]), a, b), expected)

    def test_every_binary_operator_but_the_newest_is_tried(self):
        assert set(BINARY_ARITHMETIC) - set(ORACLES) == {"abs_max", "abs_min"}

    @pytest.mark.rule("R-tensor_tensor-06", "accept")
    def test_integers_are_exact_on_gpsimd(self):
        rng = np.random.default_rng(0)
        a, b = (rng.integers(-(2**31), 2**31, (64, 16)).astype(np.int32) for _ in range(2))
        for op, function in ((nl.add, np.add), (nl.subtract, np.subtract), (nl.multiply, np.multiply)):
            run = full_run(_int_kernel(op), a, b)
            np.testing.assert_array_equal(run.result, function(a, b))
            assert ("gpsimd", "tensor_tensor") in [key[:2] for key in run.session.counts.executed]
            assert not run.diagnostics
        assert (on_tiles(combined(nl.greater), a, b) == (a > b)).all()
        np.testing.assert_array_equal(on_tiles(combined(nl.maximum), a, b), np.maximum(a, b))

    def test_unsigned_integers(self):
        a = np.array([[2**32 - 1, 5]], np.uint32)
        b = np.array([[1, 7]], np.uint32)
        np.testing.assert_array_equal(on_tiles(combined(nl.add), a, b), a + b)
        np.testing.assert_array_equal(on_tiles(combined(nl.subtract), a, b), a - b)

    @pytest.mark.rule("R-tensor_tensor-06", "accept")
    def test_integers_on_vector_are_float32(self):
        a, b = np.full((4, 4), 2**24, np.int32), np.ones((4, 4), np.int32)
        for engine, memory in ((VECTOR, nl.sbuf), (nisa.engine.unknown, nl.psum)):
            found = on_tiles(combined(nl.add, memory=memory, engine=engine), a, b)
            np.testing.assert_array_equal(found, np.full((4, 4), 2**24))
        assert codes(combined(nl.add, engine=VECTOR), a + 2, b) == ["W102"]
        assert codes(combined(nl.add, engine=VECTOR), b, b) == []

    @pytest.mark.rule("R-tensor_tensor-05", "accept")
    @pytest.mark.rule("R-engine-11", "accept")
    @pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int16, np.uint8])
    def test_bit_patterns(self, dtype):
        rng = np.random.default_rng(0)
        info = np.iinfo(dtype)
        a, b = (rng.integers(info.min, info.max, (16, 8), dtype=dtype, endpoint=True) for _ in range(2))
        for op, function in (
            (nl.bitwise_and, np.bitwise_and),
            (nl.bitwise_or, np.bitwise_or),
            (nl.bitwise_xor, np.bitwise_xor),
        ):
            np.testing.assert_array_equal(on_tiles(combined(op), a, b), function(a, b))

    def test_shifts_are_logical(self):
        a = np.array([[-8, 8, 1, 1]], np.int32)
        b = np.array([[1, 1, 31, 40]], np.int32)
        right = on_tiles(combined(nl.right_shift), a, b)
        left = on_tiles(combined(nl.left_shift), a, b)
        np.testing.assert_array_equal(right, [[0x7FFFFFFC, 4, 0, 0]])
        np.testing.assert_array_equal(left, [[-16, 16, -(2**31), 0]])

    @pytest.mark.rule("R-tensor_tensor-01", "reject")
    @pytest.mark.parametrize("shapes", [((8, 4), (4, 4), (8, 4)), ((8, 4), (8, 5), (8, 4)), ((8, 4), (8, 4), (8, 5))])
    def test_shapes(self, shapes):
        rejects(
            "R-tensor_tensor-01",
            lambda a: nisa.tensor_tensor(tile(shapes[2]), tile(shapes[0]), tile(shapes[1]), op=nl.add),
        )

    @covers("accept", "R-tensor_tensor-02", "R-engine-01")
    @covers("reject", "R-tensor_tensor-02", "R-engine-01")
    @pytest.mark.req("S3-15")
    @pytest.mark.parametrize("first", [nl.sbuf, nl.psum])
    @pytest.mark.parametrize("second", [nl.sbuf, nl.psum])
    @pytest.mark.parametrize("engine", [nisa.engine.unknown, VECTOR, GPSIMD])
    def test_psum_truth_table(self, first, second, engine):
        """One operand may be in PSUM, not both; GpSimd reaches none."""

        def kernel(a):
            nisa.tensor_tensor(
                tile((8, 8)), tile((8, 8), buffer=first), tile((8, 8), buffer=second), op=nl.add, engine=engine
            )

        if first is nl.psum and second is nl.psum:
            rejects("R-tensor_tensor-02", kernel)
        elif engine is GPSIMD and nl.psum in (first, second):
            rejects("R-engine-01", kernel)
        else:
            accepts(kernel)

    @pytest.mark.rule("R-tensor_tensor-03", "reject")
    @pytest.mark.parametrize("place", range(3))
    def test_power_and_psum(self, place):
        buffers = [nl.psum if i == place else nl.sbuf for i in range(3)]
        rejects(
            "R-tensor_tensor-03",
            lambda a: nisa.tensor_tensor(*[tile((8, 8), buffer=b) for b in buffers], op=nl.power),
        )

    @pytest.mark.rule("R-tensor_tensor-04", "reject")
    @pytest.mark.parametrize("op", [nl.abs, nl.exp, nl.divide, nl.bypass, nl.invert])
    def test_operators_it_does_not_take(self, op):
        rejects("R-tensor_tensor-04", lambda a: nisa.tensor_tensor(tile((8, 8)), tile((8, 8)), tile((8, 8)), op=op))

    @covers("reject", "R-tensor_tensor-05")
    @pytest.mark.parametrize("dtypes", [(nl.float32, nl.int32), (nl.int32, nl.float32)])
    def test_bits_of_floats(self, dtypes):
        rejects(
            "R-tensor_tensor-05",
            lambda a: nisa.tensor_tensor(
                tile((8, 8), dtypes[1]), tile((8, 8), dtypes[0]), tile((8, 8), nl.int32), op=nl.bitwise_and
            ),
        )

    @pytest.mark.rule("R-tensor_tensor-06", "reject")
    @pytest.mark.parametrize(("op", "engine"), [(nl.add, SCALAR), (nl.add, nisa.engine.tensor), (nl.power, VECTOR)])
    def test_engines_it_does_not_take(self, op, engine):
        rejects(
            "R-tensor_tensor-06",
            lambda a: nisa.tensor_tensor(tile((8, 8)), tile((8, 8)), tile((8, 8)), op=op, engine=engine),
        )

    @settings(max_examples=25, deadline=None)
    @given(st.integers(1, 128), st.lists(st.integers(1, 6), min_size=1, max_size=4), st.sampled_from(FLOATS))
    def test_any_shape(self, partitions, free, dtype):
        a, b = randoms(partitions, *free, dtype=dtype), randoms(partitions, *free, dtype=dtype, seed=1)
        expected = (a.astype(np.float32) + b.astype(np.float32)).astype(dtype)
        np.testing.assert_array_equal(on_tiles(combined(nl.add), a, b), expected)

    def test_strided_broadcast_and_in_place(self):
        x = randoms(16, 12)

        def body(a):
            nisa.tensor_tensor(a[:, 0:12:2], a[:, 0:12:2], a[:, 1:12:2], op=nl.subtract)
            return a

        expected = x.copy()
        expected[:, 0::2] -= x[:, 1::2]
        np.testing.assert_array_equal(on_tiles(body, x), expected)


def _int_kernel(op):
    def kernel(a, b):
        tiles = []
        for array in (a, b):
            made = nl.ndarray(array.shape, dtype=array.dtype)
            nisa.dma_copy(made, array)
            tiles.append(made)
        nisa.tensor_tensor(tiles[0], *tiles, op=op)
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tiles[0])
        return out

    return kernel


class TestReciprocal:
    @covers("accept", "R-reciprocal-01", "R-reciprocal-02")
    @pytest.mark.parametrize("dtype", [np.float32, bf16, np.int32])
    @pytest.mark.parametrize("memory", [nl.sbuf, nl.psum])
    def test_values(self, dtype, memory):
        x = np.arange(1, 129, dtype=np.float32).reshape(16, 8).astype(dtype)

        def body(a):
            dst = empty(a, np.float32)
            nisa.reciprocal(dst, a)
            return dst

        found = on_tiles(body, x, memories=(memory,))
        np.testing.assert_allclose(found, 1 / wide(x), rtol=1e-7)

    @pytest.mark.rule("R-reciprocal-01", "reject")
    def test_shapes(self):
        rejects("R-reciprocal-01", lambda a: nisa.reciprocal(tile((8, 8)), tile((8, 9))))

    @pytest.mark.rule("R-reciprocal-02", "reject")
    def test_hbm(self):
        rejects("R-reciprocal-02", lambda a: nisa.reciprocal(tile((8, 8)), a), randoms(8, 8))


class TestAllComputeEngines:
    @pytest.mark.rule("R-engine-04", "accept")
    def test_all_partitions(self):
        accepts(lambda a: nisa.tensor_copy(tile((128, 8)), tile((128, 8))))

    @pytest.mark.rule("R-engine-04", "reject")
    def test_more_partitions_than_there_are(self):
        # No kernel can allocate such a tile; IR text can.
        reporter = Reporter(collect=True)
        operands = [whole(Buffer(nl.float32, (129, 4), SBUF)) for _ in range(2)]
        Verifier(get_target("trn2"), reporter).check(TABLE["reciprocal"], operands, {}, None)
        assert "R-engine-04" in {each.rule for each in reporter.diagnostics}

    @pytest.mark.rule("R-engine-05", "accept")
    def test_equal_partitions(self):
        accepts(lambda a: nisa.tensor_copy(tile((32, 8))[0:32, :], tile((64, 8))[32:64, :]))

    @pytest.mark.rule("R-engine-05", "reject")
    def test_other_partitions(self):
        rejects("R-engine-05", lambda a: nisa.tensor_copy(tile((32, 8)), tile((64, 8))))

    @pytest.mark.rule("R-engine-07", "accept")
    def test_widest_tiles(self):
        accepts(lambda a: nisa.tensor_copy(tile((1, 4, 16384), nl.uint8), tile((1, 65536), nl.uint8)))

    @pytest.mark.rule("R-engine-07", "accept")
    def test_psum_broadcast_beyond_what_it_holds(self):
        accepts(
            lambda a: nisa.tensor_copy(
                tile((4, 320, 24)), tile((4, 320), buffer=nl.psum).ap([[320, 4], [1, 320], [0, 24]])
            )
        )
        wide = [[320, 4], [1, 320], [0, 205]]
        rejects(
            "R-engine-07",
            lambda a: nisa.tensor_copy(nl.ndarray((4, 320, 205), nl.uint8), tile((4, 320), buffer=nl.psum).ap(wide)),
        )

    @pytest.mark.rule("R-engine-07", "reject")
    def test_too_wide(self):
        rejects("R-engine-07", lambda a: nisa.memset(nl.ndarray((1, 65537), dtype=nl.uint8), value=0))

    @pytest.mark.req("S0-19")
    @pytest.mark.rule("R-engine-08", "accept")
    @pytest.mark.parametrize(
        "pattern",
        [
            [[65536, 1], [4096, 16], [1, 4096]],  # merges into one dim
            [[65536, 1], [32767, 2], [1, 8]],
            [[65536, 1], [60000, 1], [1, 8]],  # one step only
            [[65536, 1], [4096, 2], [512, 2], [64, 2], [8, 2]],
        ],
    )
    def test_steps_that_fit(self, pattern):
        accepts(lambda a: nisa.tensor_copy(tile((1, 65536), nl.uint8).ap(pattern), _source(pattern)))

    @pytest.mark.req("S0-19")
    @pytest.mark.rule("R-engine-08", "reject")
    def test_steps_too_far(self):
        pattern = [[65536, 1], [32768, 2], [1, 8]]
        found = rejects(
            "R-engine-08", lambda a: nisa.tensor_copy(tile((1, 65536), nl.uint8).ap(pattern), tile((1, 16)))
        )
        assert "32768" in found.message

    @pytest.mark.rule("R-engine-11", "reject")
    def test_bits_of_floats_over_partitions(self):
        rejects("R-engine-11", lambda a: nisa.tensor_partition_reduce(tile((1, 8)), nl.bitwise_or, tile((8, 8))))

    @pytest.mark.rule("R-engine-13", "accept")
    @pytest.mark.parametrize("op", [nl.abs_max, nl.abs_min])
    def test_magnitude_operators_of_the_newest_generation(self, op):
        a, b = np.array([[-5.0, 1.0]], np.float32), np.array([[3.0, -1.0]], np.float32)
        found = on_tiles(combined(op), a, b, target="trn3")
        np.testing.assert_array_equal(found, [[-5, -1]] if op is nl.abs_max else [[3, -1]])

    @pytest.mark.rule("R-engine-13", "reject")
    @pytest.mark.parametrize("op", [nl.abs_max, nl.abs_min])
    def test_magnitude_operators_earlier(self, op):
        rejects("R-engine-13", lambda a: nisa.tensor_tensor(tile((8, 8)), tile((8, 8)), tile((8, 8)), op=op))

    @pytest.mark.parametrize(("stand_in", "rule"), [("vector", "R-jit-13"), (nisa.engine.vector.value, "R-jit-11")])
    def test_a_name_or_a_number_is_no_engine(self, stand_in, rule):
        def kernel(a):
            nisa.tensor_copy(tile((8, 8)), tile((8, 8)), engine=stand_in)

        for _ in range(2):
            assert [each.rule for each in full_run(kernel, profile="lenient").diagnostics] == [rule]


def _source(pattern):
    count = 1
    for _, size in pattern[1:]:
        count *= size
    return tile((1, count), nl.uint8)
