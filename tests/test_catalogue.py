"""Every entry of the catalogue: its bad example earns exactly its code, its good example none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.kit import ROOT, CommandLine
from tilewright.catalogue import Example, catalogue, find
from tilewright.errors import TileError
from tilewright.rules import CODE_OF_KIND, load_rules

CODES = list(catalogue())


def codes_of(example: Example, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The codes that running an example shows."""
    tilewright = CommandLine(capsys)
    if example.kind == "console":
        _, _, command = example.text.partition("tilewright ")
        return tilewright(command.strip()).codes()
    script = folder / "example.py"
    script.write_text(example.source)
    options = f"--target {example.target}" if example.target else ""
    options += f" --profile {example.profile}" if example.profile else ""
    result = tilewright(f"run --json {options} --trace-nonfinite", script)
    assert result.json["error"] is None, result.json["error"]
    found = result.json["diagnostics"]
    located = [each["location"]["file"] for each in found if each["location"]]
    assert all(file in (str(script), "<text>", "<kernel>") for file in located)
    printed = [code for code in result.codes() if code not in {each["code"] for each in found}]
    return [each["code"] for each in found] + printed


@pytest.fixture(autouse=True)
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for name in ("TILEWRIGHT_TARGET", "TILEWRIGHT_PROFILE", "NEURON_PLATFORM_TARGET_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("code", CODES)
def test_bad_example(code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert codes_of(catalogue()[code].bad, tmp_path, capsys) == [code]


@pytest.mark.parametrize("code", CODES)
def test_good_example(code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert codes_of(catalogue()[code].good, tmp_path, capsys) == []


@pytest.mark.parametrize("code", CODES)
def test_entries_are_complete(code: str):
    entry = catalogue()[code]
    assert 10 < len(entry.title) < 90 and entry.title[0] != " "
    assert len(entry.text) > 30 and entry.text.endswith((".", ")"))
    assert entry.bad.text != entry.good.text


def test_every_rule_has_a_code_of_the_catalogue():
    assert {CODE_OF_KIND[rule.kind] for rule in load_rules().values()} <= set(catalogue())


def test_names_are_found_whatever_their_case():
    assert find("e104") is catalogue()["E104"]
    assert find(" r-NC_MATMUL-06 ") is load_rules()["R-nc_matmul-06"]


@pytest.mark.parametrize("name", ["E14", "R-nc_matmul-66", "nc_matmul"])
def test_unknown_names_get_near_matches(name: str):
    with pytest.raises(TileError) as caught:
        find(name)
    assert caught.value.diagnostic.code == "E705"
    assert "near matches" in (caught.value.diagnostic.hint or "")


def test_data_is_plain():
    """Entries print as JSON: nothing but text."""
    for entry in catalogue().values():
        json.dumps([entry.code, entry.title, entry.text, entry.bad.source, entry.good.source])
