"""Kernels in tile IR as NKI source: structure, names, numbers, registers."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from tests.emit.kit import load, run_source, same
from tilewright.emit import Header, emit
from tilewright.emit.calls import number
from tilewright.errors import Location, TileNotImplementedError, TileValueError
from tilewright.ir.walk import walk
from tilewright.sim.run import run_graph
from tilewright.target import get_target
from tilewright.tile.memory import Buffer
from tilewright.tile.text import parse_tile

RNG = np.random.default_rng(0)
TRN2 = get_target("trn2")

SCALE = """kernel scale(%x: f32[256, 64]@hbm) -> (%out: f32[256, 64]@shared_hbm) {
  for %i in 0..2 {
    %tile = alloc f32[128, 64]@sbuf depth 2
    dma_copy %tile, %x[%i*128 : +128, :]
    tensor_scalar %tile, %tile, 2.0 {op0 = multiply}
    dma_copy %out[%i*128 : +128, :], %tile
  }
}
"""


def array(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def body(source: str) -> list[str]:
    """The lines of a kernel after its docstring, without their common indentation."""
    return [line.removeprefix("    ") for line in source.split('"""')[2].strip("\n").splitlines()]


def test_a_kernel_reads_like_one() -> None:
    source = same(parse_tile(SCALE), [array(256, 64)], header=Header("scale", ("12 us",)))
    assert (
        source
        == '''import nki
import nki.isa as nisa
import nki.language as nl

P = 128  # partitions of a tile
ROWS = 256
COLS = 64


@nki.jit
def scale(x):
    """NumPy's scale for trn2, written by tilewright for NKI 0.6.

    Args:
        x: float32[256, 64]

    Returns:
        out: float32[256, 64]

    Predicted:
        12 us
    """
    assert x.shape == (ROWS, COLS) and x.dtype == nl.float32

    out = nl.ndarray((ROWS, COLS), dtype=nl.float32, buffer=nl.shared_hbm, name="out")
    for i in range(ROWS // P):
        tile = nl.ndarray((P, COLS), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[nl.ds(i * P, P), :])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[nl.ds(i * P, P), :], src=tile)

    return out
'''
    )


def test_comments_carry_the_lines_that_instructions_come_from() -> None:
    graph = parse_tile(SCALE)
    for number_, op in enumerate(walk(graph)):
        op.location = Location("model.py" if number_ < 4 else "other.py", 10 + number_ // 2)
    source = emit(graph, TRN2, lines=lambda place: f"    text of {place}\n")
    comments = [line.strip() for line in source.splitlines() if "#" in line]
    assert comments == [
        "# line 10: text of model.py:10",
        "# line 11: text of model.py:11",
        "# other.py, line 12: text of other.py:12",
    ]
    assert "#" not in emit(graph, TRN2)
    assert "#" not in emit(graph, TRN2, lines=lambda place: None)


def test_names_are_unique_and_none_of_python_s() -> None:
    text = """kernel lambda(%nl: f32[4, 4]@hbm, %x: f32[4, 4]@hbm, %range: f32[4, 4]@hbm) -> (%y: f32[4, 4]@hbm) {
  %x_1 = alloc f32[4, 4]@sbuf
  dma_copy %x_1, %x
  %sum = alloc f32[4, 4]@sbuf
  dma_copy %sum, %nl
  %lambda = alloc f32[4, 4]@sbuf
  dma_copy %lambda, %range
  tensor_tensor %sum, %sum, %x_1 {op = add}
  tensor_tensor %sum, %sum, %lambda {op = add}
  dma_copy %y, %sum
}
"""
    graph = parse_tile(text)
    for value, name in zip([*graph.inputs, graph.ops[0].result], ["nl", "x", "range", "x"], strict=True):
        value.name = name
    source = same(graph, [array(4, 4) for _ in range(3)])
    (kernel,) = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    assert kernel.name == "lambda_"
    assert [each.arg for each in kernel.args.args] == ["nl_hbm", "x", "range_hbm"]
    names = {node.targets[0].id for node in ast.walk(kernel) if isinstance(node, ast.Assign)}  # type: ignore[attr-defined]
    assert names == {"x_tile", "sum_tile", "lambda_tile", "y"}


def test_a_tile_of_a_loop_may_have_the_name_of_one_that_is_over() -> None:
    text = """kernel two(%x: f32[128, 64]@hbm) -> (%out: f32[128, 64]@shared_hbm) {
  %a = alloc f32[128, 64]@sbuf
  dma_copy %a, %x
  %sum = alloc f32[128, 64]@sbuf
  tensor_scalar %sum, %a, 1.0 {op0 = add}
  for %i in 0..3 {
    %b = alloc f32[128, 64]@sbuf
    tensor_scalar %b, %sum, 2.0 {op0 = add}
    tensor_tensor %sum, %sum, %b {op = add}
  }
  for %k in 0..3 {
    %c = alloc f32[128, 64]@sbuf
    tensor_scalar %c, %sum, 2.0 {op0 = add}
    tensor_tensor %sum, %sum, %c {op = maximum}
  }
  dma_copy %out, %sum
}
"""
    graph = parse_tile(text)
    for op in walk(graph):
        for value in op.results:
            value.name = "tile"
        for region in op.regions:
            region.arguments[0].name = "i"
    source = same(graph, [array(128, 64)])
    # The first is over when the loops begin, the second is not.
    assert source.count("    tile = ") == 3 and source.count("tile_2 = ") == 1 and "tile_3" not in source
    assert source.count("for i in range(3)") == 2


def test_loops_with_bounds_and_steps() -> None:
    text = """kernel odd(%x: f32[8, 64]@hbm) -> (%out: f32[8, 64]@shared_hbm) {
  %t = alloc f32[8, 64]@sbuf
  dma_copy %t, %x
  for %i in 1..3 {
    tensor_scalar %t, %t, 2.0 {op0 = multiply}
    for %j in 0..64 step 32 {
      tensor_scalar %t[:, %i + %j : +2], %t[:, %i + %j : +2], 3.0 {op0 = add}
    }
  }
  for %k in 0..0 {
    dma_copy %out, %t
  }
  dma_copy %out, %t
}
"""
    source = same(parse_tile(text), [array(8, 64)])
    assert "for i in range(1, 3):" in source and "for j in range(0, 64, 32):" in source
    assert "t[:, nl.ds(i + j, 2)]" in source


def test_an_empty_loop() -> None:
    graph = parse_tile("kernel k(%x: f32[4]@hbm) -> (%x: f32[4]@hbm) {\n  for %i in 0..2 {\n  }\n}\n")
    source = same(graph, [array(4)])
    assert body(source) == ["for i in range(2):", "    pass", "", "return x"]


def test_several_results_and_results_that_are_arguments() -> None:
    text = """kernel pair(%x: f32[4]@hbm) -> (%a: f32[4]@shared_hbm, %x: f32[4]@hbm, %b: f32[4]@shared_hbm) {
  dma_copy %a, %x
  dma_copy %b, %x
}
"""
    source = same(parse_tile(text), [array(4)])
    assert source.endswith("    return a, x, b\n")


def test_addresses_are_given_and_lives_are_not() -> None:
    text = """kernel placed(%x: f32[128, 64]@hbm) -> (%out: f32[128, 64]@shared_hbm) {
  %a = alloc f32[128, 64]@sbuf address (0, 4096)
  dma_copy %a, %x
  dma_copy %out, %a
  dealloc %a
}
"""
    source = same(parse_tile(text), [array(128, 64)])
    assert "a = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf, address=(0, 4096))" in source
    assert "dealloc" not in source and "del " not in source


def test_copies_of_a_loop_s_tile_at_an_address_follow_each_other() -> None:
    text = """kernel placed(%x: f32[128, 512]@hbm) -> (%out: f32[128, 512]@shared_hbm) {
  for %i in 0..8 {
    %a = alloc f32[128, 64]@sbuf depth 3 address (0, 4096)
    dma_copy %a, %x[:, %i*64 : +64]
    dma_copy %out[:, %i*64 : +64], %a
  }
}
"""
    given = array(128, 512)
    source = same(parse_tile(text), [given])
    assert "buffer=nl.sbuf, address=(0, 4096 + i % 3 * 256))" in source
    made = run_source(source, [given]).session.graph
    tiles = [value for op in made.ops for value in op.results if isinstance(value, Buffer) and value.on_chip]
    assert [tile.address and tile.address.byte for tile in tiles] == [4096 + 256 * (i % 3) for i in range(8)]


def test_tensors_without_dims() -> None:
    graph = parse_tile("kernel k(%x: f32[]@hbm) -> (%y: f32[]@shared_hbm) {\n  dma_copy %y, %x\n}\n")
    assert "nisa.dma_copy(dst=y, src=x)" in emit(graph, TRN2)


def test_scratch_in_hbm() -> None:
    text = """kernel through(%x: f32[128, 64]@hbm) -> (%out: f32[128, 64]@shared_hbm) {
  %spill = alloc f32[128, 64]@hbm
  dma_copy %spill, %x
  dma_copy %out, %spill
}
"""
    source = same(parse_tile(text), [array(128, 64)])
    assert "spill = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.private_hbm)" in source


def test_registers() -> None:
    text = """kernel row(%x: f32[8, 64]@hbm, %n: i32[1, 1]@hbm) -> (%out: f32[1, 64]@shared_hbm) {
  %held = alloc i32[1, 1]@sbuf
  dma_copy %held, %n
  %r = register {factors = (), offset = none} : register
  register_load %r, %held
  %two = register {factors = (), offset = 2} : register
  %s = register %r, %two {factors = (1, -1), offset = 3} : register
  %t = alloc f32[1, 64]@sbuf
  dma_copy %t, %x@(0; [64, 1], [1, 64] by scalar %s * 64 < 8 dim 0)
  dma_copy %out, %t
}
"""
    graph = parse_tile(text)
    arrays = [array(8, 64), np.array([[4]], np.int32)]
    source = emit(graph, TRN2)
    assert "r = nisa.register_alloc()\n" in source and "two = nisa.register_alloc(2)\n" in source
    assert "s = r + 3 - two\n" in source
    assert "src=x.expand_dim(1).select(0, s)" in source
    (expected,) = run_graph(graph, arrays, "trn2")
    np.testing.assert_array_equal(run_source(source, arrays).result, expected)
    np.testing.assert_array_equal(expected, arrays[0][5:6])


def test_tiles_of_loops_take_turns_in_places_of_their_own() -> None:
    text = """kernel turns(%x: f32[128, 512]@hbm) -> (%out: f32[128, 512]@shared_hbm) {
  for %i in 0..512 step 256 {
    %a = alloc f32[128, 256]@sbuf depth 2 address (0, 0)
    dma_copy %a, %x[:, %i : +256]
    for %k in 0..4 {
      %b = alloc f32[128, 64]@sbuf depth 3 address (0, 4096, 512)
      tensor_scalar %b, %a[:, %k*64 : +64], 2.0 {op0 = multiply}
      %p = alloc f32[128, 64]@psum depth 2 address (0, 6144, 2048)
      tensor_scalar %p, %b, 1.0 {op0 = add}
      %c = alloc f32[128, 64]@sbuf address (0, 8192)
      tensor_copy %c, %p
      dma_copy %out[:, %i + %k*64 : +64], %c
    }
  }
}
"""
    source = same(parse_tile(text), [array(128, 512)])
    for place in ("(i // 256) % 2 * 1024", "4096 + ((i // 256) * 4 + k) % 3 * 512", "(3 + k % 2) * 2048", "8192"):
        assert f"address=(0, {place})" in source
    assert "address" not in emit(parse_tile(text), TRN2, addresses=False)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.125, "0.125"),
        (1e-06, "1e-6"),
        (1.5e-7, "1.5e-7"),
        (-1000000000.0, "-1e9"),
        (2500000.0, "2.5e6"),
        (16777216.0, "16777216.0"),
        (4096.0, "4096.0"),
        (-0.0, "-0.0"),
        (3, "3"),
        (float("inf"), 'float("inf")'),
        (float("-inf"), 'float("-inf")'),
        (-3.4028234663852886e38, "-3.4028235e38"),
        (0.1 + 0.2, "0.30000000000000004"),
        (float(np.float32(1e-6)), "1e-6"),
        (float(np.float32(0.1)), "0.1"),
        (0.08838834764831843, "0.08838834764831843"),
    ],
)
def test_numbers_as_people_write_them(value: float, text: str) -> None:
    assert number(value) == text
    assert repr(np.float32(eval(text))) == repr(np.float32(value))


def test_infinite_immediates_run() -> None:
    text = """kernel low(%x: f32[4, 4]@hbm) -> (%out: f32[4, 4]@shared_hbm) {
  %t = alloc f32[4, 4]@sbuf
  memset %t {value = -inf}
  dma_copy %out, %t
}
"""
    assert 'value=float("-inf")' in same(parse_tile(text), [array(4, 4)])


def test_what_a_version_lacks_is_refused() -> None:
    text = """kernel late(%x: f32[128, 64]@hbm) -> (%out: f32[128, 64]@shared_hbm) {
  %t = alloc f32[128, 64]@sbuf
  dma_copy %t, %x
  activate2 %t, %t, 2.0, 1.0, none, none {op = exp, op0 = multiply, op1 = add}
  dma_copy %out, %t
}
"""
    graph = parse_tile(text)
    trn3 = get_target("trn3")
    assert "nisa.activate2(" in emit(graph, trn3, api="0.4")
    with pytest.raises(TileNotImplementedError, match=r"nisa\.activate2 is not in NKI 0\.3; it came with 0\.4"):
        emit(graph, trn3, api="0.3")
    with pytest.raises(TileValueError, match="not known"):
        emit(graph, trn3, api="1.0")


def test_the_emitted_module_is_a_kernel_by_its_own_name() -> None:
    assert load(emit(parse_tile(SCALE), TRN2)).name == "scale"
