"""tilewright check for other programs: SARIF, annotations of GitHub Actions, several files, --watch, pre-commit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest

from tilewright.cli.main import COMMANDS, cli
from tilewright.cli.options import StrictCommand

from .kit import ROOT, CommandLine

FAULTY = """\
import nki, nki.isa as nisa, nki.language as nl, numpy as np

@nki.jit
def k(x):
    a = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(a, x, a, op=nl.add)
    if x is None: return a
    return x

k(np.zeros((128, 64), np.float32))
"""


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a file.py"
    path.write_text(FAULTY)
    return path


def check_sarif(document: dict[str, Any]) -> list[dict[str, Any]]:
    """What SARIF 2.1.0 requires of the parts that are written, and what code scanning needs of them; the results."""
    assert document["version"] == "2.1.0" and document["$schema"].startswith("https://")
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "tilewright" and driver["version"]
    rules = [rule["id"] for rule in driver["rules"]]
    assert len({*rules}) == len(rules)
    assert all(rule["shortDescription"]["text"] and rule["fullDescription"]["text"] for rule in driver["rules"])
    assert run["columnKind"] in ("unicodeCodePoints", "utf16CodeUnits")
    bases = run["originalUriBaseIds"]
    assert all(base["uri"].endswith("/") for base in bases.values())
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error") and result["message"]["text"]
        for place in (each["physicalLocation"] for each in result.get("locations", [])):
            uri = place["artifactLocation"]["uri"]
            assert " " not in uri and (place["artifactLocation"].get("uriBaseId", next(iter(bases))) in bases)
            region = place["region"]
            assert 1 <= region["startLine"] <= region.get("endLine", region["startLine"])
            assert region.get("startColumn", 1) >= 1
    return run["results"]


def test_sarif(tilewright: CommandLine, faulty: Path):
    result = tilewright("check --target trn1 --target trn2 --format sarif", faulty)
    assert result.code == 1
    found = check_sarif(result.json)
    error = next(each for each in found if each["ruleId"] == "E113")
    place = error["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "a%20file.py", "uriBaseId": "SRCROOT"}
    assert place["region"] == {"startLine": 6, "startColumn": 27, "endLine": 6, "endColumn": 28}
    assert error["level"] == "error" and error["properties"]["targets"] == ["trn1", "trn2"]
    assert error["properties"]["rule"] == "R-err-unsupported_memory-01"


def test_sarif_without_findings(tilewright: CommandLine, script: Path):
    result = tilewright("check --format sarif", script)
    assert result.code == 0 and check_sarif(result.json) == []


def test_annotations(tilewright: CommandLine, faulty: Path):
    result = tilewright("check --format github", faulty)
    lines = [line for line in result.out.splitlines() if line.startswith("::")]
    start = "::error file=a file.py,line=6,endLine=6,col=27,endColumn=28,title=E113 R-err-unsupported_memory-01::"
    (error,) = (line for line in lines if line.startswith(start))
    assert "tensor_tensor: data1 must be in sbuf or psum" in error and "%0Ahint: " in error and result.code == 1


def test_what_annotations_escape():
    from tilewright.errors import Diagnostic, Location
    from tilewright.report.annotations import annotation

    found = Diagnostic("W101", "100%: a\nb", severity="warning", location=Location("/a:b,c.py", 3))
    assert annotation(found, ("trn1",)) == "::warning file=/a%3Ab%2Cc.py,line=3,title=W101::100%25: a%0Ab%0Aon trn1"


def test_several_files_by_their_source_alone(tilewright: CommandLine, faulty: Path, script: Path, tmp_path: Path):
    result = tilewright("check --static", script, faulty)
    assert result.code == 0 or result.codes()
    assert [line.split(":")[0] for line in result.out.splitlines()] == [str(script), str(faulty)]
    made = tilewright("check --static --json", script, faulty).json
    assert [each["script"] for each in made["scripts"]] == [str(script), str(faulty)]
    plain = tmp_path / "plain.py"
    plain.write_text("x = 1\n")
    assert tilewright("check --static", script, plain).codes() == ["E703"]
    assert tilewright("check --static --no-kernel-ok", script, plain).code == 0


def test_the_hook_for_pre_commit(tilewright: CommandLine, script: Path):
    """The entry of the hook is a command line that takes files."""
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    (entry,) = re.findall(r"entry: tilewright (.*)", text)
    assert tilewright(entry, script).code == 0
    assert {"- id", "  name", "  entry", "  language", "  types"} <= {line.split(":")[0] for line in text.splitlines()}


def test_watching(script: Path):
    """--watch checks once more when the file has changed, and ends with the code of the last check."""
    command = [sys.executable, "-m", "tilewright", "check", "--static", "--watch", str(script)]
    log = script.with_suffix(".log")
    with log.open("w") as output:
        watched = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=dict(os.environ))
        try:
            _wait(log, 1)
            script.write_text(script.read_text().replace("return out", "return None if out is None else out"))
            _wait(log, 2)
        finally:
            watched.terminate()
            watched.wait(60)
    assert "no diagnostics" in log.read_text() and "`is` compares" in log.read_text()


def _wait(log: Path, checks: int) -> None:
    end = time.monotonic() + 120  # processes start slowly on a busy machine
    while log.read_text().count("watching ") < checks:
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.05)


def test_formats_are_json_documents(tilewright: CommandLine, faulty: Path):
    one = tilewright("check --format json", faulty).out
    assert json.loads(one) == tilewright("check --json", faulty).json
    broken = tilewright("check --format sarif nowhere.py")
    assert broken.code == 2 and broken.json["diagnostics"][0]["code"] == "E701"


def test_options_that_rule_each_other_out_in_json(tilewright: CommandLine, script: Path):
    result = tilewright("check --format sarif --json", script)
    assert result.code == 2 and result.json["diagnostics"][0]["message"] == "--format does not go with --json"


def test_no_option_is_passed_over():
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert isinstance(command, StrictCommand), f"{name} takes an option twice"
