"""Parts of the Tensor engine's array: products at different positions run at the same time, at the same one in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.kit import full_run, nisa, nl, np
from tests.timing.test_replay import TARGET, Machine
from tilewright.report.timing import time_run
from tilewright.sim.session import Options
from tilewright.target import get_target
from tilewright.tile.costed import op_cost
from tilewright.tile.record import Cost, Tile
from tilewright.timing.node import ENGINE
from tilewright.timing.summary import Timing

FULL_CLOCK = TARGET.replace({"tensor.throttle_fraction": 1})


def product(squares: int) -> Cost:
    """A product of 400 ns in squares of the array, after which another may be issued 50 ns later; 0 is all of it."""
    return Cost(50, 500, tile=Tile(squares, 0.25, 400)) if squares else Cost(400, 500)


def starts(*tiles: int, order: str = "scheduled", same_result: bool = False) -> list[float]:
    machine = Machine(order, FULL_CLOCK)
    result = machine.tile()
    for i, squares in enumerate(tiles):
        machine.run(f"i{i}", "tensor", product(squares), writes=[result if same_result else machine.tile(line=i)])
    found = list(machine.starts().values())
    assert machine.replay.busy_ns()["tensor"] <= max(node.busy_end for node in machine.nodes.values())
    return found


@pytest.mark.parametrize("order", ["scheduled", "written"])
def test_parts_run_side_by_side(order: str) -> None:
    assert starts(0b0001, 0b0010, 0b0100, 0b1000, order=order) == [0, 50, 100, 150]
    # The same part, one that shares a square with it, and all of the array wait until it is free.
    assert starts(0b0001, 0b0001, order=order) == [0, 400]
    assert starts(0b0011, 0b0110, order=order) == [0, 400]
    assert starts(0b0001, 0, 0b0001, order=order) == [0, 400, 800]
    # Sums in one place of PSUM are added up one after the other.
    assert starts(0b0001, 0b0010, order=order, same_result=True) == [0, 400]


def test_as_scheduled_a_free_part_does_not_wait_and_all_of_the_array_is_not_kept_from_its_turn() -> None:
    assert starts(0b0001, 0b0001, 0b0010) == [0, 400, 50]
    assert starts(0b0001, 0, 0b0010, 0b0010) == [0, 400, 800, 1200]


def test_the_part_is_told_as_the_reason() -> None:
    machine = Machine("scheduled", FULL_CLOCK)
    machine.run("a", "tensor", product(1), writes=[machine.tile()])
    machine.run("b", "tensor", product(1), writes=[machine.tile(line=2)])
    machine.replay.finish()
    assert machine.nodes["b"].why == ENGINE and machine.nodes["b"].cause is machine.nodes["a"]
    # 800 ns in all, counted once where parts are busy together.
    assert machine.replay.busy_ns()["tensor"] == 800


def products(count: int, k: int, m: int, size: tuple[int, int] | None) -> Callable[..., Any]:
    """Products of [k, m] and [k, 512], dealt to the parts of the array if a size is given."""
    rows, columns = size or (128, 128)

    def kernel(a: Any, b: Any) -> Any:
        left = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
        right = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(left, a)
        nisa.dma_copy(right, b)
        row = column = 0
        made = None
        for i in range(count):
            made = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            row, column = i * rows % 128, i * rows // 128 * columns % 128
            place = {} if size is None else {"tile_position": (row, column), "tile_size": size}
            nisa.nc_matmul(made[column : column + m], left[row : row + k, :m], right[row : row + k], **place)
        out = nl.ndarray((m, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        copied = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        assert made is not None
        nisa.tensor_copy(copied[column : column + m], made[column : column + m])
        nisa.dma_copy(out, copied[column : column + m])
        return out

    return kernel


def timed(k: int, m: int, size: tuple[int, int] | None, target: str = "trn2") -> Timing:
    arrays = np.zeros((128, 128), nl.bfloat16), np.zeros((128, 512), nl.bfloat16)
    done = full_run(products(256, k, m, size), *arrays, target=target, options=Options(shapes=True))
    found = time_run(done)[0]
    assert found.bound_error == 0 and found.engine_busy_us["tensor"] <= found.latency_us
    return found


@pytest.mark.parametrize(("k", "m", "size", "parts"), [(128, 32, (128, 32), 4), (128, 64, (128, 64), 2)])
def test_columns_in_parts_take_a_part_of_the_time(k: int, m: int, size: tuple[int, int], parts: int) -> None:
    alone, together = timed(k, m, None), timed(k, m, size)
    assert together.engine_busy_us["tensor"] == pytest.approx(alone.engine_busy_us["tensor"] / parts, rel=0.2)
    assert together.peak_roofline_us == pytest.approx(alone.peak_roofline_us / parts, rel=0.01)


@pytest.mark.parametrize(("rows", "times"), [(64, 4), (32, 8)])
def test_rows_in_parts_also_bring_back_the_clock(rows: int, times: int) -> None:
    # Few rows alone run at half the clock; parts that run together use all rows.
    alone, together = timed(rows, 128, None), timed(rows, 128, (rows, 128))
    assert alone.engine_busy_us["tensor"] == pytest.approx(together.engine_busy_us["tensor"] * times, rel=0.15)


def test_squares() -> None:
    # As many of [32, 32] at once as there are banks, the first of them at half the clock; one in 64 cycles at most.
    cycles = timed(32, 32, (32, 32)).engine_busy_us["tensor"] * get_target("trn2")["clock_ghz.tensor"] * 1000 / 256
    assert 64 <= cycles < 96


def test_halves_on_trn1() -> None:
    alone, together = timed(64, 128, None, "trn1"), timed(64, 128, (64, 128), "trn1")
    assert together.engine_busy_us["tensor"] < 0.6 * alone.engine_busy_us["tensor"]


def test_all_of_the_array_is_no_part() -> None:
    graph = full_run(
        products(4, 128, 128, (128, 128)), np.zeros((128, 128), nl.bfloat16), np.zeros((128, 512), nl.bfloat16)
    )
    op = next(op for op in graph.session.graph.body.ops if op.name == "nc_matmul")
    assert op_cost(op, get_target("trn2"))[1].tile is None
