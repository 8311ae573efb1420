"""Type stubs: those in the repository are those that are made, and a type checker sees wrong calls by them."""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.nki.stubs import LEGACY_MODULES, MODULES, _public, legacy_stubs, stubs

ROOT = Path(__file__).parents[2]

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


LEGACY_USER = """\
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
from neuronxcc.nki import baremetal, benchmark


@nki.jit
def kernel(x, factor=2.0):
    out = nl.ndarray((nl.par_dim(128), 64), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x[nl.arange(128)[:, None], nl.arange(64)[None, :]])
    for i in nl.affine_range(2):
        tile = nisa.tensor_scalar(tile, np.multiply, factor)
    nl.store(out, value=nl.exp(tile))
    return out


@benchmark(warmup=10, iters=100)
def timed(x):
    return kernel(x)


kernel[2, 3](np.ones((128, 64)), factor=3.0)
print(nki.simulate_kernel(kernel, np.ones((128, 64))), timed.benchmark_result.nc_latency)


@nki.jit
def wrong(x):
    tile = nl.load()  # error: src is missing
    nisa.nc_matmul(tile)  # error: moving is missing
    nisa.tensor_kopy(tile)  # error: no such instruction
    return nl.exponential(tile)  # error: no such function


kernel(np.ones((128, 16)), faktor=3.0)  # error: no such parameter
"""


@pytest.mark.parametrize(("package", "make"), [("nki-stubs", stubs), ("neuronxcc-stubs", legacy_stubs)])
def test_the_stubs_are_those_that_are_made(package: str, make: Callable[[], dict[str, str]]):
    folder = ROOT / "src" / package
    kept = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*.pyi")}
    assert kept == make(), "python -m tilewright.nki.stubs src writes them anew"


def test_they_have_every_public_name():
    files = [(f"tilewright.nki.{name}", stubs()[f"{name}.pyi"]) for name in MODULES]
    files += [(f"tilewright.nki.legacy.{name}", legacy_stubs()[f"nki/{name}.pyi"]) for name in LEGACY_MODULES]
    for module, text in files:
        names = _public(importlib.import_module(module))
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


def test_the_legacy_package_has_every_name():
    package = importlib.import_module("tilewright.nki.legacy")
    text = legacy_stubs()["nki/__init__.pyi"]
    for name in package.__all__:
        assert any(mark in text for mark in (f"def {name}(", f"\n{name}:", f" as {name}\n")), name


@pytest.mark.parametrize("source", [USER, LEGACY_USER], ids=["nki", "neuronxcc"])
def test_a_type_checker_sees_wrong_calls(source: str, tmp_path: Path):
    pytest.importorskip("pyright")
    user = tmp_path / "user.py"
    user.write_text(source)
    settings = {"extraPaths": [str(ROOT / "src")], "pythonVersion": "3.10", "reportMissingModuleSource": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "-p", str(tmp_path), "--pythonpath", sys.executable, "--outputjson"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    found = json.loads(ran.stdout)["generalDiagnostics"]
    lines = sorted({each["range"]["start"]["line"] for each in found})
    expected = [number for number, line in enumerate(source.splitlines()) if "# error" in line]
    assert lines == expected, [each["message"] for each in found]
