"""Saved programs: data alone, replayed bit by bit, and refused when something is not what was written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.programs.kernels import added, bumped, doubled
from tilewright.programs.program import Program
from tilewright.programs.saving import manifest_digest

X = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
FLAGS = "--enable-saturate-infinity --enable-mixed-precision-accumulation --model-type transformer -O1 --auto-cast=none"


def model(x: Any, scale: float) -> Any:
    y = doubled(x)
    return {"sum": added(y, np.tanh(x)), "n": scale, "first": y[0, 0]}


def saved(folder: Path) -> Program:
    p = tw.program(model, X, 2.0, target="trn2", flags=FLAGS, replace={"added": lambda a, b: a + b})
    p.save(folder)
    return p


@pytest.mark.req("S0-20", "S0-24")
def test_a_loaded_program_is_the_saved_one(tmp_path: Path):
    p = saved(tmp_path)
    again = tw.load_program(tmp_path)
    assert str(again.graph) == str(p.graph)
    wanted = p(X, 2.0)
    for found in (again(X), again.replay()):
        assert found["n"] == 2.0 and type(found["first"]) is np.float32
        assert found["sum"].tobytes() == wanted["sum"].tobytes() and found["first"] == wanted["first"]
    other = tmp_path / "again"
    again.save(other)
    assert (other / "program.ir").read_text() == (tmp_path / "program.ir").read_text()


@pytest.mark.req("S0-23", "S0-24")
def test_the_manifest_names_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    saved(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert [each["name"] for each in manifest["kernels"]] == ["doubled"]
    assert manifest["kernels"][0]["source"].endswith("kernels.py:24")
    assert manifest["flags"] == FLAGS.split() and manifest["meaning"]["auto_cast"] == "none"
    assert manifest["replaced"] == ["added[0]"]
    assert manifest["environment"] == {"NEURON_LOGICAL_NC_CONFIG": "1"}
    assert set(manifest["versions"]) == {"tilewright", "numpy", "ml_dtypes", "python"}
    assert manifest["target"]["name"] == "trn2" and [each["name"] for each in manifest["inputs"]] == ["x"]
    assert not [file for file in tmp_path.iterdir() if file.suffix not in (".json", ".ir", ".npy")]


def test_arguments_that_change_and_narrow_types_survive(tmp_path: Path):
    narrow = X.astype(ml_dtypes.bfloat16)
    p = tw.program(lambda x, y: (bumped(x), doubled(y)), X.copy(), narrow, target="trn2")
    again = tw.load_program(p.save(tmp_path))
    mine = X.copy()
    result = again(mine, narrow)
    np.testing.assert_array_equal(mine, X + 1)
    assert result[1].dtype == ml_dtypes.bfloat16 and (result[1] == np.add(narrow, narrow)).all()


def _edit(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    """A manifest that says something else of a folder, with a digest that is right."""

    def edit(folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text())
        change(manifest)
        manifest["digest"] = manifest_digest(manifest)
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return edit


def _append(name: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes() + b" ")


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
    "half a manifest": lambda folder: (folder / "manifest.json").write_text('{"format": 2, '),
    "a list": lambda folder: (folder / "manifest.json").write_text("[]"),
    "another format": _edit(lambda m: m.update(format=99)),
    "no files": _edit(lambda m: m.pop("files")),
    "files elsewhere": _edit(lambda m: m["files"].update({"../x": "0"})),
    "no kernels": _edit(lambda m: m.pop("kernels")),
    "another kernel": _edit(lambda m: m["kernels"][0].update(digest="0")),
    "unknown target": _edit(lambda m: m["target"].update(name="trn9")),
    "wrong flags": _edit(lambda m: m.update(flags=["--auto-cast=some"])),
    "another shape": _edit(lambda m: m["inputs"][0].update(shape=[1])),
    "a wrong result": _edit(lambda m: m.update(result={"output": 9, "scalar": False, "same_as": None})),
    "no result": _edit(lambda m: m.update(result=None)),
    "wrong writes": _edit(lambda m: m.update(writes=["ab"])),
    "a changed text": _append("program.ir"),
    "a changed array": _append("input0.npy"),
    "no array": lambda folder: (folder / "input0.npy").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_folder_is_one_diagnostic(damage: str, tmp_path: Path):
    tw.program(lambda x: doubled(x), X, target="trn2").save(tmp_path)
    DAMAGE[damage](tmp_path)
    with pytest.raises(tw.TileError) as caught:
        tw.load_program(tmp_path)
    assert caught.value.diagnostic.code == "E903" and caught.value.diagnostic.hint


def test_whatever_is_changed_in_a_manifest_is_noticed(tmp_path: Path):
    saved(tmp_path)
    file = tmp_path / "manifest.json"
    whole = json.loads(file.read_text())
    for name, value in whole.items():
        for other in (None, "other", [1], {"output": -1}):
            if other != value:
                file.write_text(json.dumps({**whole, name: other}))
                with pytest.raises(tw.TileError) as caught:
                    tw.load_program(tmp_path)
                assert caught.value.diagnostic.code == "E903", (name, other)


def test_how_a_plan_is_wanted_is_saved_too(tmp_path: Path):
    p = tw.program(lambda x: doubled(doubled(x)), X, target="trn1", demote=False, severities={"R-program-02": "off"})
    again = tw.load_program(p.save(tmp_path))
    assert len(p.plan.executables) == len(again.plan.executables) == 2
    assert str(again.plan) == str(p.plan)
