"""Fixtures of the command line tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from .kit import CommandLine


@pytest.fixture
def tilewright(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command line, with no settings from the environment."""
    for name in ("TILEWRIGHT_TARGET", "TILEWRIGHT_PROFILE", "NEURON_PLATFORM_TARGET_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
    return CommandLine(capsys)


SCRIPT = """\
import sys

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def scale(x, factor=2.0):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


if __name__ == "__main__":
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 128
    print("sum", scale(np.ones((rows, 16), np.float32)).sum())
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script with a kernel that is at fault when it gets more than 128 rows."""
    path = tmp_path / "scale.py"
    path.write_text(SCRIPT)
    return path
