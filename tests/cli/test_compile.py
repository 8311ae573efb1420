"""tilewright compile and tilewright ops."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.tensor.passes.pipeline import PASSES
from tilewright.tensor.text import parse_tensor

from .kit import CommandLine

MODEL = """\
import numpy as np
import tilewright as tw

print("defining")


def softmax(x, axis=-1, *, scale=1.0):
    e = np.exp(x * scale - np.max(x * scale, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


@tw.jit
def double(x):
    return x * 2


def choose(x):
    return x if x[0] > 0 else -x


def fails(x):
    return x + 1 // 0


def misfit(x):
    return x + np.ones(7)
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A script of NumPy functions."""
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


def test_compile_prints_the_ir_of_every_pass(tilewright: CommandLine, model: Path, tmp_path: Path):
    folder = tmp_path / "ir"
    result = tilewright("compile --arg 8x16:float64", f"{model}:softmax", "-o", folder)
    assert result.code == 0 and result.out.startswith("defining\nprogram softmax(%x: f32[8, 16])")
    names = ["trace", *(each.name for each in PASSES)]
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == [f"{place:02}_{name}.ir" for place, name in enumerate(names)]
    assert "f64[8, 16]" in files[0].read_text()
    for file in files:
        assert str(parse_tensor(file.read_text())) == file.read_text()
    for place, name in enumerate(names):
        stopped = tilewright(f"compile --arg 8x16:float64 --stop-after {name}", f"{model}:softmax")
        assert stopped.out == "defining\n" + files[place].read_text()


def test_compile_as_json(tilewright: CommandLine, model: Path):
    document = tilewright("compile --json --arg 4:int8 --arg axis=0 --arg scale=2", f"{model}:softmax").json
    assert document["exit_code"] == 0 and document["passes"][0]["name"] == "trace" and document["passes"][0]["ops"] > 4
    assert parse_tensor(document["ir"]).name == "softmax"


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("2x3", "f32[2, 3]"),
        ("2x3:bfloat16", "bf16[2, 3]"),
        (":int32", "i32[]"),
        ("0x4:uint8", "u8[0, 4]"),
        ("x=5:bool", "bool[5]"),
    ],
)
def test_arrays_of_the_command_line(tilewright: CommandLine, model: Path, text: str, head: str):
    result = tilewright("compile --stop-after trace", f"{model}:double", "--arg", text)
    assert f"program double(%x: {head})" in result.out


@pytest.mark.parametrize(
    ("name", "more", "code", "shown"),
    [
        (":choose", "--arg 4", 1, "E801"),
        (":misfit", "--arg 4:float32", 1, "E808"),
        (":fails", "--arg 4:float32", 1, "ZeroDivisionError"),
        (":nothing", "--arg 4:float32", 2, "E703"),
        ("", "--arg 4:float32", 2, "E703"),
        (":softmax", "", 2, "E704"),
        (":softmax", "--arg 4:float32 --arg 1 --arg 2", 2, "E704"),
        (":softmax", "--arg 4:float31", 2, "E704"),
        (":softmax", "--arg 4:float32 --stop-after later", 2, "later"),
        (":softmax", "--arg 4:float32 -o model.py/x", 2, "E707"),
    ],
)
def test_compile_refuses(
    tilewright: CommandLine, model: Path, monkeypatch: pytest.MonkeyPatch, name: str, more: str, code: int, shown: str
):
    monkeypatch.chdir(model.parent)
    more = more.replace("--arg 4", "--arg 4:float32", 1) if more == "--arg 4" else more
    result = tilewright(f"compile {more} model.py{name}")
    assert result.code == code and shown in result.err + result.out
    as_json = tilewright(f"compile --json {more} model.py{name}")
    assert as_json.code == code and as_json.json["exit_code"] == code


def test_ops_lists_functions(tilewright: CommandLine):
    text = tilewright("ops").out
    assert "np.take_along_axis" in text and "tw.random.normal" in text and "functions of NumPy" in text
    document = tilewright("ops --json").json
    row = next(each for each in document if each["name"] == "np.take")
    assert row["supported"] and "mode='raise'" in row["signature"] and row["unsupported_arguments"] == []
    absent = tilewright("ops --missing --json").json
    assert "np.fft.fft" in absent and tilewright("ops --missing").out.split() == absent


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("np.take", "with every argument"),
        ("take", "np.take(a, indices"),
        ("numpy.unique", "tw.unique"),
        ("topk", "tw.topk(x, k"),
        ("np.quantile", "not supported: weights"),
    ],
)
def test_ops_describes_one(tilewright: CommandLine, name: str, shown: str):
    result = tilewright(f"ops {name}")
    assert result.code == 0 and shown in result.out
    assert tilewright(f"ops {name} --json").json["name"].endswith(name.rpartition(".")[2])


def test_ops_of_an_unknown_name(tilewright: CommandLine):
    result = tilewright("ops np.takee")
    assert result.code == 2 and "E706" in result.err and "np.take" in result.err
