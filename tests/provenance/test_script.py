"""Arrays of the host that kernels fail for: the line of the script that made them is named."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tw
from tests.kit import full_run, nisa, nki, nl, np
from tests.provenance.kit import TABLE, P, failure, gathered, line_of, loaded, stored
from tilewright.errors import Diagnostic
from tilewright.provenance.script import made_at

ROWS = np.arange(P, dtype=np.int32)[:, None] % 64
ROWS[5] = 64  # too far


def picked(indices: Any, table: Any) -> Any:
    return stored(gathered(table, loaded(indices, nl.int32)))


@pytest.mark.req("S0-12")
def test_the_line_that_made_an_index_is_named() -> None:
    order = np.arange(P)[:, None] % 64
    wrong = (order + 8).astype(np.int32)
    found = failure(picked, wrong, TABLE)
    line = test_the_line_that_made_an_index_is_named.__code__.co_firstlineno + 3
    assert f"comes from argument indices, made in line {line}: wrong = (order + 8)" in found.message
    (birth,) = found.births
    assert birth.location is not None and birth.location.line == line and birth.location.file == __file__
    assert (found.hint or "").startswith(f"mend how wrong is made (line {line})")


def scaled(rows: np.ndarray) -> np.ndarray:
    found = rows % 64
    found = found * 2  # too far
    return found.astype(np.int32)


def test_lines_before_that_made_an_index_are_told() -> None:
    """The last line only gives it its shape."""

    def script() -> Diagnostic:
        rows = scaled(np.arange(P))  # called
        rows = rows + 1  # moved
        rows = rows[:, None]
        return failure(picked, rows, TABLE)

    (birth,) = script().births
    moved, called = (line_of(script, mark) for mark in ("# moved", "# called"))
    far = line_of(scaled, "# too far")
    assert "made by the script: rows = rows[:, None] (before it " in birth.message
    assert f"line {moved}: rows = rows + 1" in birth.message and f"line {called}: rows = scaled(" in birth.message
    assert f"line {far}: found = found * 2" in birth.message and f"line {far - 1}: found = rows % 64" in birth.message


def handed_on(indices: np.ndarray) -> Diagnostic:
    """Host code that only hands an array on."""
    if indices.size:
        return failure(picked, indices, TABLE)
    raise AssertionError


def test_whoever_made_it_is_found_through_functions() -> None:
    def prepare() -> Diagnostic:
        mine = np.zeros((P, 1), np.int32)
        mine[3] = 70  # here
        return handed_on(mine)

    assert f"made in line {line_of(prepare, '# here')}: mine[3] = 70" in prepare().message
    assert "ROWS[5] = 64" in handed_on(ROWS).message


def beyond(rows: np.ndarray, first: int) -> np.ndarray:
    return (rows - first).astype(np.int32)


def test_an_index_that_is_made_in_the_call_has_the_line_of_the_call() -> None:
    kernel = nki.jit(picked)

    class Kept:
        rows = beyond(ROWS, -64)

    def calls() -> None:
        kernel(beyond(ROWS, -64), TABLE)  # here

    def calls_on_what_is_kept() -> None:
        kernel(Kept.rows, np.zeros((64, 32), np.float32))

    with pytest.raises(tw.TileError) as raised:
        calls()
    line = line_of(calls, "# here")
    assert f"made in line {line}: kernel(beyond(ROWS, -64), TABLE)" in raised.value.diagnostic.message
    assert f"mend how beyond(ROWS, -64) is made (line {line})" in (raised.value.diagnostic.hint or "")
    with pytest.raises(tw.TileError) as raised:
        calls_on_what_is_kept()
    assert "made in line" not in raised.value.diagnostic.message


@nki.jit
def doubled(rows: Any) -> Any:
    t = loaded(rows, nl.int32)
    nisa.tensor_scalar(t, t, nl.multiply, 2)  # too far
    return stored(t)


@pytest.mark.req("S0-14")
def test_an_index_is_followed_through_copies_that_the_host_makes() -> None:
    kernel = nki.jit(picked)
    rows = np.arange(P, dtype=np.int32)[:, None] % 64

    def chosen(given: np.ndarray) -> np.ndarray:
        return doubled(given)[::-1].astype(np.int32)

    def held() -> None:
        made = doubled(rows)
        narrow = made[::-1]
        kernel(np.ascontiguousarray(narrow), TABLE)

    def called() -> None:
        kernel(chosen(rows), TABLE)

    def of_another_number() -> None:
        kernel(chosen(rows) + 300, TABLE)

    line = line_of(doubled.function, "# too far")
    for script in (held, called):
        with pytest.raises(tw.TileError, match=rf"born in multiply of \d+ and 2 .* in kernel doubled, line {line}"):
            script()
    with pytest.raises(tw.TileError, match="made in line") as raised:
        of_another_number()
    assert len(raised.value.diagnostic.births) == 1


def test_the_line_that_made_a_tensor_of_torch_is_named() -> None:
    torch = pytest.importorskip("torch")
    kernel = nki.jit(picked)
    pages = torch.arange(P, dtype=torch.int32)[:, None]
    column = (pages + 1).contiguous()
    with pytest.raises(tw.TileError, match=r"made in line \d+: column = \(pages \+ 1\)\.contiguous\(\)"):
        kernel(column, torch.from_numpy(TABLE))


def test_what_has_no_name_has_no_line() -> None:
    found = failure(picked, np.full((P, 1), 64, np.int32), TABLE)
    assert "made in line" not in found.message and "argument indices holds the index 64" in found.births[0].message
    kept = [object()]
    assert made_at(kept[0]) is None


@pytest.mark.req("S0-12")
def test_a_number_outside_of_a_function_tells_the_instructions_that_made_it() -> None:
    def kernel(x: Any) -> Any:
        t = loaded(x)
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(total, nl.add, t, axis=1)  # a sum
        nisa.tensor_scalar(total, total, nl.subtract, 64.0)  # below zero
        nisa.activation(total, nl.log, total)
        return stored(total)

    (found,) = full_run(kernel, np.full((P, 32), 0.5, np.float32)).diagnostics
    told = found.notes[-1]
    below, summed = line_of(kernel, "# below zero"), line_of(kernel, "# a sum")
    assert told.startswith(
        f"it comes from tensor_scalar ({__file__}:{below}) of tensor_reduce ({__file__}:{summed}) of "
    )
    assert told.endswith("of x[0, 0]")


def test_stale_tiles_show_in_the_lineage_of_a_result() -> None:
    """A double buffer that is loaded into the half in use: no instruction differs, the result does."""

    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        halves = [nl.ndarray((P, 32), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2)]
        nisa.dma_copy(halves[0], x[0:P, :])
        for i in range(3):
            if i < 2:
                nisa.dma_copy(halves[i % 2], x[(i + 1) * P : (i + 2) * P, :])  # into the half in use
            y = nl.ndarray((P, 32), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(y, halves[i % 2], nl.multiply, 2.0)
            nisa.dma_copy(out[i * P : (i + 1) * P, :], y)
        return out

    x = np.zeros((3 * P, 32), np.float32)
    x[P + 7, 3] = 5.0
    found = tw.first_divergence(lambda x: x * 2.0, kernel, x)
    assert found is not None and found.described().endswith("at [7, 3]")
    line = line_of(kernel.function, "# into the half in use")
    assert f"of dma_copy ({__file__}:{line}) of x[{P + 7}, 3]" in str(found) and "kernel kernel makes it by" in str(
        found
    )


@nki.jit
def tripled(indices: Any) -> Any:
    t = loaded(indices, nl.int32)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=3)
    return stored(t)


def test_what_a_kernel_before_was_given_is_followed_to_the_line_that_made_it() -> None:
    """Through copies on the way in, and functions that hand arguments on."""

    def model(blocks: np.ndarray, table: np.ndarray) -> Diagnostic:
        return failure(picked, tripled(blocks), table)

    def script() -> Diagnostic:
        rows = np.arange(P, dtype=np.int32)[:, None] % 20
        rows[90:] = -1  # padding
        given = rows, TABLE
        return model(*[np.array(each) for each in given])

    found = script()
    assert f"made in line {line_of(script, '# padding')}: rows[90:] = -1" in found.message
    assert found.births[0].location is not None and found.births[0].location.line == line_of(script, "# padding")
