"""Ranges of inputs: what they can do is found before any run, and what they cannot do is proved."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import tilewright as tw
from tests.cli.kit import CommandLine
from tests.kit import nisa, nki, nl
from tests.provenance.kit import P, gathered, line_of, loaded, stored
from tilewright.diagnose import spread_rules
from tilewright.diagnose.spread import Spread, spread
from tilewright.diagnose.transfers import verdict

TILE = tw.spec((P, 64), "float32")


def found(kernel: Any, *args: Any, **ranges: tuple[float, float]) -> list[str]:
    return [each.message for each in tw.ranges(kernel, *args, ranges=ranges)]


def exponential(x: Any) -> Any:
    t = loaded(x)
    nisa.activation(t, nl.exp, t)  # here
    return stored(t)


@pytest.mark.req("S0-08")
def test_an_exponential_overflows_beyond_88() -> None:
    assert found(exponential, TILE, x=(-130.0, 88.7)) == []
    [diagnostic] = tw.ranges(exponential, TILE, ranges={"x": (-130.0, 89.0)})
    assert "exp can overflow" in diagnostic.message and diagnostic.location is not None
    assert diagnostic.location.line == line_of(exponential, "# here")
    assert diagnostic.severity == "warning" and "x in [-130, 89]" in str(diagnostic)


@pytest.mark.req("S0-08")
def test_zero_times_infinity_follows_the_overflow() -> None:
    def kernel(g: Any) -> Any:
        t = loaded(g)
        decay, growth = (nl.ndarray((P, 64), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
        nisa.activation(decay, nl.exp, t)
        nisa.activation(growth, nl.exp, t, scale=-1.0)  # overflows
        nisa.tensor_tensor(decay, decay, growth, nl.multiply)  # NaN
        return stored(decay)

    lines = [each.location.line for each in tw.ranges(kernel, TILE, ranges={"g": (-130.0, 0.0)}) if each.location]
    assert lines == [line_of(kernel, "# overflows"), line_of(kernel, "# NaN")]
    assert found(kernel, TILE, g=(-80.0, 0.0)) == []


def test_the_order_of_two_arguments_can_be_said() -> None:
    def kernel(last: Any, g: Any) -> Any:
        difference = loaded(last)
        nisa.tensor_tensor(difference, difference, loaded(g), nl.subtract)
        nisa.activation(difference, nl.exp, difference)
        return stored(difference)

    ranges = {"g": (-130.0, 0.0), "last": (-130.0, 0.0)}
    assert len(tw.ranges(kernel, TILE, TILE, ranges=ranges)) == 1
    assert tw.ranges(kernel, TILE, TILE, ranges={**ranges, "last - g": (-130.0, 0.0)}) == []


def test_a_softmax_that_subtracts_its_maximum_is_proved() -> None:
    def kernel(x: Any, shift: bool) -> Any:
        t = loaded(x)
        if shift:
            most = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_reduce(most, nl.maximum, t, axis=1, negate=True)
            nisa.activation(t, nl.exp, t, bias=most)
        else:
            nisa.activation(t, nl.exp, t)
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(total, nl.add, t, axis=1)
        nisa.reciprocal(total, total)
        nisa.tensor_scalar(t, t, nl.multiply, total)
        return stored(t)

    assert tw.ranges(kernel, TILE, True, ranges={"x": (-1e4, 1e4)}) == []
    assert tw.ranges(kernel, TILE, False, ranges={"x": (-1e4, 1e4)}) != []


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def normalised(x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


@pytest.mark.parametrize(
    "function", [softmax, normalised, lambda x: np.log(1 + x * x), lambda x: np.tanh(x) / (2 + np.sin(x))]
)
def test_numpy_programs_that_are_safe(function: Any) -> None:
    assert found(function, TILE, x=(-1e4, 1e4)) == []


def log_of_sum(x: np.ndarray, first: float) -> np.ndarray:
    """Of rows in parts, beside the greatest so far."""
    most, total = np.full((P, 1), first, np.float32), np.zeros((P, 1), np.float32)
    for start in (0, 32):
        part = x[:, start : start + 32]
        above = np.maximum(most, part.max(axis=-1, keepdims=True))
        total = total * np.exp(most - above) + np.exp(part - above).sum(axis=-1, keepdims=True)
        most = above
    return most + np.log(total)


@pytest.mark.parametrize(
    "function",
    [
        *(lambda x: log_of_sum(x, -np.inf), lambda x: log_of_sum(x, -1e30)),
        *(lambda x: np.logaddexp(x, 0), lambda x: np.exp(x - np.logaddexp(x, x[::-1]))),
        # The same slice twice is one array.
        lambda x: np.exp((x[:, :8] - x[:, :8].max(-1, keepdims=True)) * 10),
        lambda x: np.log(np.ones((4, P), np.float32) @ np.exp(-np.abs(x))),
    ],
)
def test_forms_that_are_safe_within_thirty(function: Any) -> None:
    assert found(function, TILE, x=(-30.0, 30.0)) == []


@pytest.mark.parametrize(
    ("function", "message"),
    [
        # Bounds that are infinite stay so: rounded outward they were NaN, and nothing was said of what followed.
        (lambda x: 1 / np.exp(np.full((P, 1), -np.inf, np.float32) - x), "divisor can be 0"),
        (lambda x: 1 / (np.full((P, 1), -np.inf, np.float32) + x).sum(-1) / x[:, 0], "divisor can be 0"),
        (lambda x: np.where(x > 1, -np.inf, x) - np.where(x > 1, -np.inf, x), "infinity minus infinity"),
        (lambda x: np.where(x > 1, -np.inf, x) * np.zeros((1, 1), np.float32), "0 times infinity"),
        (lambda x: np.where(x > 1, np.inf, x) // 2, "a part of infinity"),
    ],
)
def test_infinity_that_is_meant_proves_nothing(function: Any, message: str) -> None:
    assert any(message in each for each in found(function, TILE, x=(-9.0, 9.0)))


def test_a_range_without_an_end_is_of_every_finite_value() -> None:
    assert "exp can overflow" in found(exponential, TILE, x=(0.0, np.inf))[0]
    assert found(exponential, TILE, x=(-np.inf, 0.0)) == []
    assert "exp can overflow" in found(lambda x: np.exp(x), TILE, x=(-np.inf, np.inf))[0]


def test_bounds_that_are_lost_without_a_word_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = lambda x: spread(np.full(x.shape, np.nan), np.nan)  # noqa: E731
    monkeypatch.setitem(spread_rules.RULES, "negative", lost)
    [diagnostic] = tw.ranges(lambda x: np.exp(-x), TILE, ranges={"x": (0.0, 1.0)})
    assert diagnostic.code == "W306" and "its bounds are lost" in diagnostic.message


def test_a_sine_is_that_of_numpy_where_the_engine_has_another() -> None:
    """The engine reduces no argument: beyond one turn it has a cubic, which compiled functions never meet."""
    four = np.full((P, 4), 4, np.float32)
    assert "log of a number" in found(lambda x: np.log(np.sin(x) + 0.755), four)[0]
    assert found(lambda x: np.log(np.sin(x) + 0.757), four) == []


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.exp(x), "exp can overflow"),
        (lambda x: 1 / x, "divisor can be 0"),
        (lambda x: np.log(x), "log of a number"),
        (lambda x: np.sqrt(x), "sqrt of a number"),
        (lambda x: x**20, "overflow"),
        (lambda x: np.exp(x) - np.exp(-x) * 2, "infinity minus infinity"),
    ],
)
def test_numpy_programs_that_can_fail(function: Any, message: str) -> None:
    assert any(message in each for each in found(function, TILE, x=(-1e4, 1e4)))


def test_integers_that_float32_rounds() -> None:
    def kernel(i: Any) -> Any:
        t = loaded(i, nl.int32)
        nisa.tensor_scalar(t, t, nl.multiply, 1000.0)
        return stored(t)

    whole = tw.spec((P, 64), "int32")
    assert any("beyond 16777216" in each for each in found(kernel, whole, i=(0, 100_000)))
    assert found(kernel, whole, i=(0, 16_000)) == []


def test_valid_ranges_of_functions() -> None:
    def kernel(x: Any) -> Any:
        t = loaded(x)
        nisa.activation(t, nl.sin, t)
        return stored(t)

    assert any("sin can get arguments" in each for each in found(kernel, TILE, x=(0.0, 9.0)))
    assert found(kernel, TILE, x=(-3.0, 3.0)) == []


def test_small_types_overflow_earlier() -> None:
    def kernel(x: Any) -> Any:
        t = loaded(x)
        out = nl.ndarray((P, 64), dtype=nl.float16, buffer=nl.sbuf)
        nisa.tensor_scalar(out, t, nl.multiply, 2.0)
        return stored(out)

    assert any("float16" in each for each in found(kernel, TILE, x=(0.0, 4e4)))
    assert found(kernel, TILE, x=(0.0, 3e4)) == []


def test_what_cannot_be_followed_is_said() -> None:
    def kernel(x: Any) -> Any:
        t = loaded(x)
        nisa.tensor_scalar(t.view(nl.int32), t.view(nl.int32), nl.bitwise_and, 0x7FFFFFFF)
        return stored(t)

    [diagnostic] = tw.ranges(kernel, TILE, ranges={"x": (0.0, 1.0)})
    assert diagnostic.code == "W306" and "nothing is proved" in diagnostic.message


@pytest.mark.parametrize(
    "ranges",
    [
        *({"y": (0, 1)}, {"x": (1, 0)}, {"x": 3}, {"x": ("a", 1)}),
        *({3: (0, 1)}, {"x": (0, 10**400)}, {"x - x - x": (0, 1)}),
    ],
)
def test_ranges_that_make_no_sense(ranges: Any) -> None:
    with pytest.raises(tw.TileError) as caught:
        tw.ranges(exponential, TILE, ranges=ranges)
    assert caught.value.diagnostic.code == "E108"


OPERATIONS = {
    "arithmetic": lambda x, y: (x - y) * (x + y) - np.maximum(x, y),
    "division": lambda x, y: x / (np.abs(y) + 1),
    "functions": lambda x, y: np.exp(np.minimum(x, 3)) + np.tanh(y) + np.sqrt(np.abs(x)),
    "products": lambda x, y: x @ y.swapaxes(-1, -2),
    "reductions": lambda x, y: x.sum(axis=1, keepdims=True) - y.max(axis=1, keepdims=True) + np.cumsum(x, axis=1),
    "choices": lambda x, y: np.where(x > y, x, y * 2) + (x >= 0) * 1.0,
    "powers": lambda x, y: x**2 - y**3 + np.square(x),
    "order": lambda x, y: np.sort(x, axis=1) - np.exp(x - x.max(axis=1, keepdims=True)),
    "powers added": lambda x, y: np.logaddexp(x, y) - np.logaddexp2(y, x),
    "pairs": lambda x, y: np.hypot(x, y) + np.arctan2(x, y) + np.where(np.signbit(x), 1.0, 2.0) * x,
    "remainders": lambda x, y: x % (np.abs(y) + 1) - np.fmod(x, np.abs(y) + 1) + x // (np.abs(y) + 1),
    "hyperbolic": lambda x, y: np.cosh(x) - np.sinh(y) + np.cbrt(x) + np.arcsinh(y),
    "logarithms": lambda x, y: np.log2(np.abs(x) + 1) - np.log10(np.abs(y) + 2),
    "places": lambda x, y: np.take_along_axis(x, np.argsort(y, axis=1), axis=1) + np.pad(y, 1)[1:-1, :-2],
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_bounds_hold_for_random_values(name: str) -> None:
    rng = np.random.default_rng(crc32(name.encode()))
    function = OPERATIONS[name]
    for _ in range(30):
        low = (rng.normal(size=(2, 6, 6)) * 4).astype(np.float32)
        high = low + (rng.exponential(size=(2, 6, 6)) * rng.integers(0, 2)).astype(np.float32)
        bounds = [spread(low[i], high[i]) for i in range(2)]
        made = function(*bounds)
        assert isinstance(made, Spread)
        for _ in range(20):
            values = np.clip((low + (high - low) * rng.uniform(size=low.shape)).astype(np.float32), low, high)
            result = function(*values)
            slack = 1e-6 * (1 + np.abs(result))
            assert (made.lo - slack <= result).all() and (result <= made.hi + slack).all()


@pytest.mark.req("S0-15")
def test_transfers_that_cannot_be_out_of_bounds() -> None:
    @nki.jit
    def direct(x: Any) -> Any:
        return stored(loaded(x))

    @nki.jit
    def indirect(x: Any, indices: Any) -> Any:
        return stored(gathered(x, loaded(indices, nl.int32)))

    table = np.zeros((64, 64), np.float32)
    direct(table)
    indirect(table, np.zeros((P, 1), np.int32))
    assert verdict(direct.last_run.session.graph).startswith("0 of 2 transfers are indirect: this kernel cannot raise")
    assert verdict(indirect.last_run.session.graph).startswith("1 of 3 transfers is indirect: their indices")


SCRIPT = """
import nki, nki.isa as nisa, nki.language as nl, numpy as np

@nki.jit
def decay(g):
    t = nl.ndarray(g.shape, dtype=g.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=g)
    nisa.activation(dst=t, op=nl.exp, data=t, scale=-1.0)
    out = nl.ndarray(g.shape, dtype=g.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)
    return out

decay(np.zeros((128, 64), np.float32))
"""


@pytest.mark.req("S0-08")
@pytest.mark.req("S0-15")
def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "decay.py"
    script.write_text(SCRIPT)
    tilewright = CommandLine(capsys)
    result = tilewright("check --ranges g=-130..0", script)
    assert "exp can overflow" in result.out + result.err and "decay.py:8" in result.out + result.err
    assert "decay: 0 of 2 transfers are indirect: this kernel cannot raise" in result.out
    assert "no diagnostics" in tilewright("check --ranges g=-80..0", script).out
    alone = tilewright("check --ranges g=-80..0 --kernel decay --shape g=4x4:float32", script)
    assert "decay: 0 of 2 transfers are indirect: this kernel cannot raise" in alone.out
    assert tilewright("check --ranges h=-80..0", script).codes() == ["E704"]
    assert tilewright("check --ranges g=high", script).codes() == ["E704"]


def powers_of(blocks: bool) -> Any:
    """The inverse of I - A, A strictly lower, by power doubling; in blocks that fall off quickly, or as a whole."""

    def kernel(a: Any, identity: Any) -> Any:
        power, eye = loaded(a), loaded(identity)
        total = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(total, eye, power, nl.add)
        for _ in range(1 if blocks else 6):
            for left, right, into in ((power, power, power), (power, total, total)):
                turned, product = (nl.ndarray((P, P), dtype=nl.float32, buffer=nl.psum) for _ in range(2))
                nisa.nc_matmul(turned, left, eye)
                moved = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.sbuf)
                nisa.tensor_copy(moved, turned)
                nisa.nc_matmul(product, moved, right)
                if into is total:
                    nisa.tensor_tensor(into, total, product, nl.add)
                else:
                    nisa.tensor_copy(into, product)
        return stored(total)

    return kernel


@pytest.mark.req("S0-10")
def test_powers_of_a_matrix_that_does_not_fall_lose_all_digits() -> None:
    eye = np.eye(P, dtype=np.float32)
    equal = -np.tril(np.full((P, P), 0.95, np.float32), -1)
    small = np.tril(np.random.default_rng(0).normal(size=(P, P)).astype(np.float32), -1) * np.float32(0.01)
    codes = [each.code for each in tw.ranges(powers_of(False), equal, eye)]
    assert codes == ["W305"]
    assert tw.ranges(powers_of(False), small, eye) == []
    assert tw.ranges(powers_of(True), equal, eye) == []


@nki.jit
def by_squares(x: Any) -> Any:
    """The variance as the mean of squares less the square of the mean."""
    t, square = loaded(x), nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(square, t, t, nl.multiply)
    means = []
    for each in (t, square):
        means.append(_column())
        nisa.tensor_reduce(means[-1], nl.add, each, axis=1)
        nisa.tensor_scalar(means[-1], means[-1], nl.multiply, 1 / x.shape[1])
    nisa.tensor_tensor(means[0], means[0], means[0], nl.multiply)
    nisa.tensor_tensor(means[1], means[1], means[0], nl.subtract)
    return stored(means[1])


@pytest.mark.req("S0-10")
@pytest.mark.parametrize(
    ("function", "low", "high", "lost"),
    [
        (by_squares, 1000, 1001, True),
        (by_squares, -1, 1, False),
        (lambda x: (x * x).mean(axis=-1) - x.mean(axis=-1) ** 2, 1000, 1001, True),
        (lambda x: x.var(axis=-1), 1000, 1001, False),
        (lambda x: np.log(1 + x), 1e-9, 1e-8, True),
        (lambda x: (x + 1e8) - 1e8, 0, 1, True),
        (lambda x: x - 0.5, 0, 1, False),
    ],
)
def test_what_cancels_is_found_in_numbers_of_the_range(function: Any, low: float, high: float, lost: bool) -> None:
    """At the ends of the range all elements are equal, and nothing cancels that should not."""
    codes = [each.code for each in tw.ranges(function, tw.spec((P, 64), "float32"), ranges={"x": (low, high)})]
    assert codes == (["W305"] if lost else [])


def _column(dtype: Any = nl.float32) -> Any:
    return nl.ndarray((P, 1), dtype=dtype, buffer=nl.sbuf)


def _activation_reduce(t: Any) -> Any:
    sums = _column()
    nisa.activation_reduce(dst=t, op=nl.exp, data=t, reduce_op=nl.add, reduce_res=sums)
    return sums


def _tensor_scalar_reduce(t: Any) -> Any:
    product = _column()
    nisa.tensor_scalar_reduce(dst=t, data=t, op0=nl.add, operand0=1.0, reduce_op=nl.multiply, reduce_res=product)
    return product


def _partition_reduce(t: Any) -> Any:
    total = nl.ndarray((1, 4), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.multiply)
    nisa.tensor_partition_reduce(dst=total, op=nl.add, data=t)
    return total


def _scan(t: Any) -> Any:
    nisa.tensor_tensor_scan(dst=t, data0=t, data1=t, initial=1.0, op0=nl.multiply, op1=nl.add)
    return t


def _predicated(t: Any) -> Any:
    mask, squares = nl.ndarray((P, 4), dtype=nl.uint8, buffer=nl.sbuf), nl.ndarray((P, 4), nl.float32, nl.sbuf)
    nisa.memset(mask, value=1)
    nisa.tensor_tensor(dst=squares, data1=t, data2=t, op=nl.multiply)
    nisa.tensor_copy_predicated(dst=t, src=squares, predicate=mask)
    return t


def _range_select(t: Any) -> Any:
    low, high, largest = _column(), _column(), _column()
    nisa.memset(low, value=1.0)
    nisa.memset(high, value=3.0)
    nisa.range_select(t, t, nl.greater_equal, nl.less, low, high, reduce_res=largest, on_false_value=0.0)
    nisa.tensor_tensor(dst=largest, data1=largest, data2=largest, op=nl.multiply)
    return largest


@pytest.mark.req("S0-10")
@pytest.mark.parametrize(
    "step", [_activation_reduce, _tensor_scalar_reduce, _partition_reduce, _scan, _predicated, _range_select]
)
def test_reductions_scans_and_choices_are_followed(step: Any) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        return stored(step(loaded(x)))

    x = tw.spec((P, 4), "float32")
    assert tw.ranges(kernel, x, ranges={"x": (-2.0, 2.0)}) == []
    found = tw.ranges(kernel, x, ranges={"x": (-2.0, 3e38)})
    assert found and all("overflow" in each.message or "infinity" in each.message for each in found)


def chosen_rows(indices: Any, table: Any, skip: bool = False) -> Any:
    i = loaded(indices, nl.int32)
    rows = nl.ndarray((P, table.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(rows, value=0.0)
    width = table.shape[1]
    mode = nisa.oob_mode.skip if skip else nisa.oob_mode.error
    nisa.dma_copy(rows, table.ap([[width, P], [1, width]], vector_offset=i), oob_mode=mode)  # chosen
    return stored(rows)


def test_indices_that_can_be_outside_are_found() -> None:
    indices, table = tw.spec((P, 1), "int32"), tw.spec((40, 8), "float32")
    kernel = nki.jit(chosen_rows)
    assert found(kernel, indices, table, indices=(0, 39)) == []
    [diagnostic] = tw.ranges(kernel, indices, table, ranges={"indices": (0, 40)})
    assert "an index can be in [0, 40]; table has [0, 40)" in diagnostic.message
    assert diagnostic.rule == "R-dma_copy-11" and diagnostic.location is not None
    assert diagnostic.location.line == line_of(chosen_rows, "# chosen")
    assert found(kernel, indices, table, True, indices=(0, 40)) == []


def test_registers_have_ranges() -> None:
    def kernel(position: Any, cache: Any) -> Any:
        p = loaded(position, nl.int32)
        nisa.tensor_scalar(p, p, nl.multiply, 2)
        register = nisa.register_alloc()
        nisa.register_load(register, p)
        t = nl.ndarray((1, 16), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(t, value=1.0)
        nisa.dma_copy(cache.ap([[16, 1], [1, 16]], scalar_offset=register, indirect_dim=0), t)
        return cache

    position, cache = tw.spec((1, 1), "int32"), tw.spec((32, 16), "float32")
    assert found(kernel, position, cache, position=(0, 15)) == []
    [message] = found(kernel, position, cache, position=(0, 16))
    assert "an index can be in [0, 32]" in message


def test_rows_that_are_known_are_known() -> None:
    """Beside float64 the same rows are read: a table of numbers of all sizes is not ill-conditioned."""
    indices = np.arange(P, dtype=np.int32)[::-1, None] % 40
    table = np.outer(10.0 ** np.arange(40) / 1e20, np.ones(8)).astype(np.float32)
    assert found(nki.jit(chosen_rows), indices, table) == []


def test_what_is_wrong_as_it_is_counts_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import nki, numpy as np\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n"
        "@nki.jit\ndef rows(at, table):\n"
        "    i = nl.ndarray((4, 1), dtype=nl.int32, buffer=nl.sbuf)\n    nisa.dma_copy(i, at)\n"
        "    t = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)\n"
        "    nisa.dma_copy(t, table.ap([[8, 4], [1, 8]], vector_offset=i))\n"
        "    out = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)\n    nisa.dma_copy(out, t)\n"
        "    return out\n\n\nrows(np.full((4, 1), 9, np.int32), np.ones((6, 8), np.float32))\n"
    )
    done = CommandLine(capsys)("check --ranges table=-1..1", script)
    assert done.code == 1 and "R-dma_copy-11" in done.out + done.err


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.arccos(np.clip(x, -1, 1)), None),
        (lambda x: np.arcsin(x / 4), None),
        (lambda x: np.cumprod(x / 2, axis=-1), None),
        (lambda x: np.arctanh(x / 4), None),
        (lambda x: np.arccos(x), "arccos of a number that can be outside of -1 and 1"),
        (lambda x: np.arctanh(x / 2), "arctanh of a number that can be not between -1 and 1"),
        (lambda x: np.cumprod(x * 50, axis=-1), "multiply can overflow"),
    ],
)
def test_inverse_functions_and_running_products(function: Any, message: str | None) -> None:
    messages = found(function, TILE, x=(-2.0, 2.0))
    assert (messages == []) if message is None else (message in messages[0])


def test_an_argument_that_is_given_as_nan_is_named() -> None:
    """As later layers of a model are that an earlier one has spoilt: not the line that loads it."""

    def kernel(x: Any, bias: Any) -> Any:
        t = loaded(x)
        nisa.tensor_tensor(t, t, loaded(bias), nl.add)
        return stored(t)

    spoilt = np.full((P, 64), np.nan, np.float32)
    assert found(kernel, TILE, spoilt, x=(0.0, 1.0)) == [
        "argument bias holds NaN as it is given: nothing is proved about what is computed of it"
    ]
