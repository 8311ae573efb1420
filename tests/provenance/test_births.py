"""Errors tell where the bad value was born: through instructions, registers, cores and kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.kit import full_run, nisa, nki, nl, run
from tests.provenance.kit import TABLE, P, failure, gathered, line_of, loaded, routed, stored


def over(rows: int = P, columns: int = 64) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    x[7, 3] = 88.79
    return x


@pytest.mark.req("S0-14")
@pytest.mark.req("N0-4")
def test_a_sentinel_is_followed_to_the_overflow_that_made_it() -> None:
    def kernel(x: Any, table: Any) -> Any:
        t = loaded(x)
        nisa.activation(t, nl.exp, t)  # overflows
        difference = nl.ndarray(t.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(difference, t, t, nl.subtract)  # inf - inf
        return stored(routed(difference, table))

    found = failure(kernel, over(), TABLE)
    lines = [birth.location.line for birth in found.births if birth.location is not None]
    assert lines[:2] == [line_of(kernel, "# overflows"), line_of(kernel, "# inf - inf")]
    assert "exp of 88.79" in found.message and "0xFFFFFFFF" in found.message and f"line {lines[0]}" in found.message
    assert "nc_find_index8 of a row with NaN" in found.message
    assert [birth.code for birth in found.births] == ["W301", "W301", "E301"]
    assert "clamp" not in (found.hint or "") and "exp of 88.79" in (found.hint or "")
    assert all(birth.message in str(found) for birth in found.births)
    assert found.to_dict()["births"][0]["location"]["line"] == lines[0]  # type: ignore[index]


@pytest.mark.req("S0-14")
def test_an_index_that_its_element_type_does_not_hold_names_the_tile() -> None:
    """63.5 stays a rounding; 1999, which bfloat16 makes 2000, is the fault of the tile that has that type."""

    def kernel(rows: Any, table: Any) -> Any:
        held = loaded(rows, nl.int32)
        short = nl.ndarray(held.shape, dtype=nl.bfloat16, buffer=nl.sbuf)  # too short
        nisa.tensor_copy(short, held)
        index = nl.ndarray(held.shape, dtype=nl.int32, buffer=nl.sbuf)
        nisa.tensor_copy(index, short)
        return stored(gathered(table, index))

    rows = np.full((P, 1), 7, np.int32)
    rows[90] = 1999
    found = failure(kernel, rows, np.zeros((2000, 64), np.float32))
    told = f"short is bfloat16 (line {line_of(kernel, '# too short')}), which does not hold 1999"
    assert found.births[0].message.endswith(told)
    assert found.hint == f"store it in an element type that holds it: {told}"

    def halves(rows: Any, table: Any) -> Any:
        index = nl.ndarray(rows.shape, dtype=nl.int32, buffer=nl.sbuf)
        nisa.tensor_copy(index, loaded(rows))
        return stored(gathered(table, index))

    found = failure(halves, np.full((P, 1), 63.5, np.float32), TABLE)
    assert "does not hold" not in str(found)


def test_a_byte_of_ones_is_a_number_and_no_sentinel() -> None:
    def kernel(rows: Any, table: Any) -> Any:
        byte = loaded(rows, nl.uint8)
        index = nl.ndarray(rows.shape, dtype=nl.int32, buffer=nl.sbuf)
        nisa.tensor_copy(index, byte)
        return stored(gathered(table, index))

    found = failure(kernel, np.full((P, 1), 255, np.uint8), TABLE)
    assert found.births[0].message.startswith("argument rows holds the index 255: 128 elements")
    assert "not found" not in str(found) and "0xFF" not in str(found)


@pytest.mark.req("N0-4")
def test_a_sentinel_alone_is_never_to_be_clamped() -> None:
    def kernel(x: Any, wanted: Any, table: Any) -> Any:
        t, vals = loaded(x), loaded(wanted)
        index = nl.ndarray((P, 8), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.nc_find_index8(index, t, vals)
        return stored(gathered(table, index[:, 0:1]))

    found = failure(kernel, np.zeros((P, 64), np.float32), np.ones((P, 8), np.float32), TABLE)
    assert "clamp" not in (found.hint or "") and "is not found" in found.births[-1].message


@pytest.mark.parametrize(
    ("value", "born"), [(20, "multiply of 20 and 4"), (100, "argument indices holds the index 100")]
)
def test_an_index_is_followed_to_where_it_left_the_tensor(value: int, born: str) -> None:
    def kernel(indices: Any, table: Any) -> Any:
        t = loaded(indices, nl.int32)
        scaled = nl.ndarray(t.shape, dtype=nl.int32, buffer=nl.sbuf)
        nisa.tensor_scalar(scaled, t, nl.multiply, 4.0)
        return stored(gathered(table, scaled))

    indices = np.zeros((P, 1), np.int32)
    indices[9] = value
    found = failure(kernel, indices, TABLE)
    assert len(found.births) == 1 and born in found.births[0].message
    assert "[9, 0]" in found.births[0].message
    assert "clamp" in (found.hint or "")


def test_a_register_is_followed_to_the_tile_it_was_loaded_from() -> None:
    def kernel(indices: Any, table: Any) -> Any:
        t = loaded(indices, nl.int32)
        nisa.tensor_scalar(t, t, nl.add, 60.0)  # leaves
        register = nisa.register_alloc()
        nisa.register_load(register, t[0:1, 3:4])
        row = nl.ndarray((1, 64), dtype=nl.float32, buffer=nl.sbuf)
        pattern = [[64, 1], [1, 64]]
        nisa.dma_copy(row, table.ap(pattern=pattern, offset=0, scalar_offset=register, indirect_dim=0))
        return stored(row)

    found = failure(kernel, np.arange(8, dtype=np.int32).reshape(1, 8) * 3, TABLE)
    assert [birth.location.line for birth in found.births if birth.location] == [line_of(kernel, "# leaves")]
    assert "add of 9 and 60" in found.message


def test_what_another_core_made_is_followed_to_it() -> None:
    @nki.jit
    def kernel(x: Any, table: Any) -> Any:
        out = nl.ndarray((P, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        between = nl.ndarray((P, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        t = nl.ndarray((P, 8), dtype=nl.float32, buffer=nl.sbuf)
        if nl.program_id(0) == 0:
            nisa.dma_copy(t, x)
            nisa.activation(t, nl.reciprocal, t)  # of zero
            nisa.dma_copy(between, t)
        nisa.core_barrier(between, (0, 1))
        if nl.program_id(0) == 1:
            nisa.dma_copy(t, between)
            index = nl.ndarray((P, 8), dtype=nl.int32, buffer=nl.sbuf)
            nisa.tensor_copy(index, t)
            nisa.dma_copy(out, gathered(table, index[:, 2:3]))
        return out

    x = np.ones((P, 8), np.float32)
    x[17, 2] = 0
    with pytest.raises(tw.TileError) as caught:
        kernel[2](x, TABLE)
    assert "reciprocal of 0" in caught.value.diagnostic.message


@pytest.mark.req("S0-14")
@pytest.mark.parametrize("glue", ["same", "view", "host"])
def test_a_bad_argument_is_followed_into_the_kernel_that_made_it(glue: str) -> None:
    @nki.jit
    def maker(x: Any) -> Any:
        t = loaded(x)
        nisa.activation(t, nl.exp, t)
        return stored(t)

    @nki.jit
    def router(x: Any, table: Any) -> Any:
        t = loaded(x)
        nisa.tensor_tensor(t, t, t, nl.subtract)
        return stored(routed(t, table))

    made = maker(over())
    passed = {"same": made, "view": made[::-1], "host": made * 2}[glue]
    found = failure(router, passed, TABLE)
    assert "exp of 88.79" in found.births[0].message and "kernel maker" in found.births[0].message
    assert "in kernel maker" in found.message


@pytest.mark.req("S0-14")
def test_kernels_that_ran_before_and_are_not_in_the_chain_do_not_matter() -> None:
    given = [nl.exp]

    @nki.jit
    def unrelated(x: Any) -> Any:
        t = loaded(x)
        nisa.activation(t, nl.exp, t)
        return stored(t)

    @nki.jit
    def cannot_run_again(x: Any) -> Any:
        t = loaded(x)
        nisa.activation(t, given[0], t)
        return stored(t)

    @nki.jit
    def maker(x: Any) -> Any:
        t = loaded(x)
        nisa.activation(t, nl.reciprocal, t)
        return stored(t)

    @nki.jit
    def between(x: Any) -> Any:
        return stored(loaded(x))

    @nki.jit
    def router(x: Any, table: Any) -> Any:
        t = loaded(x)
        nisa.tensor_tensor(t, t, t, nl.subtract)
        return stored(routed(t, table))

    unrelated(over())
    made = maker(np.zeros((P, 64), np.float32))
    passed = between(made * 2) * 2
    cannot_run_again(np.ones((P, 64), np.float32))
    given.clear()
    found = failure(router, passed, TABLE)
    assert "reciprocal of 0" in found.births[0].message and "kernel maker" in found.births[0].message
    assert not any("unrelated" in birth.message for birth in found.births)


@pytest.mark.req("S0-09")
def test_all_births_are_told() -> None:
    def kernel(x: Any, y: Any, table: Any) -> Any:
        a, b = loaded(x), loaded(y)
        nisa.activation(a, nl.exp, a)  # one
        nisa.activation(b, nl.log, b)  # another
        both = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(both, a, b, nl.add)
        return stored(routed(both, table))

    found = failure(kernel, over(), -np.ones((P, 64), np.float32), TABLE)
    lines = {birth.location.line for birth in found.births if birth.location is not None}
    assert {line_of(kernel, "# another"), line_of(kernel, "# one")} <= lines


def test_a_product_is_followed_through_the_elements_that_matter() -> None:
    def kernel(x: Any, y: Any, table: Any) -> Any:
        a, b = loaded(x), loaded(y)
        nisa.activation(a, nl.exp, a)  # overflows
        nisa.activation(b, nl.log, b)  # NaN, but in rows that nobody looks at
        product = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(product, a, b)
        t = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(t, product)
        nisa.tensor_tensor(t, t, t, nl.subtract)
        clean = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(clean, t[:, 0:32])
        return stored(routed(clean, table))

    y = np.ones((P, 64), np.float32) * 2
    y[:, 40:] = -1
    found = failure(kernel, over(), y, TABLE)
    lines = {birth.location.line for birth in found.births if birth.location is not None}
    assert line_of(kernel, "# overflows") in lines and line_of(kernel, "# NaN, but") not in lines


def test_an_argument_that_the_kernel_overwrote_is_itself_again() -> None:
    def kernel(x: Any, table: Any) -> Any:
        t = loaded(x)
        nisa.activation(t, nl.exp, t)
        nisa.dma_copy(x, t)
        nisa.tensor_tensor(t, t, t, nl.subtract)
        return stored(routed(t, table))

    assert "exp of 88.79" in failure(kernel, over(), TABLE).message


def test_unwritten_data_name_their_allocation() -> None:
    def kernel(table: Any) -> Any:
        t = nl.ndarray((P, 8), dtype=nl.int32, buffer=nl.sbuf)  # here
        nisa.memset(t[:, 0:4], value=0)
        index = nl.ndarray((P, 8), dtype=nl.int32, buffer=nl.sbuf)
        nisa.tensor_copy(index, t)
        return stored(gathered(table, index[:, 5:6]))

    found = failure(kernel, TABLE)
    assert found.rule == "R-tensor-08"
    assert [birth.location.line for birth in found.births if birth.location] == [line_of(kernel, "# here")]


def test_verify_and_compiled_kernels_tell_it_too() -> None:
    def kernel(indices: Any, table: Any) -> Any:
        return stored(gathered(table, loaded(indices, nl.int32)))

    indices = np.full((P, 1), 64, np.int32)
    [found] = tw.verify(kernel, indices, TABLE)
    assert "argument indices holds the index 64" in found.births[0].message

    chosen = np.arange(20, dtype=np.int32)
    compiled = tw.compile(lambda t, i: t[i], np.zeros((20, 4), np.float32), chosen)
    chosen[3] = 77
    with pytest.raises(tw.TileError) as caught:
        compiled.simulate(np.zeros((20, 4), np.float32), chosen)
    assert "holds the index 77" in caught.value.diagnostic.births[0].message


@pytest.mark.req("S0-09")
def test_the_trace_of_what_is_not_finite_names_every_birth() -> None:
    def kernel(x: Any) -> Any:
        a, b = loaded(x), loaded(x)
        nisa.activation(a, nl.exp, a)  # one
        nisa.tensor_scalar(b, b, nl.subtract, 100.0)
        nisa.activation(b, nl.reciprocal, b)  # another
        nisa.tensor_tensor(a, a, b, nl.add)
        return stored(a)

    simulation = tw.simulate(kernel, trace_nonfinite=True)
    simulation(np.full((P, 64), 100, np.float32))
    found = simulation.run.nonfinite.diagnostic()
    lines = [birth.location.line for birth in found.births]
    assert lines == [line_of(kernel, "# one"), line_of(kernel, "# another")]


def test_what_is_well_is_not_run_twice() -> None:
    calls: list[int] = []

    def kernel(x: Any) -> Any:
        calls.append(1)
        return stored(loaded(x))

    run(kernel, TABLE)
    assert len(calls) == 1


def test_a_warning_of_infinity_says_where_it_was_born() -> None:
    def kernel(x: Any) -> Any:
        t = loaded(x)
        square = nl.ndarray(t.shape, dtype=nl.float16, buffer=nl.sbuf)
        nisa.tensor_tensor(square, t, t, nl.multiply)  # beyond float16
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(total, nl.add, square, axis=1)
        nisa.activation(total, nl.rsqrt, total)
        return stored(total)

    x = np.ones((P, 8), np.float32)
    x[5, 3] = 300
    (found,) = full_run(nki.jit(kernel), x).diagnostics
    assert (found.code, found.severity) == ("E111", "warning") and "multiply of 300" in found.message
    assert [birth.location.line for birth in found.births if birth.location] == [line_of(kernel, "# beyond float16")]
    assert "mend" in (found.hint or "") and "index" not in (found.hint or "")


def test_an_index_of_a_gather_on_chip_says_where_it_was_born() -> None:
    def kernel(x: Any) -> Any:
        t = loaded(x)
        best = nl.ndarray((P, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.max8(best, t)
        nisa.tensor_scalar(best, best, nl.add, 1.0)
        places = nl.ndarray((P, 8), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.nc_find_index8(places, t, best)  # not found
        out = nl.ndarray((P, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.nc_n_gather(out, t, places)
        return stored(out)

    found = failure(kernel, np.arange(P * 8, dtype=np.float32).reshape(P, 8) * 10)
    assert found.rule == "R-nc_n_gather-04" and "nc_find_index8" in found.message
    assert [birth.location.line for birth in found.births if birth.location] == [line_of(kernel, "# not found")]


def test_an_index_is_followed_into_a_compiled_function() -> None:
    @tw.jit
    def routed_by(x: np.ndarray) -> np.ndarray:
        score = x / x.max()
        return (score * 64).astype(np.int32)[:, None]  # 64 for the greatest

    @nki.jit
    def chosen(indices: Any, table: Any) -> Any:
        return stored(gathered(table, loaded(indices, nl.int32)))

    with pytest.raises(tw.TileError) as caught:
        chosen(routed_by(np.linspace(0.1, 3, P, dtype=np.float32)), TABLE[:64])
    found = caught.value.diagnostic
    line = line_of(routed_by.function, "# 64")
    assert "in kernel routed_by" in found.message and f"line {line}" in found.message
    assert found.births[0].location is not None and found.births[0].location.line == line


def test_an_index_of_a_compiled_function_is_followed_into_a_kernel() -> None:
    @nki.jit
    def numbered(x: Any) -> Any:
        i = loaded(x, nl.int32)
        nisa.tensor_scalar(i, i, nl.add, 60.0)  # leaves
        return stored(i)

    @tw.jit
    def rows(table: np.ndarray, i: np.ndarray) -> np.ndarray:
        return table[i[:, 0]] * 2

    with pytest.raises(tw.TileError) as caught:
        rows(TABLE[:64], numbered(np.full((P, 1), 9, np.int32)))
    found = caught.value.diagnostic
    assert "add of 9 and 60" in found.message and "in kernel numbered" in found.message


def test_a_cast_that_saturates_finds_nothing() -> None:
    """All bits are set where infinity becomes an unsigned integer: no search was made."""

    def kernel(x: Any, table: Any) -> Any:
        t = loaded(x)
        nisa.reciprocal(t, t)  # of zero
        i = nl.ndarray(t.shape, dtype=nl.uint32, buffer=nl.sbuf)
        nisa.tensor_copy(i, t)
        return stored(gathered(table, i[:, 0:1]))

    found = failure(kernel, np.zeros((P, 1), np.float32), TABLE)
    assert "0xFFFFFFFF (all bits set) is born in tensor_copy of inf" in found.births[-1].message
    assert "reciprocal of 0" in found.message


def test_what_a_birth_was_computed_from_has_a_line_too() -> None:
    """The exponential is where infinity is born; what is wrong may be the shift that was made for it."""

    @nki.jit
    def kernel(x: Any) -> Any:
        t = loaded(x)
        shift = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(shift, nl.minimum, t, axis=1, negate=True)  # should be the maximum
        nisa.activation(t, nl.exp, t, bias=shift)
        nisa.activation(t, nl.log, t)
        return stored(t)

    found = next(each for each in tw.verify(kernel, over()) if each.births)
    (birth,) = [each for each in found.births if "infinity" in each.message]
    line = line_of(kernel, "# should be")
    assert birth.message.endswith(f", of what tensor_reduce in line {line} made")
