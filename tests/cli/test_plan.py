"""`tilewright plan`: scripts as executables, as text and as JSON, and one diagnostic for what cannot be planned."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilewright as tw

from .kit import CommandLine

KERNELS = """\
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl
import tilewright as tw


@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


x = np.ones((64, 64), np.float32)
"""


def script(folder: Path, text: str) -> str:
    file = folder / "pipeline.py"
    file.write_text(KERNELS + text)
    return str(file)


@pytest.mark.req("S1-05", "S1-08")
def test_kernels_called_one_by_one_are_a_program(tilewright: CommandLine, tmp_path: Path):
    file = script(tmp_path, "y = doubled(doubled(x))\nassert (y == 4).all()\nprint(y.sum())\n")
    found = tilewright("plan --json --target trn1 --target trn2", file).json
    old, new = found["plans"]
    assert [each["kernels"] for each in old["executables"]] == [["doubled", "doubled"]]
    assert [each["tensor"] for each in old["demotions"]] == ["doubled.out"] and not new["demotions"]
    assert old["forms"]["fused"] < old["forms"]["barriered"] < old["forms"]["round_trip"]
    apart = tilewright("plan --json --no-demote --target trn1", file).json["plans"][0]
    assert len(apart["executables"]) == 2 and apart["forms"]["fused"] is None
    assert apart["barriers"][0]["rule"] == "R-program-01" and apart["barriers"][0]["tensor"] == "doubled.out"


def test_a_program_that_ran_is_planned_as_asked_for(tilewright: CommandLine, tmp_path: Path):
    file = script(tmp_path, "p = tw.program(lambda x: doubled(doubled(x)), x)\np(x)\n")
    plan = tilewright("plan --json --no-demote --target trn1", file).json["plans"][0]
    assert len(plan["executables"]) == 2 and plan["barriers"][0]["rule"] == "R-program-01"


STEPS = """
from tilewright.programs.lazy import Device

device = Device()
made = device.apply(lambda a: device.capture(doubled, (a,), {}), device.upload(x))
device.step()
made = device.apply(lambda a: device.capture(doubled, (a,), {}), made)
print(device.read(made).sum())
"""


@pytest.mark.req("S1-09")
def test_steps_are_kept_where_that_is_asked_for(tilewright: CommandLine, tmp_path: Path):
    file = script(tmp_path, STEPS)
    one, two = (tilewright(f"plan --json --target trn2 {each}", file).json["plans"][0] for each in ("", "--keep-steps"))
    assert len(one["executables"]) == 1 and "the step at " in one["notes"][0]
    assert len(two["executables"]) == 2 and two["barriers"][0]["reason"] == "the program asks for it"
    assert one["forms"] == two["forms"]


def test_what_the_host_computes_separates_kernels(tilewright: CommandLine, tmp_path: Path):
    file = script(tmp_path, "a = np.ones((64, 64), np.float32)\ny = doubled(x)\ndoubled(a)\ndoubled(y + 1)\n")
    plan = tilewright("plan --json --target trn2", file).json["plans"][0]
    assert [len(each["kernels"]) for each in plan["executables"]] == [2, 1]
    assert "host reads" in plan["barriers"][0]["reason"] and plan["forms"]["fused"] is None


def test_a_barrier_separates_kernels_called_one_by_one(tilewright: CommandLine, tmp_path: Path):
    file = script(tmp_path, "y = doubled(x)\ntw.barrier()\nassert (doubled(y) == 4).all()\n")
    (plan,) = tilewright("plan --json", file).json["plans"]
    assert [each["kernels"] for each in plan["executables"]] == [["doubled"], ["doubled"]]
    assert any("pipeline.py:20 is redundant" in note for note in plan["notes"]), plan["notes"]
    assert tilewright("run", file).code == 0


def test_an_array_that_the_host_changes_is_another_one(tilewright: CommandLine, tmp_path: Path):
    plan = tilewright("plan --json", script(tmp_path, "y = doubled(x)\ny[0] = 7\ndoubled(y)\n")).json["plans"][0]
    assert len(plan["executables"]) == 2


@pytest.mark.req("S1-22")
def test_programs_of_a_script_are_planned_and_dumped(tilewright: CommandLine, tmp_path: Path):
    file = script(tmp_path, "p = tw.program(lambda x: np.tanh(doubled(x)), x)\n")
    done = tilewright("plan --target trn2 --dump", str(tmp_path / "dumped"), file)
    assert "doubled, numpy_0" in done.out and "fused" in done.out and "1 executable" in done.out
    (folder,) = (tmp_path / "dumped" / "trn2").iterdir()
    assert {each.name for each in folder.iterdir()} == {
        *("program.ir", "plan.txt", "plan.json", "executable0.tile.ir"),
    }
    for name in ("program.ir", "executable0.tile.ir"):
        text = (folder / name).read_text()
        assert "pipeline.py" in text
        assert str(tw.parse(text)).splitlines()[0].split("(")[0] in text


@pytest.mark.parametrize(
    ("options", "text", "code"),
    [
        ("", "", "E703"),
        ("--target trn9", "doubled(x)\n", "E601"),
        ("--profile mild", "doubled(x)\n", "E708"),
        ("", "tw.load_program('nowhere')\n", "E903"),
        ("", "doubled(x[:, :0])\n", "E103"),
        ("--target trn1", "tw.program(lambda x: doubled(x), x, severities={'R-program-02': 'error'})\n", "E106"),
    ],
)
def test_what_cannot_be_planned_is_one_diagnostic(
    options: str, text: str, code: str, tilewright: CommandLine, tmp_path: Path
):
    done = tilewright(f"plan {options}", script(tmp_path, text))
    assert done.codes() == [code] and done.code in (1, 2)


def test_a_script_that_is_not_there(tilewright: CommandLine):
    assert tilewright("plan nowhere.py").codes() == ["E701"]


@pytest.mark.parametrize("command", ["plan", "check"])
def test_the_exit_code_of_a_script_is_said(command: str, tilewright: CommandLine, tmp_path: Path):
    done = tilewright(command, script(tmp_path, "doubled(x)\nraise SystemExit(3)\n"))
    assert done.code == 1 and "ended with exit code 3" in done.out + done.err
