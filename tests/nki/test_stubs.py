"""Type stubs: those in the repository are those that are made, and a type checker sees wrong calls by them."""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.nki.stubs import MODULES, _public, stubs

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "src" / "nki-stubs"

USER = """\
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

import tilewright as tw


@nki.jit
def kernel(x, factor=2.0):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_tensor(tile, tile, tile[:, 0:16], op=nl.add)
    nisa.activation(dst=tile, op=nl.exp, data=tile, scale=2.0)
    nisa.tensor_copy(tile, tile, engine=nisa.vector_engine)
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    for i in nl.affine_range(4):
        nisa.memset(tile, value=i)
    return out


@tw.jit(target="trn2")
def norm(x: np.ndarray, eps: float = 1e-6) -> np.ndarray:
    return x / np.sqrt((x * x).mean() + eps)


@tw.jit
def twice(x: np.ndarray) -> np.ndarray:
    return x + x


kernel[2](np.ones((128, 16)), factor=3.0)
y: np.ndarray = twice(norm(np.ones((128, 16)), eps=1e-5))
print(tw.profile(kernel, tw.spec((128, 16), "float32")).latency_us)


@nki.jit
def wrong(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(tile, tile, op=nl.add)  # error: data2 is missing
    nisa.tensor_copy(tile, src=tile, sorce=tile)  # error: no such parameter
    nisa.nc_matmul(tile, stationary="a", moving=tile)  # error: no tensor
    nisa.tensor_kopy(tile, tile)  # error: no such instruction
    nl.load(x, dtyp=nl.float32)  # error: no such parameter
    return nl.exponential(tile)  # error: no such function


kernel(np.ones((128, 16)), faktor=3.0)  # error: no such parameter
norm()  # error: x is missing
norm(np.ones(3), eps="a")  # error: no number
twice(np.ones(3), 2)  # error: one too many
"""


def test_the_stubs_are_those_that_are_made():
    made = stubs()
    kept = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert kept == made, "python -m tilewright.nki.stubs src/nki-stubs writes them anew"


def test_they_have_every_public_name():
    made = stubs()
    for module in MODULES:
        names = _public(importlib.import_module(f"tilewright.nki.{module}"))
        text = made[f"{module}.pyi"]
        assert names and all(
            any(mark in text for mark in (f"def {name}(", f"\n{name}:", f"\n{name} =", f" as {name}\n"))
            for name in names
        )


def test_defaults_are_those_of_the_function():
    """A parameter can be left out in the stub exactly when the function lets it be."""
    import ast

    nisa = importlib.import_module("tilewright.nki.isa")
    for node in ast.parse(stubs()["isa.pyi"]).body:
        if isinstance(node, ast.FunctionDef):
            parameters = inspect.signature(getattr(nisa, node.name)).parameters.values()
            assert [each.arg for each in node.args.args] == [each.name for each in parameters]
            given = [each for each in parameters if each.default is not inspect.Parameter.empty]
            assert len(node.args.defaults) == len(given), node.name


def test_a_type_checker_sees_wrong_calls(tmp_path: Path):
    pytest.importorskip("pyright")
    user = tmp_path / "user.py"
    user.write_text(USER)
    settings = {"extraPaths": [str(ROOT / "src")], "pythonVersion": "3.10", "reportMissingModuleSource": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "-p", str(tmp_path), "--pythonpath", sys.executable, "--outputjson"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    found = json.loads(ran.stdout)["generalDiagnostics"]
    lines = sorted({each["range"]["start"]["line"] for each in found})
    expected = [number for number, line in enumerate(USER.splitlines()) if "# error" in line]
    assert lines == expected, [each["message"] for each in found]
