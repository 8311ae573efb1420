"""Loops that unroll and loops that run on the device."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import accepts, full_run, nisa, nl, np, rejects, run, tile
from tilewright.errors import TileError


def loaded(number):
    """Inside a kernel: a register that was loaded from memory."""
    register = nisa.register_alloc()
    nisa.register_load(register, tile((1, 1), nl.int32, value=number))
    return register


def rows_copied(x, loop):
    """Inside a kernel: an output in which `loop(copy)` called copy(row) for the rows to copy; the others are zero."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    made = tile((x.shape[0], x.shape[1]), x.dtype)
    nisa.dma_copy(out, made)
    row = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)

    def copy(i):
        nisa.dma_copy(row, x.ap([[x.shape[1], 1], [1, x.shape[1]]], scalar_offset=i, indirect_dim=0))
        nisa.dma_copy(out[nl.ds(i, 1)], row)

    loop(copy)
    return out


# The same module for arguments that are wrong on purpose.
misused: Any = nl

X = np.arange(1, 41, dtype=np.float32).reshape(10, 4)


def only(rows):
    want = np.zeros_like(X)
    want[list(rows)] = X[list(rows)]
    return want


# Ranges that unroll


@pytest.mark.rule("R-affine_range-01", "accept")
@pytest.mark.parametrize("name", ["affine_range", "sequential_range", "static_range"])
def test_static_ranges_are_ranges(name):
    made = getattr(nl, name)
    assert made(5) == range(5)
    assert made(2, 9, 3) == range(2, 9, 3)
    assert made(5, stop=None) == range(5)
    assert made(np.int64(4)) == range(4)
    assert made(8, 0, -2) == range(8, 0, -2)
    assert all(type(i) is int for i in made(3))


@pytest.mark.rule("R-affine_range-01", "reject")
@pytest.mark.parametrize("name", ["affine_range", "sequential_range", "static_range"])
@pytest.mark.parametrize("bound", [lambda: nisa.register_alloc(4), lambda: tile((1, 1), nl.int32), lambda: 4.0])
def test_static_ranges_take_integers(name, bound):
    rejects("R-affine_range-01", lambda x: getattr(nl, name)(bound()))
    rejects("R-affine_range-01", lambda x: getattr(nl, name)(0, 4, bound()))
    with pytest.raises(TypeError):
        run(lambda x: getattr(nl, name)(0, bound()))


@pytest.mark.rule("R-affine_range-01", "reject")
def test_a_static_range_has_a_step():
    rejects("R-affine_range-01", lambda x: nl.affine_range(0, 4, 0))


# dynamic_range


@pytest.mark.rule("R-language-09", "accept")
@pytest.mark.parametrize(
    ("bounds", "rows"),
    [
        (lambda: (4,), range(4)),
        (lambda: (loaded(7),), range(7)),
        (lambda: (loaded(2), 9, 3), range(2, 9, 3)),
        (lambda: (3, loaded(5)), range(3, 5)),
        (lambda: (0, loaded(0), 1), ()),
        (lambda: (6, loaded(2)), ()),
        (lambda: (loaded(-2), 0), ()),
    ],
)
def test_dynamic_range_runs_with_the_numbers_of_its_registers(bounds, rows):
    def kernel(x):
        def loop(copy):
            for i in nl.dynamic_range(*bounds()):
                assert isinstance(i, nisa.VirtualRegister)
                if len(rows):
                    copy(i)

        return rows_copied(x, loop)

    np.testing.assert_array_equal(run(kernel, X), only(rows))


@pytest.mark.rule("R-dynamic_range-03", "holds")
def test_index_arithmetic_is_affine_and_gets_a_warning():
    def kernel(x):
        def loop(copy):
            for i in nl.dynamic_range(2):
                copy(9 - (i * 2 + 1) - i)
                copy(nisa.register_alloc(3) + i)
                copy(-i + 1)

        return rows_copied(x, loop)

    done = full_run(kernel, X)
    np.testing.assert_array_equal(done.result, only([8, 5, 3, 4, 1, 0]))
    found = {(each.rule, each.severity) for each in done.diagnostics}
    assert found == {("R-dynamic_range-03", "warning"), ("R-dynamic_range-06", "warning")}


def test_a_slice_starts_at_a_loop_index_times_a_constant():
    def kernel(x):
        out = nl.ndarray((8, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        made = nl.ndarray((8, 64), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(made, x)
        twice = nl.ndarray((8, 64), dtype=x.dtype, buffer=nl.sbuf)
        for i in nl.dynamic_range(4):
            part = nl.ds(i * 16, 16)
            nisa.tensor_scalar(twice[:, part], made[:, part], nl.multiply, 2.0)
        nisa.dma_copy(out, twice)
        return out

    x = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    np.testing.assert_array_equal(run(kernel, x), 2 * x)


@pytest.mark.rule("R-dynamic_range-01", "accept")
def test_dynamic_range_steps_up():
    accepts(lambda x: list(nl.dynamic_range(0, 9, 4)), warns="R-dynamic_range-06")


@pytest.mark.rule("R-dynamic_range-01", "reject")
@pytest.mark.parametrize("step", [0, -1, 1.5, None, lambda: nisa.register_alloc(1)])
def test_dynamic_range_rejects_steps(step):
    def kernel(x):
        misused.dynamic_range(0, 4, step() if callable(step) else step)

    rejects("R-dynamic_range-01", kernel)
    with pytest.raises(AssertionError):
        run(kernel)


@pytest.mark.rule("R-language-09", "reject")
@pytest.mark.parametrize("bound", [lambda: tile((1, 1), nl.int32), lambda: 2.5, lambda: "3"])
def test_dynamic_range_rejects_bounds(bound):
    with pytest.raises(TypeError) as caught:
        run(lambda x: nl.dynamic_range(bound()))
    assert isinstance(caught.value, TileError) and "bound" in caught.value.diagnostic.message


@pytest.mark.rule("R-dynamic_range-02", "accept")
def test_the_index_of_a_loop_is_read():
    def kernel(x):
        for i in nl.dynamic_range(2):
            copied = nisa.register_alloc()
            nisa.register_move(copied, i)
            nisa.register_move(copied, 7)
            nisa.register_store(nl.ndarray((1, 1), nl.int32), i)

    accepts(kernel, warns="R-dynamic_range-06")


@pytest.mark.rule("R-dynamic_range-02", "reject")
@pytest.mark.parametrize(
    "write",
    [lambda i: nisa.register_move(i, 0), lambda i: nisa.register_load(i, tile((1, 1), nl.int32))],
)
def test_the_index_of_a_loop_is_frozen(write):
    def kernel(x):
        for i in nl.dynamic_range(2):
            write(i)

    rejects("R-dynamic_range-02", kernel)
    with pytest.raises(AssertionError):
        run(kernel)


@pytest.mark.rule("R-dynamic_range-03", "reject")
@pytest.mark.parametrize("use", [lambda i: i == 0, lambda i: i > 0, bool, int, lambda i: i // 2])
def test_the_index_of_a_loop_is_no_python_number(use):
    def kernel(x):
        for i in nl.dynamic_range(2):
            use(i)

    rejects("R-dynamic_range-03", kernel)


@pytest.mark.rule("R-dynamic_range-03", "accept")
def test_the_index_of_a_loop_indexes():
    found = full_run(lambda x: rows_copied(x, lambda copy: [copy(i) for i in nl.dynamic_range(2)]), X).diagnostics
    assert {each.rule for each in found} == {"R-dynamic_range-06"}


@pytest.mark.rule("R-dynamic_range-04", "accept")
@pytest.mark.rule("R-fori_while-04", "accept")
def test_no_reorder_inside_a_loop():
    def body(i):
        with nl.no_reorder():
            nisa.memset(nl.ndarray((1, 1), nl.float32), value=0)
            for _ in nl.affine_range(2):
                pass

    def kernel(x):
        for i in nl.dynamic_range(2):
            body(i)
        nl.fori_loop(0, 2, body)

    accepts(kernel, warns="R-dynamic_range-06")


@pytest.mark.rule("R-dynamic_range-04", "reject")
@pytest.mark.rule("R-fori_while-04", "reject")
def test_a_loop_inside_no_reorder():
    def inside(use):
        def kernel(x):
            with nl.no_reorder():
                use()

        return kernel

    def bare():
        register = nisa.register_alloc(0)
        while register:
            pass

    rejects("R-dynamic_range-04", inside(lambda: nl.dynamic_range(2)))
    rejects("R-dynamic_range-04", inside(bare))
    rejects("R-fori_while-04", inside(lambda: nl.fori_loop(0, 2, lambda i: None)))
    rejects("R-fori_while-04", inside(lambda: nl.while_loop(nisa.register_alloc(0), lambda r: r)))


@pytest.mark.rule("R-dynamic_range-06", "reject")
def test_dynamic_range_is_deprecated():
    found = full_run(lambda x: list(nl.dynamic_range(2))).diagnostics
    assert [(each.rule, each.severity) for each in found] == [("R-dynamic_range-06", "warning")]


@pytest.mark.rule("R-dynamic_range-06", "accept")
def test_fori_loop_is_not_deprecated():
    assert full_run(lambda x: nl.fori_loop(0, 2, lambda i: None)).diagnostics == []


# fori_loop


@pytest.mark.parametrize(
    ("bounds", "rows"),
    [
        (lambda: {"lower": 0, "upper": loaded(6)}, range(6)),
        (lambda: {"lower": loaded(1), "upper": 10, "step": 4}, range(1, 10, 4)),
        (lambda: {"lower": 3, "upper": loaded(3)}, ()),
    ],
)
def test_fori_loop_calls_its_body_with_each_index(bounds, rows):
    def kernel(x):
        return rows_copied(x, lambda copy: nl.fori_loop(**bounds(), body_fun=copy))

    np.testing.assert_array_equal(run(kernel, X), only(rows))


@pytest.mark.rule("R-fori_while-05", "holds")
def test_writing_the_index_does_not_change_the_loop():
    def kernel(x):
        def loop(copy):
            def body(i):
                copy(i)
                nisa.register_move(i, 0)

            nl.fori_loop(0, 5, body)

        return rows_copied(x, loop)

    np.testing.assert_array_equal(run(kernel, X), only(range(5)))


@pytest.mark.rule("R-fori_while-05", "holds")
def test_state_is_carried_in_sbuf():
    def kernel(x):
        total = tile((10, 4))
        made = nl.ndarray((10, 4), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(made, x)
        nl.fori_loop(0, loaded(3), lambda i: nisa.tensor_tensor(total, total, made, nl.add) and None)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, total)
        return out

    np.testing.assert_array_equal(run(kernel, X), 3 * X)


@pytest.mark.rule("R-fori_while-01", "accept")
def test_a_body_returns_nothing():
    accepts(lambda x: nl.fori_loop(0, 4, lambda i: None, step=2))


@pytest.mark.rule("R-fori_while-01", "reject")
def test_fori_loop_rejects_steps_and_results():
    for step in (0, -2, 0.5):
        rejects("R-fori_while-01", lambda x, step=step: misused.fori_loop(0, 4, lambda i: None, step))
    rejects("R-fori_while-01", lambda x: misused.fori_loop(0, 4, lambda i: None, nisa.register_alloc(1)))
    rejects("R-fori_while-01", lambda x: misused.fori_loop(0, 4, lambda i: i))


# while_loop


def countdown(start, body):
    """Inside a kernel: a while_loop whose condition counts down from `start`."""
    count = tile((1, 1), nl.int32, value=start)
    init = nisa.register_alloc()
    nisa.register_load(init, count)

    def step(r):
        body(r)
        nisa.tensor_scalar(count, count, nl.subtract, 1)
        nisa.register_load(r, count)
        return r

    nl.while_loop(init, step)
    return init


@pytest.mark.rule("R-fori_while-02", "accept")
@pytest.mark.parametrize("start", [0, 1, 4])
def test_while_loop_runs_until_its_condition_is_zero(start):
    def kernel(x):
        def loop(copy):
            init = countdown(start, copy)
            out = nl.ndarray((1, 1), nl.int32)
            nisa.register_store(out, init)  # passed by value: as it was

        return rows_copied(x, loop)

    np.testing.assert_array_equal(run(kernel, X), only(range(1, start + 1)))


@pytest.mark.rule("R-fori_while-02", "accept")
def test_while_loop_with_a_fresh_condition():
    def kernel(x):
        left = [2, 1, 0]
        nl.while_loop(nisa.register_alloc(9), lambda r: nisa.register_alloc(left.pop(0)))
        assert left == []

    accepts(kernel)


@pytest.mark.rule("R-fori_while-02", "reject")
def test_while_loop_rejects_other_conditions():
    for condition in (None, 1, True):
        rejects("R-fori_while-02", lambda x, c=condition: misused.while_loop(nisa.register_alloc(1), lambda r: c))
        rejects("R-fori_while-02", lambda x, c=condition: misused.while_loop(c, lambda r: r))
    rejects("R-fori_while-02", lambda x: misused.while_loop(nisa.register_alloc(1), lambda r: (r, r)))


def test_a_while_loop_that_never_ends_is_found():
    with pytest.raises(TileError, match="never ends"):
        run(lambda x: nl.while_loop(nisa.register_alloc(1), lambda r: r))


# Tensors of a body


@pytest.mark.rule("R-fori_while-03", "accept")
def test_a_tensor_of_a_body_is_used_in_it():
    def kernel(x):
        def body(i):
            made = tile((4, 4))
            nl.fori_loop(0, 2, lambda j: nisa.tensor_copy(nl.ndarray((4, 4), nl.float32), made) and None)
            nisa.tensor_copy(nl.ndarray((4, 4), nl.float32), made)

        nl.fori_loop(0, 3, body)

    accepts(kernel)


@pytest.mark.rule("R-fori_while-03", "reject")
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.shared_hbm])
def test_a_tensor_of_a_body_is_not_used_after_it(buffer):
    def kernel(x):
        kept = []

        def body(i):
            made = nl.ndarray((4, 4), dtype=nl.float32, buffer=buffer)
            nisa.dma_copy(made, tile((4, 4)))
            kept.append(made)

        nl.fori_loop(0, 2, body)
        if buffer is nl.sbuf:
            nisa.tensor_copy(nl.ndarray((4, 4), nl.float32), kept[0])
        return kept[0]

    # Strictly a loop creates no shared tensor in the first place (R-tensor-19).
    found = rejects("R-fori_while-03", kernel, profile="lenient")
    assert "body of a loop" in found.message


@pytest.mark.rule("R-fori_while-03", "reject")
def test_a_tensor_of_one_iteration_is_not_used_in_the_next():
    def kernel(x):
        kept = [tile((4, 4))]

        def body(r):
            made = tile((4, 4))
            nisa.tensor_copy(made, kept[-1])
            kept.append(made)

        countdown(3, body)

    rejects("R-fori_while-03", kernel)
