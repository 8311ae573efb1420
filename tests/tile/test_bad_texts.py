"""IR text that somebody changed: read, verified and run it ends with one diagnostic at its line, or means something."""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.emit.test_instructions import ALONE, example_calls, example_kernel, target_of
from tests.tensor.programs import KNOWN, random_program
from tests.tile.texts import mutants
from tilewright.errors import ERROR, TileError
from tilewright.ir.core import Graph
from tilewright.nki.kernel import as_kernel, run_kernel
from tilewright.sim.run import run_graph
from tilewright.target import get_target
from tilewright.tensor.interpret import interpret
from tilewright.tile.text import parse_tile
from tilewright.tile.verify import verify_graph
from tilewright.tile.view import View

MOST = 2_000_000
"""Elements of an array that is made to run a changed text."""


def is_located(found: tw.Diagnostic) -> bool:
    return found.location is not None and found.location.file == "<text>" and found.location.line > 0


def read(text: str) -> Graph | None:
    """The graph of a text, or None where it is refused as it should be."""
    try:
        graph = tw.parse(text)
    except TileError as error:
        assert is_located(error.diagnostic) and isinstance(error, SyntaxError), error
        return None
    assert str(tw.parse(str(graph))) == str(graph)
    return graph


def arrays_for(graph: Graph) -> list[np.ndarray] | None:
    types = [value.type for value in (*graph.inputs, *graph.outputs)]
    if any(prod(type.shape) > MOST for type in types):
        return None
    return [np.zeros(value.type.shape, value.type.dtype.np) for value in graph.inputs]


def try_tile(text: str, target: str) -> None:
    graph = read(text)
    if graph is None:
        return
    found = tw.verify(graph, target=target)
    assert all(map(is_located, found)), found
    errors = [each for each in found if each.severity == ERROR]
    if errors:
        # What the verifier refuses is refused by the simulator and by the timing model, whatever the arrays hold.
        for use in (lambda: tw.profile(graph, target=target), lambda: run_graph(graph, _zeros(graph), target)):
            with pytest.raises(TileError) as caught:
                use()
            assert caught.value.diagnostic == errors[0]
        return
    arrays = arrays_for(graph)
    if arrays is None:
        return
    try:
        run_graph(graph, arrays, target)
    except TileError as error:
        assert is_located(error.diagnostic), error


def _zeros(graph: Graph) -> list[Any]:
    """As many arrays as the kernel takes; they are not looked at before the kernel is."""
    return [np.zeros(1, np.float32) for _ in graph.inputs]


def try_tensor(text: str) -> None:
    graph = read(text)
    if graph is None:
        return
    arrays = arrays_for(graph)
    sizes = [prod(value.type.shape) for op in graph.ops for value in op.results]
    if arrays is None or max(sizes, default=0) > MOST:
        return
    try:
        interpret(graph, arrays)
    except TileError as error:
        assert is_located(error.diagnostic), error


@pytest.mark.req("S4-97")
@pytest.mark.parametrize("name", ALONE)
def test_changed_texts_of_every_instruction(name: str) -> None:
    target = target_of(name)
    kernel, arrays = example_kernel(example_calls()[name])
    text = str(run_kernel(as_kernel(kernel), arrays, {}, get_target(target), "strict").session.graph)
    graph = read(text)
    assert graph is not None and tw.verify(graph, target=target) == []
    for changed in mutants(text, 30, Random(name)):
        try_tile(changed, target)


@pytest.mark.req("S4-97")
@pytest.mark.parametrize("seed", range(40))
def test_changed_texts_of_random_programs(seed: int) -> None:
    random = Random(seed)
    text = str(random_program(random, KNOWN, 6))
    assert read(text) is not None
    for changed in mutants(text, 40, random):
        try_tensor(changed)


KERNEL = """kernel k(%x: f32[128, 64]@hbm) -> (%y: f32[128, 64]@shared_hbm) {
  %t = alloc f32[128, 64]@sbuf
  dma_copy %t, %x
  for %i in 0..2 {
    tensor_scalar %t[:, %i*32 : +32], %t[:, %i*32 : +32], 2.0 {op0 = multiply}
  }
  dma_copy %y, %t
}
"""

TEXTS: list[tuple[str, str, str, int]] = [
    # old, new, code, line
    ("%x: f32[128, 64]@hbm", "%x: f32[128, -64]@hbm", "E201", 1),
    ("%x: f32[128, 64]@hbm", "%x: f32[128, 10000000000000000000]@hbm", "E201", 1),
    ("%x: f32[128, 64]@hbm", "%x: f33[128, 64]@hbm", "E201", 1),
    ("%x: f32[128, 64]@hbm", "%x: f32[128, 64]@moon", "E201", 1),
    ("%x: f32[128, 64]@hbm", "%x: f32[128, 64]@hbm, %x: f32[1]@hbm", "E204", 1),
    ("%x: f32[128, 64]@hbm", "%x: f32[128, 64]@sbuf", "E101", 1),
    ("%x: f32[128, 64]@hbm", "%x: register", "E201", 3),
    ("%x: f32[128, 64]@hbm", "%x: f32[128, 64]@hbm, %r: register", "E221", 1),
    ("%y: f32[128, 64]@shared_hbm", "%y: f32[128, 64]@psum", "E101", 1),
    ("%y: f32[128, 64]@shared_hbm", "%y: f32[10000000000, 64]@hbm", "E303", 1),
    ("alloc f32[128, 64]@sbuf", "alloc f32[129, 64]@sbuf", "E104", 2),
    ("alloc f32[128, 64]@sbuf", "alloc f32[64]@sbuf", "E201", 5),
    ("alloc f32[128, 64]@sbuf", "alloc f32[128, 64]@sbuf\n  %u = alloc f32[64]@sbuf", "E107", 3),
    ("alloc f32[128, 64]@sbuf", "alloc f32[128, 0]@sbuf", "E201", 2),
    ("alloc f32[128, 64]@sbuf", "alloc f32[128, 640000]@sbuf", "E303", 2),
    ("alloc f32[128, 64]@sbuf", "alloc f32[128, 64000]@psum", "E105", 2),
    ("alloc f32[128, 64]@sbuf", "alloc f32[128, 64]@sbuf depth 0", "E201", 2),
    ("alloc f32[128, 64]@sbuf", "alloc f32[128, 64]@sbuf depth -1", "E201", 2),
    ("alloc f32[128, 64]@sbuf", "alloc f32[128, 64]@sbuf address (0, -4)", "E201", 2),
    ("alloc f32[128, 64]@sbuf", "alloc f32[128, 64]@hbm address (0, 0)", "E201", 2),
    ("alloc f32[128, 64]@sbuf", "alloc f32[128, 64]@sbuf address (5, 0)", "E303", 2),
    ("alloc f32[128, 64]@sbuf", "alloc f8e4m3fn[128, 64]@sbuf", "E106", 3),
    ("dma_copy %t, %x", "dma_copy %t", "E201", 3),
    ("dma_copy %t, %x", "dma_copy %t, %x, %x, %x, %x", "E201", 3),
    ("dma_copy %t, %x", "dma_copy %t, %z", "E203", 3),
    ("dma_copy %t, %x", "dma_copy %t, 3.0", "E201", 3),
    ("dma_copy %t, %x", "dma_copy %t, %x {colour = 3}", "E201", 3),
    ("dma_copy %t, %x", "dma_copy %t, %x {dge_mode = sideways}", "E201", 3),
    ("dma_copy %t, %x", "dma_copy %t, %x {dge_mode = 3}", "E201", 3),
    ("dma_copy %t, %x", "dma_copie %t, %x", "E202", 3),
    ("dma_copy %t, %x", "%t = alloc f32[1, 1]@sbuf", "E204", 3),
    ("dma_copy %t, %x", "dma_copy %t, %x[:, 60 : +64]", "E301", 3),
    ("dma_copy %t, %x", "dma_copy %t, %x[:, -1 : +64]", "E301", 3),
    ("dma_copy %t, %x", "dma_copy %t, %x[:, 0 : +64 : 2]", "E301", 3),
    ("dma_copy %t, %x", "dma_copy %t, %x[:, 63 : +64 : -2]", "E301", 3),
    ("dma_copy %t, %x", "dma_copy %t, %x[:, 0 : +0]", "E201", 3),
    ("dma_copy %t, %x", "dma_copy %t, %x[:, 0 : +-4]", "E201", 3),
    ("dma_copy %t, %x", "dma_copy %t, %x[:, 99999999999999999999 : +1]", "E201", 3),
    ("dma_copy %t, %x", "dma_copy %t, %x[:]", "E201", 3),
    ("dma_copy %t, %x", "dma_copy %t, %x@(9000; [64, 128], [1, 64])", "E301", 3),
    ("dma_copy %t, %x", "dma_copy %t, %x@(-1; [64, 128], [1, 64])", "E301", 3),
    ("dma_copy %t, %x", "dma_copy %t, %x@(0; [-64, 128], [1, 64])", "E301", 3),
    ("dma_copy %t, %x", "dma_copy %t, %x@(0; [64, 128], [1, 0])", "E201", 3),
    ("dma_copy %t, %x", "dma_copy %t, %x@(0; [64, 128], [1, 64] by scalar %t * 1 < 2 dim 0)", "E301", 3),
    ("dma_copy %t, %x", "dma_copy %t, %x@(0; [64, 128], [1, 64] by sideways %t * 1 < 1 dim 0)", "E201", 3),
    ("dma_copy %t, %x", "dma_copy %t, %x@(0; [64, 128], [1, 64] by vector 3 * 1 < 1 dim 0)", "E201", 3),
    ("0..2", "0..3", "E301", 5),
    ("0..2", "-1..2", "E301", 5),
    ("0..2", "0..2 step 0", "E220", 4),
    ("0..2", "0..1.5", "E220", 4),
    ("0..2", "0..%t", "E220", 4),
    ("0..2", "0..10000000000000000000000", "E220", 4),
    ("0..2", "0..2 {fast = true}", "E220", 4),
    ("%i*32 : +32], %t", "%j*32 : +32], %t", "E203", 5),
    ("%i*32 : +32], %t", "%t*32 : +32], %t", "E201", 5),
    ("%i*32 : +32], %t", "%i*-32 : +32], %t", "E301", 5),
    ("{op0 = multiply}", "{op0 = sing}", "E201", 5),
    ("{op0 = multiply}", "{op0 = 3}", "E201", 5),
    ("{op0 = multiply}", "{op0 = [multiply]}", "E201", 5),
    ("{op0 = multiply}", "", "E201", 5),
    ("{op0 = multiply}", "{op0 = multiply, op0 = add}", "E201", 5),
    (", 2.0 {", ", true {", "E201", 5),
    (", 2.0 {", f", {10**400} {{", "E201", 5),
    ("dma_copy %y, %t", "dealloc 3", "E220", 7),
    ("dma_copy %y, %t", "dealloc %t\n  dma_copy %y, %t", "E302", 8),
    ("dma_copy %y, %t", "%r = register {factors = (1,), offset = 0} : register", "E220", 7),
    ("dma_copy %y, %t", '%r = register {factors = (), offset = "no"} : register', "E220", 7),
    ("dma_copy %y, %t", "%r = register %t {factors = (1,), offset = 0} : register", "E220", 7),
    ("dma_copy %y, %t", "".join(f"for %a{n} in 0..2 {{\n" for n in range(70)) + "}\n" * 70, "E201", 70),
    ("\n}\n", "\n", "E201", 8),
]


@pytest.mark.req("S4-97")
@pytest.mark.parametrize(("old", "new", "code", "line"), TEXTS)
def test_every_kind_of_wrong_text(old: str, new: str, code: str, line: int) -> None:
    assert tw.verify(tw.parse(KERNEL)) == []
    assert KERNEL.count(old) >= 1
    text = KERNEL.replace(old, new, 1)
    try:
        graph = tw.parse(text)
    except TileError as error:
        found = error.diagnostic
    else:
        (found, *_) = tw.verify(graph)
        with pytest.raises(TileError) as caught:
            run_graph(graph, _zeros(graph))
        assert caught.value.diagnostic == found
    assert found.code == code and is_located(found), found
    assert found.location is not None and found.location.line == line


PROGRAM = """program p(%x: f32[4, 6], %i: i32[2]) -> (%3: f32[6]) {
  %0 = add %x, 1.0 : f32[4, 6]
  %1 = take %0, %i {axis = 0} : f32[2, 6]
  %2 = slice %1 {starts = (0, 0), sizes = (2, 6), steps = (1, 1)} : f32[2, 6]
  %3 = sum %2 {axes = (0,), keepdims = false} : f32[6]
}
"""

PROGRAMS: list[tuple[str, str, str, int]] = [
    ("add %x, 1.0 : f32[4, 6]", "add %x, 1.0 : f32[4, 7]", "E221", 2),
    ("add %x, 1.0 : f32[4, 6]", "add %x, 1.0 : i32[4, 6]", "E221", 2),
    ("add %x, 1.0", "add %x, %i", "E221", 2),
    ("add %x, 1.0", "add %x", "E220", 2),
    ("add %x, 1.0", "add %x, none", "E220", 2),
    ("add %x, 1.0", "add 2.0, 1.0", "E220", 2),
    ("add %x, 1.0", "bitwise_and %x, %x", "E221", 2),
    ("add %x, 1.0", "add %x, 1.0 {axis = 1}", "E220", 2),
    ("%0 = add", "%x = add", "E204", 2),
    ("%0 = add", "%9 = add", "E203", 3),
    ("{axis = 0}", "{axis = 2}", "E220", 3),
    ("{axis = 0}", "{axis = -1}", "E220", 3),
    ("{axis = 0}", "{axis = true}", "E220", 3),
    ("{axis = 0}", "{axis = 1.0}", "E220", 3),
    ("{axis = 0}", "", "E220", 3),
    ("take %0, %i", "take %0, %x", "E221", 3),
    ("sizes = (2, 6)", "sizes = (3, 6)", "E221", 4),
    ("starts = (0, 0)", "starts = (0, 1)", "E221", 4),
    ("starts = (0, 0)", "starts = (0,)", "E221", 4),
    ("steps = (1, 1)", "steps = (1, 0)", "E221", 4),
    ("steps = (1, 1)", "steps = (1, 1.5)", "E220", 4),
    ("axes = (0,)", "axes = (0, 0)", "E220", 5),
    ("axes = (0,)", "axes = 0", "E220", 5),
    ("keepdims = false", "keepdims = 0", "E220", 5),
    ("-> (%3: f32[6])", "-> (%4: f32[6])", "E203", 1),
    ("-> (%3: f32[6])", "-> (%3: f32[7])", "E201", 1),
    ("%x: f32[4, 6]", "%x: f32[4, 10000000000000000000]", "E201", 1),
    (": f32[6]\n}", ": f32[6] (%a: f32[1]) {\n  }\n}", "E201", 5),
]


@pytest.mark.req("S4-97")
@pytest.mark.parametrize(("old", "new", "code", "line"), PROGRAMS)
def test_ill_typed_programs_are_not_read(old: str, new: str, code: str, line: int) -> None:
    assert str(tw.parse(PROGRAM)) == PROGRAM and PROGRAM.count(old) >= 1
    with pytest.raises(TileError) as caught:
        tw.parse(PROGRAM.replace(old, new, 1))
    found = caught.value.diagnostic
    assert found.code == code and is_located(found), found
    assert found.location is not None and found.location.line == line


def test_ops_that_say_where_they_come_from_keep_that() -> None:
    text = KERNEL.replace("dma_copy %t, %x", 'dma_copy %t, %x[:, 0 : +32] loc("mine.py":12)')
    (found, *_) = tw.verify(tw.parse(text))
    assert str(found.location) == "mine.py:12"


def test_accesses_of_no_elements_are_refused_in_graphs_that_were_never_text():
    """A slice whose end lies before its start reaches nothing outside of its buffer: it is looked at by itself."""
    graph = parse_tile(
        "kernel k(%x: f32[4, 8]@hbm) -> (%x: f32[4, 8]@hbm) {\n  %t = alloc f32[4, 8]@sbuf\n  dma_copy %t, %x\n}\n"
    )
    assert verify_graph(graph) == []
    (op,) = [op for op in graph.ops if op.name == "dma_copy"]
    op.operands = tuple(replace_sizes(view, (4, -3)) for view in op.operands)
    assert {found.rule for found in verify_graph(graph)} >= {"R-tensor.index-01"}


def replace_sizes(view: View, sizes: tuple[int, ...]) -> View:
    return View(view.buffer, view.dtype, view.offset, sizes, view.strides)
