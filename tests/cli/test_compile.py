"""tilewright compile and tilewright ops."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright import compiler
from tilewright.lower.plan.plan import Plan
from tilewright.tensor.passes.pipeline import PASSES
from tilewright.tensor.text import parse_tensor

from .kit import CommandLine

MODEL = """\
import nki
import numpy as np
import tilewright as tw

print("defining")


def softmax(x, axis=-1, *, scale=1.0):
    e = np.exp(x * scale - np.max(x * scale, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def several(tensors):
    return tensors[0] * tensors[1].astype(np.float32)


def gram(x):
    return x @ x


@tw.jit
def double(x):
    return x * 2


@nki.jit
def copy(x):
    return x


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
    result = tilewright(f"compile --arg 8x16:float64 --stop-after {PASSES[-1].name}", f"{model}:softmax", "-o", folder)
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
    (kernel,) = document["kernels"]
    assert kernel["target"] == "trn2" and str(tw.parse(kernel["tile_ir"])) == kernel["tile_ir"]
    assert kernel["report"]["latency_us"] > 0 and "@nki.jit" in kernel["source"]
    assert sum(step["instructions"] for step in kernel["plan"]["steps"]) == kernel["report"]["instructions"]


def test_compile_writes_everything(tilewright: CommandLine, model: Path, tmp_path: Path):
    folder = tmp_path / "out"
    result = tilewright("compile --arg 130x16 --check --explain --every-pass", f"{model}:softmax", "-o", folder)
    assert result.code == 0 and "agrees with NumPy" in result.out
    assert "roofline" in result.out and "blocks of 128 rows x2" in result.out
    written = {file.name for file in folder.iterdir()}
    ends = ("py", "tensor.ir", "tile.ir", "plan.txt", "plan.json", "report.json", "html")
    assert {f"softmax.{end}" for end in ends} | {"00_trace.ir", "05_tidy.ir"} <= written
    assert all(name in result.out for name in written)
    source = (folder / "softmax.py").read_text()
    assert tilewright("compile --arg 130x16 --print source", f"{model}:softmax").out == source
    report = json.loads((folder / "softmax.report.json").read_text())
    assert f"{report['instructions']} instructions" in source
    plan = json.loads((folder / "softmax.plan.json").read_text())
    assert str(Plan.from_dict(plan)) == (folder / "softmax.plan.txt").read_text()


def test_compile_for_several_targets(tilewright: CommandLine, model: Path, tmp_path: Path):
    command = "compile --arg 4x16 --target trn1 --target trn2"
    result = tilewright(command, f"{model}:double", "-o", tmp_path)
    assert result.code == 0 and "double for trn1" in result.out and "against the first" in result.out
    assert (tmp_path / "trn1" / "double.py").exists() and (tmp_path / "trn2" / "double.html").exists()
    assert [each["target"] for each in tilewright(f"{command} --json", f"{model}:double").json["kernels"]] == [
        "trn1",
        "trn2",
    ]


def test_lists_of_arrays(tilewright: CommandLine, model: Path):
    for text in ("[4x8, 8:bf16, (3, 2)]", "tensors=(4x8:f32, 8:bfloat16, 5)"):
        result = tilewright("compile --stop-after trace", f"{model}:several", "--arg", text)
        assert "f32[4, 8]" in result.out and "bf16[8]" in result.out, result


def test_compile_options(tilewright: CommandLine, model: Path):
    old = tilewright("compile --arg 8x16 --nki 0.3 --print source", f"{model}:softmax")
    assert old.code == 0 and "for NKI 0.3" in old.out
    (kernel,) = tilewright("compile --arg 64x64 --precision bf16 --json", f"{model}:gram").json["kernels"]
    assert kernel["precision"] == "bf16" and "precision bf16" in kernel["report"]["warnings"][0]
    assert "precision bf16" in tilewright("compile --arg 64x64 --precision bf16", f"{model}:gram").out


def test_plain_arguments_are_told(tilewright: CommandLine, model: Path, tmp_path: Path):
    """A number is no array of one dim, and what is nearly a shape is no text."""
    saved = tmp_path / "x.npy"
    np.save(saved, np.ones((3, 2), np.float32))
    result = tilewright("compile --stop-after trace", f"{model}:double", "--arg", str(saved))
    assert "f32[3, 2]" in result.out and "x is an array float32[3, 2] from a file" in result.err, result
    for text, told in (
        ("4", "arguments: axis is the number 4"),
        ("nan", "arguments: axis is the number nan"),
        ("last", "arguments: axis is the text 'last'"),
    ):
        result = tilewright("compile --stop-after trace --arg 4x4 --arg", text, f"{model}:softmax")
        assert told in result.err, result
    for text in ("512", "512,"):
        result = tilewright("compile --stop-after trace", f"{model}:double", "--arg", text)
        assert "(an array of so many elements is 512:float32)" in result.err, result
    for text in ("4096x", "4x-4", "x512", "-3x4", "4X4", "none.npy", "99999999999x99999999999"):
        result = tilewright("compile --stop-after trace --arg 4x4", f"--arg={text}", f"{model}:softmax")
        assert result.code in (1, 2) and "internal error" not in result.err, result
        assert "E704" in result.err or "E103" in result.err, result


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("2x3", "f32[2, 3]"),
        ("2x3:bfloat16", "bf16[2, 3]"),
        ("2x3:bf16", "bf16[2, 3]"),
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
        (":softmix", "--arg 4:float32", 2, "did you mean softmax?"),
        (":softmax", "--arg 4,8:float32", 2, "SIZExSIZE:DTYPE"),
        (":softmax", "--arg 4:float32 --precision half", 2, "half"),
        (":softmax", "--arg 4:float32 --nki 0.2", 2, "0.2"),
        (":softmax", "--arg 4:float32 --every-pass", 2, "goes with -o FOLDER"),
        ("", "--arg 4:float32", 2, "E703"),
        (":copy", "--arg 4:float32", 2, "is an NKI kernel already"),
        ("::double", "--arg 4:float32 --stop-after trace", 0, "program double"),
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


def test_doctor_shows_and_clears_the_cache(
    tilewright: CommandLine, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compiler, "SLOW_SECONDS", -1.0)
    read = [
        tilewright("compile --arg 8x16 --json", f"{model}:softmax").json["kernels"][0]["from_cache"] for _ in range(2)
    ]
    assert read == [False, True]
    found = tilewright("doctor --json").json["cache"]
    assert found["folder"] == str(tmp_path / "cache") and found["kernels"] == 1 and found["bytes"] > 0
    assert "0 kernels" in tilewright("doctor --clear-cache").out
    monkeypatch.setenv("TILEWRIGHT_CACHE", "off")
    assert tilewright("doctor --clear-cache --json").json["cache"]["folder"] is None


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


def test_schedules_are_printed_and_taken(tilewright: CommandLine, model: Path, tmp_path: Path):
    command = "compile --arg 130x16 --target trn2"
    printed = tilewright(f"{command} --print schedule", f"{model}:softmax").out
    assert printed.startswith("schedule softmax(x: f32[130, 16]) on trn2\n") and "  write " in printed
    file = tmp_path / "softmax.schedule"
    file.write_text(printed)
    same = tilewright(f"{command} --print tile-ir", f"{model}:softmax", "--schedule", file)
    assert same.out == tilewright(f"{command} --print tile-ir", f"{model}:softmax").out
    head, _, _ = printed.partition("  write ")
    file.write_text(f"{head}  write columns, a 8, buffers 2\n")
    other = tilewright(f"{command} --check", f"{model}:softmax", "--schedule", file)
    assert other.code == 0 and "agrees with NumPy" in other.out


def test_schedules_that_are_refused(tilewright: CommandLine, model: Path, tmp_path: Path):
    file = tmp_path / "softmax.schedule"
    file.write_text("step\n  nothing = exp\n")
    result = tilewright("compile --arg 130x16", f"{model}:softmax", "--schedule", file)
    assert result.code == 1 and result.codes() == ["E852"] and f"{file}:2" in result.err
    file.write_text("steps\n")
    assert tilewright("compile --arg 130x16", f"{model}:softmax", "--schedule", file).codes() == ["E850"]
    file.unlink()
    assert tilewright("compile --arg 130x16", f"{model}:softmax", "--schedule", file).codes() == ["E704"]
