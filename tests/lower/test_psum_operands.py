"""Copies out of PSUM that nobody needs: readers read what was copied, where it lies there as the copy does."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.lower.order.psum_operands import read_in_psum, redo, undo
from tilewright.sim.run import run_graph
from tilewright.target import get_target
from tilewright.tile.text import parse_tile

KERNEL = """
kernel read_again(%a: f32[64, 32]@hbm) -> (%out: f32[64, READ]@shared_hbm) {{
  %a_1 = alloc f32[64, 32]@sbuf
  dma_copy %a_1, %a
  %bank = alloc f32[64, 32]@psum
  tensor_copy %bank, %a_1 {{engine = vector}}
  %copied = alloc f32[64, 64]@sbuf
  memset %copied {{value = 7.0}}
  tensor_copy {dst}, {src} {{engine = vector}}
  %made = alloc f32[64, READ]@sbuf
  activation %made, {read} {{op = tanh}}
  dma_copy %out, %made
}}
"""

READS = [
    # What is written, copied and read, in how many columns, and where that lies in PSUM; None: it does not.
    ("%copied[:, 0 : +32]", "%bank", "%copied[:, 0 : +32]", 32, "%bank"),
    ("%copied[:, 8 : +32]", "%bank", "%copied[:, 11 : +10]", 10, "%bank[:, 3 : +10]"),
    ("%copied[:, 0 : +16]", "%bank[:, 0 : +16 : 2]", "%copied[:, 2 : +4]", 4, "%bank[:, 4 : +4 : 2]"),
    ("%copied[:, 0 : +32 : 2]", "%bank", "%copied[:, 0 : +16]", 16, None),
    ("%copied[:, 0 : +32 : 2]", "%bank", "%copied[:, 0 : +16 : 2]", 16, None),
    ("%copied[:, 0 : +32]", "%bank", "%copied[:, 20 : +20]", 20, None),
    ("%copied[:, 8 : +32]", "%bank", "%copied[:, 4 : +8]", 8, None),
]


@pytest.mark.parametrize(("dst", "src", "read", "columns", "there"), READS)
def test_reads_in_psum(dst: str, src: str, read: str, columns: int, there: str | None) -> None:
    text = KERNEL.format(dst=dst, src=src, read=read).replace("READ", str(columns))
    graph, target = parse_tile(text), get_target("trn2")
    before = str(graph)
    a = np.random.default_rng(0).standard_normal((64, 32), dtype=np.float32)
    wanted = run_graph(graph, [a], target)
    changes = read_in_psum(graph, target)
    assert bool(changes) == (there is not None)
    after = str(graph)
    if there is not None:
        assert f"activation %made, {there} {{" in after and after.count("tensor_copy") == 1
    np.testing.assert_array_equal(run_graph(graph, [a], target), wanted)
    undo(changes)
    assert str(graph) == before
    redo(changes)
    assert str(graph) == after
