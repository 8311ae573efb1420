"""address=: bytes alias physically, rotation is legal, reading what another tensor overwrote is the error."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit import accepts, nisa, nl, rejects, run
from tilewright.dtypes import as_dtype
from tilewright.errors import TileError
from tilewright.rules import Reporter
from tilewright.sim.machine import Machine
from tilewright.sim.run import run_graph
from tilewright.target import get_target
from tilewright.tile.memory import SBUF, Address, Buffer
from tilewright.tile.text import parse_tile
from tilewright.tile.verify import verify_graph
from tilewright.tile.view import View


def at(
    partition: int, byte: int, shape: tuple[int, ...] = (128, 16), dtype: Any = nl.float32, buffer: Any = nl.sbuf
) -> Any:
    return nl.ndarray(shape, dtype, buffer, address=(partition, byte))


def filled(partition: int, byte: int, value: float, **details: Any) -> Any:
    made = at(partition, byte, **details)
    nisa.memset(made, value=value)
    return made


def stored(tensor: Any) -> Any:
    y = nl.ndarray(tensor.shape, tensor.dtype, nl.shared_hbm)
    nisa.dma_copy(y, tensor)
    return y


@pytest.mark.rule("R-tensor.address-01", "holds")
def test_the_free_offset_is_in_bytes() -> None:
    """64 bytes further is the 16th float32 element: the next tensor begins where this one ends."""

    def kernel(x: Any) -> Any:
        a, b = filled(0, 0, 1.0), filled(0, 64, 2.0)
        return stored(a), stored(b)

    a, b = accepts(kernel)
    assert (a == 1).all() and (b == 2).all()


@pytest.mark.rule("R-tensor.address-02", "accept")
def test_psum_tensors_start_at_a_bank() -> None:
    accepts(lambda x: nisa.memset(at(0, 3 * 2048, (128, 512), buffer=nl.psum), value=0) and None)


@pytest.mark.rule("R-tensor.address-02", "reject")
def test_psum_tensors_inside_a_bank() -> None:
    rejects("R-tensor.address-02", lambda x: at(0, 3 * 2048 + 64, shape=(128, 8), buffer=nl.psum))


@pytest.mark.rule("R-tensor.address-03", "accept")
@pytest.mark.parametrize(
    ("start", "partitions"), [(0, 128), (0, 65), (64, 64), (64, 33), (0, 32), (32, 32), (64, 5), (96, 1)]
)
def test_start_partitions_that_fit_the_size(start: int, partitions: int) -> None:
    accepts(lambda x: nisa.memset(at(start, 0, (partitions, 4)), value=0))


@pytest.mark.rule("R-tensor.address-03", "reject")
@pytest.mark.parametrize(("start", "partitions"), [(32, 65), (32, 64), (96, 32), (16, 16), (1, 1)])
def test_start_partitions_that_do_not(start: int, partitions: int) -> None:
    def kernel(x: Any) -> None:
        nisa.memset(at(0, 0, (128, 4))[start : start + partitions], value=0)

    if (start, partitions) == (96, 32):
        accepts(kernel)
    else:
        rejects("R-tensor.address-03", kernel)


def test_dma_may_start_at_any_partition() -> None:
    def kernel(x: Any) -> Any:
        t = nl.ndarray((128, 4), nl.float32, nl.sbuf)
        nisa.dma_copy(t[3:120], x)
        return stored(t[3:120])

    x = np.random.default_rng(0).standard_normal((117, 4)).astype(np.float32)
    np.testing.assert_array_equal(accepts(kernel, x), x)


@pytest.mark.rule("R-engine-06", "accept")
@pytest.mark.parametrize(("partitions", "source", "target"), [(64, 0, 64), (32, 32, 96), (17, 96, 0), (128, 0, 0)])
def test_halves_and_quadrants_move_across_partitions(partitions: int, source: int, target: int) -> None:
    def kernel(x: Any) -> Any:
        t = nl.ndarray((128, 4), nl.float32, nl.sbuf)
        nisa.dma_copy(t, x)
        u = nl.ndarray((128, 4), nl.float32, nl.sbuf)
        nisa.tensor_copy(u[target : target + partitions], t[source : source + partitions])
        return stored(u[target : target + partitions])

    x = np.random.default_rng(0).standard_normal((128, 4)).astype(np.float32)
    np.testing.assert_array_equal(accepts(kernel, x), x[source : source + partitions])


@pytest.mark.rule("R-engine-06", "reject")
@pytest.mark.parametrize(("partitions", "source", "target"), [(65, 0, 32), (96, 32, 0), (100, 28, 0)])
def test_more_than_a_half_does_not_move(partitions: int, source: int, target: int) -> None:
    def kernel(x: Any) -> None:
        t, u = filled(0, 0, 0), at(0, 64)
        nisa.tensor_copy(u[target : target + partitions], t[source : source + partitions])

    rejects("R-engine-06", kernel)


@pytest.mark.rule("R-tensor.address-04", "accept")
def test_rotation_through_two_addresses_is_legal() -> None:
    def kernel(x: Any) -> Any:
        y = nl.ndarray((8, 128, 16), nl.float32, nl.shared_hbm)
        tiles = []
        for i in range(8):
            t = at(0, (i % 2) * 64)
            nisa.memset(t, value=i)
            nisa.dma_copy(y[i], t)
            tiles.append(t)
        return y

    np.testing.assert_array_equal(accepts(kernel)[:, 0, 0], np.arange(8))


@pytest.mark.rule("R-tensor.address-04", "reject")
@pytest.mark.parametrize("keep", [True, False])
def test_reading_what_another_tensor_overwrote(keep: bool) -> None:
    """Also when the other tensor is gone by then."""

    def kernel(x: Any) -> Any:
        a = filled(0, 0, 1.0)
        b = filled(0, 32, 2.0)
        if not keep:
            del b
        return stored(a)

    found = rejects("R-tensor.address-04", kernel)
    first = kernel.__code__.co_firstlineno + 1
    assert re.search(rf"made is read after made \(allocated at .*, line {first + 1}\)\)", found.message)
    assert re.search(rf"made was allocated at .*, line {first}\)", found.notes[0])


def test_parts_that_do_not_overlap_stay_readable() -> None:
    def kernel(x: Any) -> Any:
        a = filled(0, 0, 1.0)
        b = filled(0, 32, 2.0)
        return stored(a[:, 0:8]), stored(b)

    a, b = accepts(kernel)
    assert (a == 1).all() and (b == 2).all()


def test_partitions_that_do_not_overlap_are_apart() -> None:
    def kernel(x: Any) -> Any:
        a = filled(0, 0, 1.0, shape=(64, 16))
        b = filled(64, 0, 2.0, shape=(64, 16))
        return stored(a), stored(b)

    a, b = accepts(kernel)
    assert (a == 1).all() and (b == 2).all()


def test_half_an_element_that_was_overwritten_counts() -> None:
    def kernel(x: Any) -> Any:
        a = filled(0, 0, 1.0, shape=(128, 4))
        filled(0, 14, 2.0, shape=(128, 1), dtype=nl.bfloat16)
        return stored(a)

    rejects("R-tensor.address-04", kernel)


def test_writing_again_makes_a_tensor_readable_again() -> None:
    def kernel(x: Any) -> Any:
        a = filled(0, 0, 1.0)
        b = filled(0, 0, 2.0)
        first = stored(b)
        nisa.memset(a, value=3.0)
        return first, stored(a)

    b, a = accepts(kernel)
    assert (b == 2).all() and (a == 3).all()


def test_the_rewritten_tensor_wins_over_the_second() -> None:
    def kernel(x: Any) -> Any:
        a = filled(0, 0, 1.0)
        b = filled(0, 0, 2.0)
        nisa.memset(a[:, 0:1], value=3.0)
        return stored(b)

    first = kernel.__code__.co_firstlineno + 1
    found = rejects("R-tensor.address-04", kernel)
    assert f", line {first}))" in found.message and f", line {first + 1})" in found.notes[0]


def test_what_another_tensor_wrote_is_not_this_ones() -> None:
    """What a tensor shows of bytes that only another tensor wrote is undefined: written belongs to the tensor."""

    def kernel(x: Any) -> Any:
        filled(0, 0, 1.0)
        return stored(at(0, 0))

    rejects("R-tensor-18", kernel)


def test_looking_at_an_unwritten_tensor_leaves_the_other_alone() -> None:
    def kernel(x: Any) -> Any:
        a = filled(0, 0, 1.0)
        nisa.tensor_copy(nl.ndarray((128, 16), nl.float32, nl.sbuf), at(0, 0))
        return stored(a)

    assert (accepts(kernel) == 1).all()


def test_accumulation_into_a_bank_that_was_taken() -> None:
    def kernel(x: Any) -> None:
        k = nl.ndarray((128, 128), nl.float32, nl.sbuf)
        nisa.memset(k, value=1)
        a = at(0, 0, (128, 128), buffer=nl.psum)
        nisa.nc_matmul(a, k, k)
        b = at(0, 0, (128, 128), buffer=nl.psum)
        nisa.nc_matmul(b, k, k)
        nisa.nc_matmul(a, k, k)

    rejects("R-tensor.address-04", kernel)


@pytest.mark.req("S3-04")
def test_a_fresh_tensor_at_the_same_bank_starts_accumulating_anew() -> None:
    def kernel(x: Any) -> Any:
        k = nl.ndarray((128, 16), nl.float32, nl.sbuf)
        nisa.memset(k, value=1)
        y = nl.ndarray((3, 16, 16), nl.float32, nl.shared_hbm)
        for i in range(3):
            p = at(0, 0, (16, 16), buffer=nl.psum)
            for _ in range(i + 1):
                nisa.nc_matmul(p, k, k)
            s = nl.ndarray((16, 16), nl.float32, nl.sbuf)
            nisa.tensor_copy(s, p)
            nisa.dma_copy(y[i], s)
        return y

    np.testing.assert_array_equal(run(kernel)[:, 0, 0], [128, 256, 384])


@pytest.mark.rule("R-tensor.address-05", "accept")
@pytest.mark.rule("R-tensor.address-05", "reject")
def test_alignment() -> None:
    aligned: Any = get_target("trn2").replace({"memory.sbuf_min_align": 64})
    accepts(lambda x: (at(0, 64), None)[1], target=aligned)
    rejects("R-tensor.address-05", lambda x: at(0, 32), target=aligned)


@pytest.mark.rule("R-tensor.address-06", "accept")
@pytest.mark.rule("R-tensor.address-06", "reject")
def test_a_tensor_ends_inside_the_usable_part() -> None:
    usable = get_target("trn2")["memory.sbuf_usable_bytes"]
    accepts(lambda x: (at(0, usable - 64), None)[1])
    rejects("R-tensor.address-06", lambda x: at(0, usable - 32))
    rejects("R-tensor.address-06", lambda x: at(1, 0))
    rejects("R-tensor.address-06", lambda x: at(-1, 0, (4, 4)))
    rejects("R-tensor.address-06", lambda x: at(0, 16384, (128, 512), buffer=nl.psum))


@pytest.mark.rule("R-tensor.address-04", "accept")
def test_what_a_released_tensor_took_is_taken_back():
    """A buffer that is allocated early and written after another, since released, has used its place."""
    text = """\
kernel late(%x: f32[128, 16]@hbm) -> (%y: f32[128, 16]@shared_hbm) {
  %late = alloc f32[128, 16]@sbuf address (0, 0)
  memset %late {value = 1.0}
  %first = alloc f32[128, 16]@sbuf address (0, 32)
  memset %first {value = 2.0}
  dealloc %first
  dma_copy %late, %x
  dma_copy %y, %late
}
"""
    x = np.arange(2048, dtype=np.float32).reshape(128, 16)
    (y,) = run_graph(parse_tile(text), [x], get_target("trn2"))
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(
    ("place", "rule"),
    [
        ("@sbuf depth 2 address (0, 0)", None),
        ("@psum depth 2 address (0, 0, 2048)", None),
        ("@psum depth 2 address (0, 0)", "R-tensor.address-02"),
        ("@psum depth 2 address (0, 14336, 2048)", "R-tensor.address-06"),
        ("@sbuf depth 2 address (0, 212720)", "R-tensor.address-06"),
        ("@sbuf address (64, 0)", "R-tensor.address-06"),
    ],
)
def test_addresses_of_tile_ir_are_verified_for_all_copies(place: str, rule: str | None):
    text = f"""kernel k(%x: f32[128, 64]@hbm) -> (%y: f32[128, 64]@shared_hbm) {{
  for %i in 0..4 {{
    %t = alloc f32[128, 64]{place}
    memset %t {{value = 0}}
  }}
}}
"""
    rules = [each.rule for each in verify_graph(parse_tile(text), "trn2")]
    assert rule is None or rule in rules
    assert rule is not None or not rules


@pytest.mark.parametrize("address", [(0, 0, 64), (0,), 64, (0, 1.5), "ab"])
def test_what_is_no_address_is_refused(address: Any):
    def kernel(a):
        nl.ndarray((128, 16), nl.float32, nl.sbuf, address=address)

    with pytest.raises(TileError, match="first partition, byte offset") as caught:
        run(kernel, np.zeros((1, 1), np.float32))
    assert caught.value.diagnostic.code == "E108"


# Which buffer owns what, against a model that knows the writer of every byte.


ROW, ROWS = 16, 4


@st.composite
def _steps(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Buffers that come and go at a few addresses, and accesses of their rows and columns."""
    made: list[tuple[Any, ...]] = []
    shapes: list[tuple[int, int]] = []
    living: list[int] = []
    for _ in range(draw(st.integers(4, 30))):
        kind = draw(st.sampled_from(["allocate", "release", "write", "write", "read", "read"]))
        if kind == "allocate" or not living:
            rows, columns = draw(st.sampled_from([(ROWS, ROW), (2, ROW), (ROWS, 8), (1, 4)]))
            first, byte = draw(st.sampled_from([0, 0, 0, 32, 64])), draw(st.sampled_from([0, 0, 0, 4, 8, 12]))
            dtype = draw(st.sampled_from(["uint8", "uint16", "float32"]))
            columns //= as_dtype(dtype).itemsize
            made.append(("allocate", len(shapes), rows, columns, first, byte, dtype))
            living.append(len(shapes))
            shapes.append((rows, columns))
            continue
        which = draw(st.sampled_from(living))
        if kind == "release":
            living.remove(which)
            made.append((kind, which))
            continue
        rows, columns = shapes[which]
        top, left = draw(st.integers(0, rows - 1)), draw(st.integers(0, columns - 1))
        size = (draw(st.integers(1, rows - top)), draw(st.integers(1, columns - left)))
        made.append((kind, which, top, left, *size))
    return made


@given(_steps())
def test_what_was_overwritten_is_told_as_by_a_model_of_every_byte(steps: list[tuple[Any, ...]]) -> None:
    reporter = Reporter("strict", collect=True)
    machine = Machine(get_target("trn2"), reporter)
    buffers: dict[int, tuple[Buffer, int, int]] = {}
    owner: dict[tuple[int, int], int] = {}
    written: dict[int, set[tuple[int, int]]] = {}
    for kind, which, *numbers in steps:
        if kind == "allocate":
            rows, columns, first, byte, dtype = numbers
            buffer = Buffer(as_dtype(dtype), (rows, columns), SBUF, f"b{which}", Address(first, byte))
            machine.allocate(buffer)
            buffers[which], written[which] = (buffer, first, byte), set()
            continue
        buffer, first, byte = buffers[which]
        if kind == "release":
            machine.release(buffer)
            continue
        top, left, height, width = numbers
        columns = buffer.shape[1]
        view = View(buffer, buffer.dtype, top * columns + left, (height, width), (columns, 1))
        size = buffer.dtype.itemsize
        cells = {
            (first + top + i, byte + size * left + j) for i, j in itertools.product(range(height), range(size * width))
        }
        if kind == "write":
            machine.clock += 1
            machine.write(view, np.zeros((height, width), buffer.dtype.np), None)
            owner.update(dict.fromkeys(cells, which))
            written[which] |= cells
            continue
        reporter.diagnostics.clear()
        machine.read(view, False, None)
        lost = any(owner[cell] != which for cell in cells & written[which])
        found = any(each.rule == "R-tensor.address-04" for each in reporter.diagnostics)
        assert found == lost, (kind, which, numbers)


def test_buffers_that_rotate_through_an_address_are_one_place() -> None:
    machine = Machine(get_target("trn2"), Reporter("strict"))
    for number in range(300):
        machine.allocate(Buffer(as_dtype("uint8"), (4, 16), SBUF, f"b{number}", Address(0, 64 * (number % 3))))
    assert len(machine.places[SBUF].slots) == 3
