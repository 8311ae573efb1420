"""iota, affine_select and range_select."""

from __future__ import annotations

import itertools

import ml_dtypes
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit import accepts, full_run, nisa, nl, np, rejects, run, tile
from tilewright.rules import Reporter
from tilewright.sim.session import Session
from tilewright.target import get_target
from tilewright.tile.costed import op_cost
from tilewright.tile.memory import SBUF, Buffer
from tilewright.tile.record import TABLE, Call
from tilewright.tile.verdict import Verifier
from tilewright.tile.view import whole

FP32_MIN = float(np.finfo(np.float32).min)


def returned(made):
    """Inside a kernel: an HBM copy of a tile, to return."""
    out = nl.ndarray(made.shape, dtype=made.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, made)
    return out


def loaded(array, dtype=None):
    """Inside a kernel: an SBUF copy of an argument."""
    made = nl.ndarray(array.shape, dtype=dtype or array.dtype, buffer=nl.sbuf)
    nisa.dma_copy(made, array)
    return made


def brute_pattern(partitions, pattern, offset, multiplier):
    rows = []
    for channel in range(partitions):
        values = [
            offset + channel * multiplier + sum(i * step for i, (step, _) in zip(index, pattern, strict=True))
            for index in itertools.product(*(range(count) for _, count in pattern))
        ]
        rows.append(values)
    return np.array(rows, np.int64)


# iota


def make_iota(shape, pattern, dtype=nl.int32, **arguments):
    def kernel(x):
        made = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
        nisa.iota(made, pattern, **arguments)
        return returned(made)

    return kernel


@pytest.mark.parametrize(
    ("shape", "pattern", "offset", "multiplier"),
    [
        ((1, 512), [[1, 512]], 0, 0),
        ((128, 1), [[0, 1]], 5, 2),
        ((128, 16), [[1, 16]], 0, 1),
        ((1, 16), [[-1, 16]], 0, 0),
        ((64, 24), [[0, 2], [10, 3], [1, 4]], -7, 100),
        ((32, 2, 3, 4), [[1000, 2], [100, 3], [10, 2], [1, 2]], 3, -1),
        ((3, 6), [[4, 6]], 0, 0),
    ],
)
@pytest.mark.parametrize("dtype", [nl.int32, nl.float32, nl.bfloat16])
def test_iota_is_the_affine_pattern(shape, pattern, offset, multiplier, dtype):
    got = run(make_iota(shape, pattern, dtype, offset=offset, channel_multiplier=multiplier))
    want = brute_pattern(shape[0], pattern, offset, multiplier).reshape(shape).astype(np.float32).astype(dtype.np)
    np.testing.assert_array_equal(got, want)


@settings(max_examples=40, deadline=None)
@given(
    partitions=st.integers(1, 32),
    pattern=st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 4)), min_size=1, max_size=4),
    offset=st.integers(-1000, 1000),
    multiplier=st.integers(-50, 50),
)
def test_iota_of_any_pattern(partitions, pattern, offset, multiplier):
    want = brute_pattern(partitions, pattern, offset, multiplier)
    got = run(make_iota(want.shape, [list(p) for p in pattern], offset=offset, channel_multiplier=multiplier))
    np.testing.assert_array_equal(got, want)


@pytest.mark.rule("R-iota-05", "holds")
def test_iota_wraps_in_32_bits():
    got = run(make_iota((1, 3), [[1, 3]], offset=2**31 - 2))
    np.testing.assert_array_equal(got, [[2**31 - 2, 2**31 - 1, -(2**31)]])


@pytest.mark.rule("R-iota-01", "accept")
@pytest.mark.rule("R-iota-02", "accept")
@pytest.mark.rule("R-iota-03", "accept")
@pytest.mark.rule("R-iota-04", "accept")
@pytest.mark.rule("R-iota-05", "accept")
def test_iota_accepts_what_it_documents():
    accepts(make_iota((128, 16), [[8, 2], [4, 2], [2, 2], [1, 2]], offset=-(2**31), channel_multiplier=2**31 - 1))
    accepts(make_iota((1, 1), []))


@pytest.mark.rule("R-iota-01", "reject")
def test_iota_into_psum():
    def kernel(x):
        nisa.iota(nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.psum), [[1, 4]])

    rejects("R-iota-01", kernel)


@pytest.mark.parametrize(
    ("rule", "pattern", "arguments"),
    [
        pytest.param("R-iota-02", [[1, 1]] * 4 + [[1, 4]], {}, marks=pytest.mark.rule("R-iota-02", "reject")),
        pytest.param("R-iota-03", [[1, 5]], {}, marks=pytest.mark.rule("R-iota-03", "reject")),
        pytest.param("R-iota-03", [[1, -2], [1, -2]], {}, marks=pytest.mark.rule("R-iota-03", "reject")),
        pytest.param("R-iota-05", [[1, 4]], {"offset": 2**31}, marks=pytest.mark.rule("R-iota-05", "reject")),
        pytest.param("R-iota-05", [[1, 4]], {"offset": 0.5}, marks=pytest.mark.rule("R-iota-05", "reject")),
        pytest.param(
            "R-iota-05", [[1, 4]], {"channel_multiplier": -(2**31) - 1}, marks=pytest.mark.rule("R-iota-05", "reject")
        ),
    ],
)
def test_iota_rejects(rule, pattern, arguments):
    rejects(rule, make_iota((8, 4), pattern, **arguments))


@pytest.mark.rule("R-iota-04", "reject")
def test_iota_over_too_many_partitions():
    # No kernel can allocate such a tile; IR text can.
    reporter = Reporter(collect=True)
    operands = [whole(Buffer(nl.int32, (129, 4), SBUF))]
    attrs = {"pattern": ((1, 4),), "offset": 0, "channel_multiplier": 0}
    Verifier(get_target("trn2"), reporter).check(TABLE["iota"], operands, attrs, None)
    assert "R-iota-04" in {each.rule for each in reporter.diagnostics}


# affine_select

COMPARE = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}


def make_affine(shape, pattern, multiplier, fill, cmp, offset, dtype_in, dtype_out):
    def kernel(x):
        source = loaded(x.reshape(shape), dtype_in)
        made = nl.ndarray(shape, dtype=dtype_out, buffer=nl.sbuf)
        nisa.affine_select(made, pattern, multiplier, source, fill, cmp_op=getattr(nl, cmp), offset=offset)
        return returned(made)

    return kernel


@pytest.mark.parametrize("cmp", sorted(COMPARE))
@pytest.mark.parametrize(
    ("shape", "pattern"), [((128, 64), [[-1, 64]]), ((40, 2, 3, 4), [[1, 2], [5, 12]]), ((8, 16), [[1, 2]] * 4)]
)
def test_affine_select_compares_the_pattern_with_zero(cmp, shape, pattern):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    got = run(make_affine(shape, pattern, 2, -1.5, cmp, -7, nl.float32, nl.float32), x)
    predicate = COMPARE[cmp](brute_pattern(shape[0], pattern, -7, 2), 0).reshape(shape)
    np.testing.assert_array_equal(got, np.where(predicate, x, np.float32(-1.5)))


@pytest.mark.parametrize("dtype_in", [nl.float32, nl.bfloat16, nl.float16, nl.int32])
@pytest.mark.parametrize("dtype_out", [nl.float32, nl.bfloat16, nl.float8_e4m3, nl.int32])
def test_affine_select_casts_through_float32(dtype_in, dtype_out):
    x = (np.arange(32 * 16).reshape(32, 16) * 3).astype(dtype_in.np)
    got = run(make_affine((32, 16), [[-1, 16]], 1, 2.5, "greater_equal", 0, dtype_in, dtype_out), x)
    kept = np.tril(np.ones((32, 16), bool))
    want = np.where(kept, x.astype(np.float32), np.float32(2.5))
    want = np.rint(want).astype(np.int32) if dtype_out == "int32" else want.astype(dtype_out.np)
    np.testing.assert_array_equal(got, want)


def test_affine_select_keeps_int32_exact():
    x = np.full((4, 4), 2**24 + 1, np.int32)
    got = run(make_affine((4, 4), [[1, 4]], 0, 7.0, "greater", 0, nl.int32, nl.int32), x)
    np.testing.assert_array_equal(got, np.where(np.arange(4) > 0, x, 7))


def test_affine_select_fill_becomes_infinity_in_bfloat16():
    x = np.zeros((2, 4), ml_dtypes.bfloat16)
    got = run(make_affine((2, 4), [[1, 4]], 0, FP32_MIN, "less", 0, nl.bfloat16, nl.bfloat16), x)
    assert np.isneginf(got.astype(np.float32)).all()


def test_affine_select_defines_what_it_fills():
    def kernel(x):
        part = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(part[:, 0:4], x)
        nisa.affine_select(part, [[1, 8]], 0, part, 0.0, cmp_op=nl.less, offset=-4)
        return returned(part)

    got = run(kernel, np.ones((8, 4), np.float32))
    np.testing.assert_array_equal(got, np.repeat([[1, 0]], 4, axis=1).repeat(8, axis=0))


def test_affine_select_passes_unwritten_elements_on():
    def kernel(x):
        made = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.affine_select(made, [[1, 8]], 0, nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.sbuf), 0.0, nl.less, -4)
        return returned(made)

    rejects("R-tensor-18", kernel)


@pytest.mark.rule("R-affine_select-01", "accept")
@pytest.mark.rule("R-affine_select-02", "accept")
@pytest.mark.rule("R-affine_select-03", "accept")
@pytest.mark.rule("R-affine_select-04", "accept")
def test_affine_select_accepts_what_it_documents():
    x = np.zeros((128, 16), np.float32)
    for fill in (0, 1.5, float("-inf"), FP32_MIN, np.float32(3)):
        accepts(make_affine((128, 16), [[-1, 16]], 1, fill, "equal", 4, nl.float32, nl.float32), x)


def affine_call(make_dst=None, make_source=None, **changes):
    def kernel(x):
        made = make_dst() if make_dst else nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.sbuf)
        given = {"pattern": [[1, 4]], "channel_multiplier": 0, "on_true_tile": tile((8, 4)), "on_false_value": 0.0}
        if make_source:
            given["on_true_tile"] = make_source()
        nisa.affine_select(made, **{**given, **changes})

    return kernel


@pytest.mark.parametrize(
    ("rule", "kernel"),
    [
        ("R-affine_select-01", affine_call(make_dst=lambda: nl.ndarray((8, 4), nl.float32, buffer=nl.psum))),
        ("R-affine_select-01", affine_call(make_source=lambda: tile((8, 4), buffer=nl.psum))),
        ("R-affine_select-02", affine_call(on_false_value=1e39)),
        ("R-affine_select-02", affine_call(on_false_value="zero")),
        ("R-affine_select-03", affine_call(make_source=lambda: tile((4, 4)))),
        ("R-affine_select-03", affine_call(make_source=lambda: tile((8, 5)))),
        ("R-affine_select-03", affine_call(pattern=[[1, 5]])),
        ("R-affine_select-03", affine_call(pattern=[[1, 1]] * 4 + [[1, 4]])),
    ],
)
@pytest.mark.rule("R-affine_select-01", "reject")
@pytest.mark.rule("R-affine_select-02", "reject")
@pytest.mark.rule("R-affine_select-03", "reject")
def test_affine_select_rejects(rule, kernel):
    rejects(rule, kernel)


@pytest.mark.rule("R-affine_select-02", "reject")
def test_affine_select_fill_is_no_tensor():
    def kernel(x):
        source = tile((8, 4))
        nisa.affine_select(source, [[1, 4]], 0, source, source)

    rejects("R-affine_select-02", kernel)


@pytest.mark.rule("R-affine_select-04", "reject")
def test_affine_select_in_the_old_order_of_arguments():
    def kernel(x):
        source = tile((8, 4))
        nisa.affine_select(source, [[1, 4]], 0, -1, source, 0.0)

    assert "offset" in str(rejects("R-affine_select-04", kernel).hint)


# range_select


def make_range(shape, op0, op1, start, dtype_out=nl.float32, dtype_res=nl.float32, psum=False):
    def kernel(x, low, high):
        source = loaded(x)
        if psum:
            copied = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
            nisa.tensor_copy(copied, source)
            source = copied
        made = nl.ndarray(shape, dtype=dtype_out, buffer=nl.sbuf)
        largest = nl.ndarray((shape[0], 1), dtype=dtype_res, buffer=nl.sbuf)
        nisa.range_select(
            made, source, getattr(nl, op0), getattr(nl, op1), loaded(low), loaded(high), reduce_res=largest,
            range_start=start,
        )  # fmt: skip
        return returned(made), returned(largest)

    return kernel


def range_oracle(x, op0, op1, low, high, start):
    flat = x.astype(np.float64).reshape(len(x), -1)
    indices = start + np.arange(flat.shape[1])
    inside = COMPARE[op0](indices, low) & COMPARE[op1](indices, high)
    return np.where(inside, flat, FP32_MIN)


@pytest.mark.parametrize(
    ("op0", "op1"), [("greater_equal", "less"), ("greater", "less_equal"), ("equal", "less"), ("less", "less")]
)
@pytest.mark.parametrize("shape", [(128, 64), (5, 3, 7)])
@pytest.mark.parametrize("psum", [False, True])
def test_range_select_keeps_a_range_of_each_row(op0, op1, shape, psum):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(shape).astype(np.float32)
    low = rng.integers(0, 30, (shape[0], 1)).astype(np.float32)
    high = low + rng.integers(0, 30, (shape[0], 1)).astype(np.float32)
    got, largest = run(make_range(shape, op0, op1, 10, psum=psum), x, low, high)
    want = range_oracle(x, op0, op1, low, high, 10)
    np.testing.assert_array_equal(got.reshape(len(x), -1), want.astype(np.float32))
    np.testing.assert_array_equal(largest, want.max(axis=1, keepdims=True).astype(np.float32))


@pytest.mark.parametrize("dtype", [nl.bfloat16, nl.float16, nl.float8_e4m3])
def test_range_select_of_narrow_floats_fills_with_infinity(dtype):
    x = np.ones((4, 8)).astype(dtype.np)
    bounds = np.full((4, 1), 3, np.float32), np.full((4, 1), 5, np.float32)
    got, largest = run(make_range((4, 8), "greater_equal", "less", 0, dtype), x, *bounds)
    want = np.where((np.arange(8) >= 3) & (np.arange(8) < 5), 1.0, -np.inf)
    np.testing.assert_array_equal(got.astype(np.float32), np.tile(want, (4, 1)))
    np.testing.assert_array_equal(largest, np.ones((4, 1)))


def test_range_select_chain_reduces_in_the_accumulator():
    def kernel(x, low, high):
        bounds = loaded(low), loaded(high)
        made = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.sbuf)
        largest = nl.ndarray((8, 1), dtype=nl.float32, buffer=nl.sbuf)
        for step in range(3):
            nisa.range_select(
                made,
                loaded(x[:, step * 4 : step * 4 + 4]),
                nl.greater_equal,
                nl.less,
                *bounds,
                reduce_cmd=nisa.reduce_cmd.reset_reduce if step == 0 else nisa.reduce_cmd.reduce,
                reduce_res=largest if step == 2 else None,
                range_start=step * 4,
            )
        return returned(largest)

    x = np.random.default_rng(2).standard_normal((8, 12)).astype(np.float32)
    low, high = np.full((8, 1), 2, np.float32), np.full((8, 1), 9, np.float32)
    np.testing.assert_array_equal(run(kernel, x, low, high), x[:, 2:9].max(axis=1, keepdims=True))


def range_call(shape=(8, 4), start_partition=None, **changes):
    def kernel(x):
        given = {
            "dst": lambda: nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf),
            "on_true_tile": lambda: tile(shape),
            "comp_op0": nl.greater_equal,
            "comp_op1": nl.less,
            "bound0": lambda: tile((shape[0], 1)),
            "bound1": lambda: tile((shape[0], 1)),
        }
        for name, value in (given | changes).items():
            given[name] = value if hasattr(value, "op_name") or not callable(value) else value()
        nisa.range_select(**given)

    return kernel


@pytest.mark.rule("R-range_select-01", "accept")
@pytest.mark.rule("R-range_select-02", "accept")
@pytest.mark.rule("R-range_select-03", "accept")
@pytest.mark.rule("R-range_select-04", "accept")
@pytest.mark.rule("R-range_select-05", "accept")
@pytest.mark.rule("R-range_select-06", "accept")
@pytest.mark.rule("R-range_select-07", "accept")
@pytest.mark.rule("R-range_select-08", "accept")
@pytest.mark.rule("R-range_select-09", "accept")
def test_range_select_accepts_what_it_documents():
    accepts(range_call(reduce_res=lambda: nl.ndarray((8, 1), nl.float32, buffer=nl.sbuf), reduce_op=nl.maximum))
    accepts(range_call(on_false_value=FP32_MIN, range_start=2**24 - 4))
    accepts(range_call(on_false_value=-3.4028235e38, range_start=np.int64(-5), comp_op0=nl.equal, comp_op1=nl.greater))
    accepts(range_call(), target="trn3")


rule = pytest.mark.rule


def refusal(mark, target="trn2", **changes):
    return pytest.param(mark.args[0], target, changes, marks=mark)


@pytest.mark.parametrize(
    ("broken", "target", "changes"),
    [
        refusal(rule("R-range_select-01", "reject"), "trn1"),
        refusal(rule("R-range_select-02", "reject"), comp_op0=nl.not_equal),
        refusal(rule("R-range_select-02", "reject"), comp_op1=nl.add),
        refusal(rule("R-range_select-03", "reject"), bound0=lambda: tile((4, 1))),
        refusal(rule("R-range_select-03", "reject"), bound1=lambda: tile((8, 2))),
        refusal(rule("R-range_select-03", "reject"), bound1=3.0),
        refusal(rule("R-range_select-03", "reject"), dst=lambda: nl.ndarray((8, 5), nl.float32)),
        refusal(rule("R-range_select-03", "reject"), reduce_res=lambda: nl.ndarray((8, 2), nl.float32)),
        refusal(rule("R-range_select-04", "reject"), on_true_tile=lambda: tile((8, 4), nl.int32)),
        refusal(rule("R-range_select-04", "reject"), bound0=lambda: tile((8, 1), nl.bfloat16)),
        refusal(rule("R-range_select-04", "reject"), bound1=lambda: tile((8, 1), nl.int32)),
        refusal(rule("R-range_select-05", "reject"), on_false_value=0.0),
        refusal(rule("R-range_select-05", "reject"), on_false_value=float("-inf")),
        refusal(rule("R-range_select-06", "reject"), reduce_op=nl.add),
        refusal(rule("R-range_select-07", "reject"), range_start=2**24 - 3),
        refusal(rule("R-range_select-08", "reject"), range_start=1.5),
        refusal(rule("R-range_select-08", "reject"), range_start=lambda: tile((1, 1), nl.int32)),
    ],
)
def test_range_select_rejects(broken, target, changes):
    rejects(broken, range_call(**changes), target=target)


@pytest.mark.rule("R-range_select-09", "reject")
def test_range_select_warns_of_nan_after_a_masked_row():
    narrow = {
        "dst": lambda: nl.ndarray((8, 4), nl.bfloat16, buffer=nl.sbuf),
        "reduce_res": lambda: nl.ndarray((8, 1), nl.bfloat16, buffer=nl.sbuf),
    }
    found = full_run(range_call(**narrow)).diagnostics
    assert [(each.rule, each.severity) for each in found] == [("R-range_select-09", "warning")]


def test_range_select_continues_only_a_chain():
    rejects("R-tensor_scalar_cumulative-05", range_call(reduce_cmd=nisa.reduce_cmd.reduce))


def test_range_select_needs_written_inputs():
    rejects("R-tensor-08", range_call(bound0=lambda: nl.ndarray((8, 1), nl.float32)))
    rejects("R-tensor-08", range_call(on_true_tile=lambda: nl.ndarray((8, 4), nl.float32)))


# Cost


def cost_of(kernel, name, target="trn2"):
    session: Session = full_run(kernel, target=target).session
    op = next(op for op in session.graph.body if op.name == name)
    return op_cost(op, session.target)[1]


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_costs_are_positive_and_grow(target):
    def affine(n):
        return lambda x: nisa.affine_select(tile((8, n)), [[1, n]], 0, tile((8, n)), 0.0)

    def ranged(n):
        return range_call((8, n))

    cases = [("iota", lambda n: make_iota((8, n), [[1, n]])), ("affine_select", affine)]
    cases += [("range_select", ranged)] if target != "trn1" else []
    for name, kernel in cases:
        small, large = cost_of(kernel(8), name, target), cost_of(kernel(2048), name, target)
        assert 0 < small.interval_ns < large.interval_ns
        assert 0 < small.latency_ns < large.latency_ns


def test_engines():
    call = Call(TABLE["iota"], [], {}, get_target("trn2"))
    call.resolve_engine()
    assert call.engine == "gpsimd"
    assert TABLE["affine_select"].engines == ("gpsimd",) and TABLE["range_select"].engines == ("vector",)
