"""Registers: what they hold, where they may stand, and what Python may not do with them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import pytest

from tests.kit import accepts, full_run, nisa, nl, np, rejects, run, tile
from tilewright.errors import TileError
from tilewright.ir.text import show
from tilewright.nki.kernel import run_kernel
from tilewright.nki.tensor import VirtualRegister
from tilewright.sim.run import run_graph
from tilewright.sim.session import Options
from tilewright.spec import spec
from tilewright.tile.costed import op_cost
from tilewright.tile.record import TABLE
from tilewright.tile.text import parse_tile


def through_a_register(value: Any, into: Any = nl.int32, memory: Any = nl.sbuf) -> Any:
    """The 1 x 1 array `value`, loaded into a register and stored as `into`."""

    def kernel(x):
        source, out = x, nl.ndarray((1, 1), dtype=into, buffer=nl.shared_hbm)
        if memory is nl.sbuf:
            source = nl.ndarray((1, 1), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(source, x)
        register = nisa.register_alloc()
        nisa.register_load(register, source)
        copied = nisa.register_alloc(-1)
        nisa.register_move(copied, register)
        nisa.register_store(out, copied)
        return out

    return run(kernel, value)[0, 0]


@pytest.mark.parametrize("memory", [nl.sbuf, nl.hbm])
@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        (np.int32, -5),
        (np.int32, -(2**31)),
        (np.uint32, 2**32 - 1),
        (np.int8, -7),
        (np.uint16, 65535),
        (np.uint8, 200),
        (np.float32, 2.5),
        (ml_dtypes.bfloat16, 0.5),
    ],
)
def test_a_number_survives_load_move_and_store(memory, dtype, number):
    x = np.full((1, 1), number, dtype)
    assert through_a_register(x, x.dtype, memory) == number


@pytest.mark.parametrize(
    ("dtype", "number", "into", "stored"),
    [
        (np.int32, -1, nl.uint32, 2**32 - 1),
        (np.uint32, 2**32 - 1, nl.int32, -1),
        (np.int32, 257, nl.uint8, 1),
        (np.int32, 7, nl.float32, 7.0),
        (np.float32, 2.5, nl.int32, 2),
    ],
)
def test_stores_keep_bits_of_integers_and_convert_between_kinds(dtype, number, into, stored):
    assert through_a_register(np.full((1, 1), number, dtype), into) == stored


def call(body):
    """A kernel of one argument around `body`."""
    return lambda x: body()


# Rules of the four functions


@pytest.mark.rule("R-register-01", "accept")
def test_one_element_of_at_most_32_bits():
    def kernel(x):
        register = nisa.register_alloc()
        nisa.register_load(register, tile((1, 1), nl.int32, value=3))
        nisa.register_load(register, tile((4, 8), nl.uint8)[2:3, 5:6])
        nisa.register_load(register, x[0])
        nisa.register_store(x[0:1], register)

    accepts(kernel, np.zeros((3,), np.int32))


@pytest.mark.rule("R-register-01", "reject")
@pytest.mark.parametrize(
    "make",
    [
        lambda: tile((1, 2), nl.int32),
        lambda: tile((2, 1), nl.int32),
        lambda: tile((1, 1, 1), nl.int32),
        lambda: tile((1, 1), nl.int32, nl.psum),
    ],
)
def test_register_load_and_store_reject(make):
    rejects("R-register-01", call(lambda: nisa.register_load(nisa.register_alloc(), make())))
    rejects("R-register-01", call(lambda: nisa.register_store(make(), nisa.register_alloc(1))))


@pytest.mark.rule("R-register-02", "accept")
def test_register_alloc_takes_nothing_or_a_constant():
    accepts(call(lambda: [nisa.register_alloc(x) for x in (None, 0, -(2**31), 2**32 - 1, np.int64(5), True)]))


@pytest.mark.rule("R-register-02", "reject")
@pytest.mark.parametrize("x", [1.5, "5", 2**32, -(2**31) - 1])
def test_register_alloc_rejects(x):
    rejects("R-register-02", call(lambda: nisa.register_alloc(x)))


@pytest.mark.rule("R-register-02", "reject")
def test_register_alloc_of_a_tensor():
    found = rejects("R-register-02", call(lambda: nisa.register_alloc(tile((1, 1), nl.int32))))
    assert "register_load" in str(found.hint)


@pytest.mark.rule("R-register-03", "accept")
def test_a_written_register_is_used():
    def kernel(x):
        register = nisa.register_alloc()
        nisa.register_move(register, 1)
        nisa.register_store(nl.ndarray((1, 1), nl.int32), register)

    accepts(kernel)


@pytest.mark.rule("R-register-03", "reject")
@pytest.mark.parametrize(
    "use",
    [
        lambda register: nisa.register_store(nl.ndarray((1, 1), nl.int32), register),
        lambda register: nisa.register_move(nisa.register_alloc(), register),
        lambda register: nisa.dma_copy(nl.ndarray((1, 4), nl.float32), tile((1, 8))[:, nl.ds(register, 4)]),
        lambda register: nl.fori_loop(0, register, lambda i: None),
        lambda register: nl.while_loop(register, lambda r: r),
        lambda register: register * 2,
    ],
)
def test_an_unwritten_register_is_refused(use):
    rejects("R-register-03", call(lambda: use(nisa.register_alloc())))


@pytest.mark.rule("R-register-03", "reject")
def test_an_unwritten_tensor_reaches_no_register():
    rejects("R-tensor-08", call(lambda: nisa.register_load(nisa.register_alloc(), nl.ndarray((1, 1), nl.int32))))


@pytest.mark.rule("R-register-04", "accept")
def test_register_move_takes_a_constant_or_a_register():
    accepts(call(lambda: nisa.register_move(nisa.register_alloc(), 5)))
    accepts(call(lambda: nisa.register_move(dst=nisa.register_alloc(), src=nisa.register_alloc(5))))


@pytest.mark.rule("R-register-04", "reject")
@pytest.mark.parametrize("make", [lambda: 1.5, lambda: None, lambda: 2**32, lambda: tile((1, 1), nl.int32)])
def test_register_move_rejects(make):
    rejects("R-register-04", call(lambda: nisa.register_move(nisa.register_alloc(), make())))


@pytest.mark.parametrize(
    "use",
    [
        lambda: nisa.register_move(5, 5),
        lambda: nisa.register_load(tile((1, 1), nl.int32), tile((1, 1), nl.int32)),
        lambda: nisa.register_store(tile((1, 1), nl.int32), 5),
        lambda: nisa.register_load(nisa.register_alloc(), 5),
    ],
)
def test_a_register_is_a_register(use):
    with pytest.raises(TypeError, match=r"register|tensor"):
        run(call(use))


def test_registers_exist_in_kernels_only():
    with pytest.raises(TileError, match="outside a kernel"):
        nisa.register_alloc(5)


# Registers as run-time indices


@pytest.mark.parametrize("row", [0, 2, 5])
def test_a_register_indexes_tensors(row):
    def kernel(x, rows):
        register = nisa.register_alloc()
        nisa.register_load(register, rows)
        out = nl.ndarray((3, 4, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        pattern = x.ap([[8, 4], [1, 8]], scalar_offset=register, indirect_dim=0)
        for number, source in enumerate((pattern, x[nl.ds(register, 4)], x[register].expand_dim(0).broadcast(0, 4))):
            made = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(made, source)
            nisa.dma_copy(out[number], made)
        return out

    x = np.arange(9 * 8, dtype=np.float32).reshape(9, 8)
    got = run(kernel, x, np.array([[row]], np.int32))
    np.testing.assert_array_equal(got, [x[row : row + 4], x[row : row + 4], np.tile(x[row], (4, 1))])


@pytest.mark.parametrize("column", [-1, 5, 2**31 - 1])
def test_a_register_out_of_bounds(column):
    def kernel(x):
        register = nisa.register_alloc(column)
        nisa.tensor_copy(nl.ndarray((8, 4), nl.float32), tile((8, 8))[:, nl.ds(register, 4)])

    rejects("R-dma_copy-11", kernel)


def test_a_register_that_holds_a_float_is_no_index():
    def kernel(x):
        register = nisa.register_alloc()
        nisa.register_load(register, tile((1, 1), value=1.0))
        nisa.tensor_copy(nl.ndarray((8, 4), nl.float32), tile((8, 8))[:, nl.ds(register, 4)])

    with pytest.raises(TileError, match=r"float 1\.0"):
        run(kernel)


# What Python cannot do with a register


@pytest.mark.rule("R-language-10", "reject")
@pytest.mark.parametrize(
    "use",
    [
        int,
        float,
        bool,
        range,
        lambda register: [0, 1][register],
        lambda register: 1 if register else 2,
        lambda register: register == 1,
        lambda register: register < 1,
        lambda register: 7 // register,
        lambda register: register % 2,
        lambda register: register * 1.5,
        lambda register: nl.ndarray((4, 8), nl.float32)[:, 0:register],
    ],
)
def test_registers_in_python_raise_type_errors(use):
    with pytest.raises(TypeError) as caught:
        run(call(lambda: use(nisa.register_alloc(1))))
    assert isinstance(caught.value, TileError)
    assert caught.value.diagnostic.rule in ("R-language-10", "R-tensor.index-05")


@pytest.mark.rule("R-language-10", "accept")
def test_while_tests_a_register():
    def kernel(x):
        register = nisa.register_alloc(3)
        count = 0
        while register:
            count += 1
            nisa.register_move(register, 3 - count)
        assert count == 3

    assert [each.rule for each in full_run(kernel).diagnostics] == ["R-dynamic_range-06"]


@pytest.mark.rule("R-language-10", "reject")
def test_while_not_register_and_if_register():
    def negated(x):
        while not nisa.register_alloc(0):
            break

    def branch(x):
        if nisa.register_alloc(1):
            pass

    rejects("R-language-10", negated)
    rejects("R-language-10", branch)


def test_a_while_that_never_ends_is_found():
    def kernel(x):
        register = nisa.register_alloc(1)
        while register:
            nisa.memset(nl.ndarray((1, 1), nl.float32), value=0)

    with pytest.raises(TileError, match="never ends"):
        run(kernel)


# Recorded programs, shape mode, collecting


def dynamic_kernel(x, count):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    made = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(made, value=0)
    for row in range(x.shape[0]):
        nisa.dma_copy(out[row : row + 1], made)
    bound = nisa.register_alloc()
    nisa.register_load(bound, count)
    for i in nl.dynamic_range(bound):
        nisa.dma_copy(made, x[nl.ds(i * 2, 1)])
        nisa.dma_copy(out[nl.ds(i * 2 + 1, 1)], made)
    return out


def test_a_recorded_kernel_with_registers_runs_again_from_its_text():
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    count = np.array([[2]], np.int32)
    done = full_run(dynamic_kernel, x, count)
    want = np.zeros_like(x)
    want[[1, 3]] = x[[0, 2]]
    np.testing.assert_array_equal(done.result, want)
    text = show(done.session.graph)
    graph = parse_tile(text)
    assert show(graph) == text
    np.testing.assert_array_equal(run_graph(graph, [x, count], "trn2")[0], want)


def test_register_instructions_count_and_allocations_do_not():
    done = full_run(dynamic_kernel, np.zeros((6, 4), np.float32), np.array([[1]], np.int32))
    by_name = {}
    for (engine, name, _), times in done.session.counts.executed.items():
        by_name[engine, name] = by_name.get((engine, name), 0) + times
    assert by_name == {("vector", "memset"): 1, ("dma", "dma_copy"): 8, ("sync", "register_load"): 1}


def test_without_numbers_loops_run_once():
    seen = []

    def kernel(x, count):
        bound = nisa.register_alloc()
        nisa.register_load(bound, count)
        for i in nl.dynamic_range(bound):
            seen.append("range")
            nisa.dma_copy(nl.ndarray((1, 4), nl.float32), x[nl.ds(i, 1)])
        nl.fori_loop(0, bound, lambda i: seen.append("fori"))
        nl.while_loop(bound, lambda r: (seen.append("while"), nisa.register_load(r, count), r)[2])
        while bound:
            seen.append("bare")
            nisa.register_load(bound, count)

    arrays = spec((8, 4), "float32"), spec((1, 1), "int32")
    run_kernel(kernel, arrays, {}, "trn2", "strict", Options(shapes=True))
    assert seen == ["range", "fori", "while", "bare"]


def test_after_a_violation_a_register_is_unknown():
    def kernel(x):
        register = nisa.register_alloc()
        nisa.register_load(register, tile((1, 2), nl.int32))
        nisa.tensor_copy(nl.ndarray((8, 4), nl.float32), tile((8, 8))[:, nl.ds(register, 4)])
        moved = nisa.register_alloc()
        nisa.register_move(moved, register)
        nisa.register_store(nl.ndarray((1, 1), nl.int32), moved)

    done = run_kernel(kernel, (np.zeros((1, 1), np.float32),), {}, "trn2", "strict", collect=True)
    assert [each.rule for each in done.diagnostics] == ["R-register-01"]


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_costs_are_positive(target):
    def kernel(x):
        register = nisa.register_alloc(5)
        nisa.register_move(register, 6)
        made = nl.ndarray((1, 1), nl.int32)
        nisa.register_store(made, register)
        nisa.register_load(register, made)

    session = full_run(kernel, target=target).session
    ops = [op for op in session.graph.body if op.name in TABLE]
    assert [op.name for op in ops] == ["register_move", "register_store", "register_load"]
    assert all(op_cost(op, session.target)[1].latency_ns > 0 for op in ops)


def test_the_class_is_exported():
    assert nisa.VirtualRegister is VirtualRegister
    assert nisa.register_move.__name__ == "register_move"


def test_only_what_documents_a_register_takes_one():
    def kernel(x):
        made = tile((4, 4))
        nisa.tensor_scalar(made, made, nl.add, nisa.register_alloc(1))

    with pytest.raises(TypeError, match="a tensor or a number"):
        run(kernel)
