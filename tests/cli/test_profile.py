"""tilewright profile: times of a script's kernels as text and as JSON, side by side, with pins, traces and pages."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path

import pytest

from .kit import CommandLine

STREAM = """\
import sys

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def stream(x, factor=2.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[start : start + 128])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
        nisa.dma_copy(dst=out[start : start + 128], src=tile)
    return out


if __name__ == "__main__":
    for _ in range(3):
        result = stream(np.ones((int(sys.argv[1]) if len(sys.argv) > 1 else 256, 512), np.float32))
    print("sum", result.sum())
"""
SCALAR_LINE = 15


@pytest.fixture
def streaming(tmp_path: Path) -> Path:
    path = tmp_path / "stream.py"
    path.write_text(STREAM)
    return path


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The same kernel under another name, with half of the rows per transfer."""
    path = tmp_path / "other.py"
    path.write_text(STREAM.replace("128", "64").replace("stream", "small_steps"))
    return path


def test_a_summary_for_the_terminal(tilewright: CommandLine, streaming: Path):
    result = tilewright("profile", streaming)
    assert result.code == 0 and result.err == "sum 262144.0\n"
    first, *rest = result.out.splitlines()
    assert first.startswith("stream on trn2: ") and " us ± " in first and "launch 15.6 us" in first
    assert "bound of" in rest[0] and "8 transfers" not in result.out, "three equal launches are one profile"
    assert "4 transfers, 2048 bytes per descriptor" in result.out
    for heading in ("engine", "critical path", "waited for", "where the kernel leaves it open"):
        assert heading in result.out
    assert f"{streaming}:{SCALAR_LINE}" in result.out and "nisa.tensor_scalar(dst=tile" in result.out


def test_json(tilewright: CommandLine, streaming: Path):
    document = tilewright("profile --json --order written --target trn1", streaming).json
    assert document["exit_code"] == 0 and document["order"] == "written" and document["diagnostics"] == []
    (report,) = document["profiles"]
    assert report["kernel"] == "stream" and report["target"] == "trn1" and report["order"] == "written"
    assert 0 < report["peak_roofline_us"] < report["roofline_us"] <= report["latency_us"]
    assert sum(step["share"] for step in report["critical_path"]) == pytest.approx(1)
    assert report["events_not_kept"] == 0


def test_arguments_belong_to_the_script(tilewright: CommandLine, streaming: Path):
    short, long = (tilewright("profile --json", streaming, rows).json["profiles"][0] for rows in (128, 1024))
    assert long["latency_us"] > short["latency_us"] and long["dma_transfers"] == 8 * short["dma_transfers"]


def test_several_targets_side_by_side(tilewright: CommandLine, streaming: Path):
    result = tilewright("profile --target trn1 --target trn2 --target trn3", streaming)
    assert result.code == 0
    head, *rows = result.out.splitlines()
    assert [f"stream:stream {name}" in head for name in ("trn1", "trn2", "trn3")] == [True] * 3
    assert any(row.startswith("latency") and row.count("±") == 3 for row in rows)
    assert any(row.startswith("against the first") and "1.00x" in row for row in rows)
    document = tilewright("profile --json --target trn1 --target trn2", streaming).json
    assert [each["target"] for each in document["profiles"]] == ["trn1", "trn2"]


def test_two_scripts_side_by_side(tilewright: CommandLine, streaming: Path, other: Path):
    result = tilewright("profile --against", other, streaming)
    assert "stream:stream trn2" in result.out and "other:small_steps trn2" in result.out
    one, two = tilewright("profile --json --against", other, streaming).json["profiles"]
    assert (one["kernel"], two["kernel"]) == ("stream", "small_steps")
    assert two["dma_transfers"] == 2 * one["dma_transfers"] and two["latency_us"] > one["latency_us"]


def test_two_scripts_on_one_page(tilewright: CommandLine, streaming: Path, other: Path, tmp_path: Path):
    """Figures beside each other, both timelines on one scale, and links to the page of each."""
    page = tmp_path / "page.html"
    result = tilewright(f"profile --html {page} --against", other, streaming)
    assert result.code == 0, result
    text = page.read_text()
    for label, *figures in (re.split(r"  +", line.strip()) for line in result.out.splitlines()[1:]):
        row = f'<th scope="row">{label}</th>' + "".join(f"<td>{escape(each)}</td>" for each in figures)
        assert row in text, label
    links = re.findall(r'href="([^"]+\.html)"', text)
    assert len(links) == 2 and all((tmp_path / each).exists() for each in links)
    # Where the last bar of each timeline ends: the slower kernel fills the scale.
    ends = [
        max(float(x) + float(width) for x, width in re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', each))
        for each in re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    ]
    assert len(ends) == 2 and ends[0] < ends[1] == 670
    assert "<script" not in text and "http" not in text


def test_scripts_of_the_same_name_are_told_apart(tilewright: CommandLine, streaming: Path, tmp_path: Path):
    again = tmp_path / "again" / streaming.name
    again.parent.mkdir()
    again.write_text(streaming.read_text())
    result = tilewright(f"profile --html {tmp_path}/page.html --against", again, streaming)
    assert f"{again}:stream trn2" in "".join(result.out.split("\n")) and result.code == 0
    assert len(list(tmp_path.glob("page-*.html"))) == 2


def test_a_kernel_by_name_on_shapes(tilewright: CommandLine, streaming: Path, other: Path):
    command = "profile --json --kernel stream --shape x=4096x2048:bfloat16 --arg factor=3.0"
    document = tilewright(command, streaming).json
    assert document["profiles"][0]["hbm_bytes"] == 2 * 4096 * 2048 * 2
    # The other script's only kernel is the one that is meant.
    document = tilewright(f"{command} --against", other, streaming).json
    assert [each["kernel"] for each in document["profiles"]] == ["stream", "small_steps"]


def test_without_arithmetic(tilewright: CommandLine, streaming: Path):
    result = tilewright("profile --shapes", streaming)
    assert result.code == 0 and result.err == "sum 0.0\n"


def test_pins(tilewright: CommandLine, streaming: Path):
    plain = tilewright("profile --json --target trn3", streaming).json["profiles"][0]
    pinned = tilewright(f"profile --json --target trn3 --pin {SCALAR_LINE}:scalar", streaming).json["profiles"][0]
    assert "vector" in plain["engine_busy_us"] and "scalar" in pinned["engine_busy_us"]
    assert pinned["pins"] == [f"{SCALAR_LINE}:scalar"]
    assert f"pinned {SCALAR_LINE}:scalar" in tilewright(f"profile --pin {SCALAR_LINE}:vector", streaming).out.replace(
        "vector", "scalar"
    )


def test_pins_of_transfers(tilewright: CommandLine, streaming: Path):
    plain = tilewright("profile --json --target trn2", streaming).json["profiles"][0]
    line = next(each["line"]["line"] for each in plain["choices"] if each["what"] == "dge")
    pinned = tilewright(f"profile --json --target trn2 --pin {line}:swdge", streaming).json["profiles"][0]
    assert [each["chosen"] for each in pinned["choices"] if each["line"]["line"] == line] == ["swdge"]


@pytest.mark.parametrize(
    ("pin", "code", "told"),
    [
        ("3:vector", "E108", "no instruction of an engine was issued there"),
        ("15", "E108", "not LINE:ENGINE"),
        ("15:tensor", "E109", "does not run on tensor"),
        ("15:hwdge", "E108", "no transfer was issued there"),
        ("14:vector", "E108", "for a transfer one of: swdge, hwdge, none"),
        ("14:dge", "E108", "for transfers: swdge, hwdge, none"),
    ],
)
def test_pins_that_cannot_be(tilewright: CommandLine, streaming: Path, pin: str, code: str, told: str):
    result = tilewright(f"profile --pin {pin}", streaming)
    assert result.code == 2 and result.codes() == [code] and told in result.err


def test_pins_of_descriptors_that_the_target_has_no_writer_for(tilewright: CommandLine, streaming: Path):
    assert tilewright("profile --target trn2 --pin 14:hwdge", streaming).code == 0
    result = tilewright("profile --target trn1 --pin 14:hwdge", streaming)
    assert result.code and "stream.py:14" in result.err and "hwdge" in result.err


def test_traces_and_pages(tilewright: CommandLine, streaming: Path, tmp_path: Path):
    trace, page = tmp_path / "out.json", tmp_path / "report.html"
    assert tilewright(f"profile --trace {trace} --html {page}", streaming).code == 0
    assert json.loads(trace.read_text()) and "stream" in page.read_text()
    assert tilewright(f"profile --target trn1 --target trn2 --trace {trace}", streaming).code == 0
    assert sorted(path.name for path in tmp_path.glob("out-*")) == [
        "out-stream-stream-trn1.json",
        "out-stream-stream-trn2.json",
    ]
    assert tilewright("profile --trace out.txt", streaming).codes() == ["E108"]


@pytest.mark.parametrize(
    ("option", "name", "code"),
    [
        ("--html", "none/page.html", "E707"),
        ("--html", ".", "E707"),
        ("--trace", "none/out.json", "E707"),
        ("--trace", "none/out.txt", "E108"),
    ],
)
def test_names_that_cannot_be_written_are_refused_before_the_script_runs(
    tilewright: CommandLine, streaming: Path, tmp_path: Path, option: str, name: str, code: str
):
    result = tilewright(f"profile {option} {tmp_path / name}", streaming)
    assert result.code == 2 and result.codes() == [code] and "sum" not in result.err


def test_a_file_that_the_system_refuses(tilewright: CommandLine, streaming: Path):
    result = tilewright("profile --html /dev/full", streaming)
    assert result.code == 2 and result.codes() == ["E707"] and "No space left" in result.err


def test_a_kernel_at_fault(tilewright: CommandLine, script: Path):
    result = tilewright("profile", script, "256")
    assert result.code == 1 and result.codes() == ["E104"] and "tilewright explain E104" in result.err
    result = tilewright("profile --kernel scale --shape x=256x16:float32", script)
    assert result.code == 1 and result.codes() == ["E104"]


def test_an_error_of_the_script(tilewright: CommandLine, tmp_path: Path):
    path = tmp_path / "fails.py"
    path.write_text(STREAM + "    raise SystemError('my own')\n")
    result = tilewright("profile", path)
    assert result.code == 1 and "my own" in result.err and result.out.startswith("stream on trn2")


@pytest.mark.parametrize(
    ("command", "code"),
    [("--kernel missing", "E703"), ("--kernel stream --shape y=1x1", "E704"), ("--target trn9", "E601")],
)
def test_usage(tilewright: CommandLine, streaming: Path, command: str, code: str):
    result = tilewright(f"profile {command}", streaming)
    assert result.code == 2 and result.codes() == [code]


def test_a_script_without_kernels(tilewright: CommandLine, tmp_path: Path):
    path = tmp_path / "definitions.py"
    path.write_text(STREAM.split("if __name__")[0])
    result = tilewright("profile", path)
    assert result.code == 2 and result.codes() == ["E703"] and "profile one with --kernel stream" in result.err
    assert tilewright("profile --shape x=1x1", path).code == 2


def test_warnings_are_shown_with_their_line(tilewright: CommandLine, tmp_path: Path):
    path = tmp_path / "columns.py"
    path.write_text(STREAM.replace("src=x[start : start + 128]", "src=x[:, start : start + 128].permute((1, 0))"))
    result = tilewright("profile --kernel stream --shape x=512x512:float32", path)
    assert result.codes() == ["W801"] and f"{path}:14" in result.out and "= hint: " in result.out


def test_a_measured_profile_stands_beside_the_predicted_one(tilewright: CommandLine, streaming: Path, tmp_path: Path):
    measured = tmp_path / "measured.json"
    summary = {"total_time": 40e-6, "vector_engine_active_time": 5e-6, "hbm_read_bytes": 524288}
    measured.write_text(json.dumps({"summary": [summary]}))
    done = tilewright("profile --json --against", measured, streaming)
    found = {each["figure"]: each for each in done.json["profiles"][0]["against"]}
    assert found["HBM read bytes"]["off"] == 0.0 and found["latency us"]["measured"] == pytest.approx(40)
    assert "vector busy us" in tilewright("profile --against", measured, streaming).out
