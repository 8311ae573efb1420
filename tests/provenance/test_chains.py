"""Long chains of kernels: each launch is looked into once, and the same finding of a script once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.cli.kit import CommandLine
from tests.kit import nisa, nki, nl
from tilewright.nki import again
from tilewright.nki.earlier import forget

F = np.float32
LAYERS = 7


@nki.jit
def mixed(a, b):
    """a - b, of which infinity less infinity is NaN."""
    one = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    other = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=one, src=a)
    nisa.dma_copy(dst=other, src=b)
    nisa.tensor_tensor(dst=one, data1=one, data2=other, op=nl.subtract)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=one)
    return out


@nki.jit
def chosen(x, table):
    """The row of the table with the number of the largest element."""
    n = x.shape[0]
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    top = nl.ndarray((n, 8), dtype=x.dtype, buffer=nl.sbuf)
    nisa.max8(dst=top, src=tile)
    index = nl.ndarray((n, 8), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.nc_find_index8(dst=index, data=tile, vals=top)
    rows = nl.ndarray((n, table.shape[1]), dtype=table.dtype, buffer=nl.sbuf)
    width = table.shape[1]
    nisa.dma_copy(dst=rows, src=table.ap(pattern=[[width, n], [1, width]], vector_offset=index[:, 0:1]))
    out = nl.ndarray((n, width), dtype=table.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=rows)
    return out


@pytest.mark.req("S0-12", "S0-14")
def test_each_launch_is_looked_into_once(monkeypatch: pytest.MonkeyPatch):
    """Both arguments of every kernel are spoilt by the one before it: that are twice as many ways for each layer."""
    looked: list[Any] = []

    def counted(*args: Any) -> Any:
        looked.append(args)
        return found_in(*args)

    found_in = again.found_in
    monkeypatch.setattr(again, "found_in", counted)
    forget()
    x = np.full((8, 8), 3e38, F)
    x = mixed(x, -x)
    for _ in range(LAYERS):
        x = mixed(x + F(1), x * F(2))
    with pytest.raises(tw.TileError, match="NaN, born in subtract of 3e") as caught:
        chosen(x, np.zeros((8, 8), F))
    births = caught.value.diagnostic.births
    assert births is not None and len(births) > 2
    assert len(looked) <= LAYERS + 1


def test_a_finding_that_is_known_is_not_looked_into_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    looked: list[Any] = []
    run_again = again._run_again
    monkeypatch.setattr(again, "_run_again", lambda *args: (looked.append(args), run_again(*args))[1])
    script = tmp_path / "model.py"
    script.write_text(
        "import numpy as np\n"
        "from tests.provenance.test_chains import chosen, mixed\n"
        "x = np.full((8, 8), 3e38, np.float32)\n"
        "for _ in range(5):\n"
        "    x = mixed(x, -x)\n"
        "    with np.errstate(all='ignore'):\n        x = x - x\n"
        "    chosen(x, np.zeros((8, 8), np.float32))\n"
    )
    forget()
    shown = CommandLine(capsys)("check", script)
    assert shown.codes() == ["E301"] and "born in subtract of 3e" in shown.out + shown.err
    assert len(looked) <= 4, "the launch that failed first, and those before it"
