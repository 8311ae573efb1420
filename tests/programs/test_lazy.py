"""Arrays on a device whose work waits until a number is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.kit import nisa, nki, nl
from tests.programs.kernels import doubled, through_scratch
from tilewright.programs.call import calls_of
from tilewright.programs.lazy import Device, Handle
from tilewright.programs.program import Program


def test_a_function_that_gives_back_what_it_was_given() -> None:
    device = Device("trn2")
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = device.upload(array)
    same, doubled = device.apply(lambda a: a, x), device.apply(lambda a: a * 2, x)
    np.testing.assert_array_equal(device.read(same), array)
    np.testing.assert_array_equal(device.read(doubled), 2 * array)
    # With nothing to run, too.
    again = device.apply(lambda a: np.reshape(a, (3, 4)), x)
    np.testing.assert_array_equal(device.read(again), array)


def test_what_failed_does_not_fail_again_for_others() -> None:
    """A kernel that is out of bounds: its results are lost, however often they are asked for; what comes after runs."""

    @nki.jit
    def picked(table: Any, rows: Any) -> Any:
        out = nl.ndarray(table.shape, dtype=table.dtype, buffer=nl.shared_hbm)
        at, tile = nl.load(rows), nl.ndarray(table.shape, dtype=table.dtype, buffer=nl.sbuf)
        pattern = [[table.shape[1], table.shape[0]], [1, table.shape[1]]]
        nisa.dma_copy(tile, table.ap(pattern=pattern, offset=0, vector_offset=at, indirect_dim=0))
        nl.store(out, tile)
        return out

    device = Device("trn2")
    x = np.arange(64, dtype=np.float32).reshape(16, 4)
    table = device.upload(x)
    wrong, right = (device.upload(np.full((16, 1), row, np.int32)) for row in (16, 15))
    lost = device.apply(lambda a, b: device.capture(picked, (a, b), {}), table, wrong)
    for _ in range(2):
        with pytest.raises(IndexError, match="index 16 "):
            device.read(lost)
    with pytest.raises(IndexError, match="index 16 "):
        device.apply(lambda a: a + 1, lost)
    made = device.apply(lambda a, b: device.capture(picked, (a, b), {}), table, right)
    np.testing.assert_array_equal(device.read(made), np.broadcast_to(x[15], (16, 4)))
    np.testing.assert_array_equal(device.read(table), x)


def called(kernel: Any, x: Handle) -> Handle:
    return x.device.apply(lambda a: x.device.capture(kernel, (a,), {}), x)


def stepped(target: str) -> Program:
    """Two kernels and a step between them; what the first gives is not held."""
    device = Device(target)
    y = called(through_scratch, device.upload(np.arange(64, dtype=np.float32).reshape(8, 8)))
    device.step()
    device.step()
    z = called(doubled, y)
    del y
    assert device.read(z).sum() == 2 * (64 * 63 / 2 + 64)
    (program,) = device.programs
    return program


@pytest.mark.req("S1-08", "S1-09", "S1-15")
def test_a_step_that_separates_nothing_is_no_barrier() -> None:
    program = stepped("trn2")
    assert [each.kernels for each in program.plan.executables] == [["through_scratch", "doubled"]]
    assert not program.plan.barriers and not program.plan.demotions
    (note,) = program.plan.notes
    assert "the step at " in note and "through_scratch and doubled are one executable without it" in note
    assert program.example is not None
    whole = program.run(program.example)
    program.replan(replace(program.wishes, keep_steps=True))
    assert [each.kernels for each in program.plan.executables] == [["through_scratch"], ["doubled"]]
    assert program.plan.barriers[0].reason == "the program asks for it"
    assert [each.tobytes() for each in program.run(program.example)] == [each.tobytes() for each in whole]


@pytest.mark.req("S1-09")
def test_a_step_is_kept_where_a_tensor_would_have_to_be_moved_instead() -> None:
    plan = stepped("trn1").plan
    assert [each.kernels for each in plan.executables] == [["through_scratch"], ["doubled"]]
    (barrier,) = plan.barriers
    assert barrier.rule is None and barrier.reason == "the program asks for it"
    (note,) = plan.notes
    assert "may be one executable, with tensors moved to private memory" in note


def test_steps_are_kept_apart_from_barriers_in_text_and_data(tmp_path: Any) -> None:
    program = stepped("trn2")
    assert str(tw.parse(str(program.graph))) == str(program.graph)
    again = tw.load_program(program.save(tmp_path / "saved"))
    assert len(again.plan.executables) == 1 and "the step at " in again.plan.notes[0]
    program.replan(replace(program.wishes, keep_steps=True))
    assert len(tw.load_program(program.save(tmp_path / "kept")).plan.executables) == 2


def test_a_step_after_which_the_host_reads_is_a_barrier() -> None:
    device = Device("trn2")
    y = called(doubled, device.upload(np.ones((4, 4), np.float32)))
    device.step()
    assert device.read(y).sum() == 32
    z = called(doubled, y)
    assert device.read(z).sum() == 64 and len(device.programs) == 2


@pytest.mark.req("S1-03", "S1-04")
def test_arrays_stay_on_the_device_until_they_are_read() -> None:
    """Five arrays up, two kernels and NumPy between them, one number down; nothing else moves, nothing runs before."""
    device = Device("trn1")
    arrays = [np.full((4, 4), value, np.float32) for value in range(5)]
    held = [device.upload(each) for each in arrays]
    whole = held[0]
    for each in held[1:]:
        whole = device.apply(np.add, whole, each)
    made = called(doubled, called(doubled, whole))
    total = device.apply(np.sum, made)
    assert len(calls_of(device.graph)) == 2 and not device.programs
    moved = device.transfers
    assert (moved.uploads, moved.downloads, moved.uploaded_bytes) == (5, 0, 5 * 64)
    assert device.read(total) == 4 * 10 * 16
    assert (moved.uploads, moved.downloads, moved.downloaded_bytes) == (5, 1, 4)
    assert not calls_of(device.graph) and len(device.programs) == 1
    np.testing.assert_array_equal(device.read(made), 4 * sum(arrays))
    assert len(device.programs) == 1, "what ran is there"


@pytest.mark.req("S1-10")
def test_a_round_trip_gives_the_same_bits() -> None:
    x = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    device = Device("trn1")
    lazy = device.read(called(through_scratch, called(doubled, device.upload(x))))
    assert len(device.programs) == 1
    by_host = device.upload(device.read(called(doubled, device.upload(x))))
    assert device.read(called(through_scratch, by_host)).tobytes() == lazy.tobytes() and len(device.programs) == 3


def test_a_refused_call_leaves_no_arrays_on_the_device() -> None:
    """A script that computes in another way what is refused would hold every array that it tried, until it ends."""
    device = Device("trn2")
    x = device.upload(np.ones((4, 4), np.float32))
    made = called(doubled, x)
    tall, idle = (device.upload(np.ones((200, 4), np.float32)) for _ in range(2))
    for _ in range(3):
        with pytest.raises(tw.TileError, match="partition dimension 200 exceeds"):
            device.apply(lambda a, b: device.capture(doubled, (b,), {}) + a, x, tall)
        assert len(device.graph.inputs) == 1
    other = device.upload(np.full((4, 4), 3, np.float32))
    total = device.apply(lambda a, b: a + b, made, other)
    # What was refused is there for other calls.
    rows = device.apply(lambda a: a.sum(axis=0), tall)
    assert [each.name for each in device.graph.inputs] == ["x0", "x1", "x2"]
    np.testing.assert_array_equal(device.read(total), np.full((4, 4), 5))
    np.testing.assert_array_equal(device.read(rows), np.full(4, 200))
    assert device.read(idle).sum() == 800


def test_a_barrier_of_a_script_separates_what_is_pending_on_a_device() -> None:
    """Outside of a function that is captured; without it both kernels are one executable."""
    x = np.ones((4, 4), np.float32)
    for separate in (False, True):
        device = Device("trn2")
        tw.barrier()  # nothing to separate
        y = called(doubled, device.upload(x))
        if separate:
            tw.barrier()
        device.read(called(doubled, y))
        (program,) = device.programs
        assert len(program.plan.executables) == 1 + separate
    assert "the program asks for it" in program.plan.barriers[0].reason
