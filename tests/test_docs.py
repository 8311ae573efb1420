"""README and docs say what is true: their commands and programs run, and print what stands there.

`python tests/test_docs.py` writes the present output into the documents, or into those that it is given; then
`python -m tests.test_tutorial` does so for the tutorial.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(console|python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = [each for each in DOCUMENTS if each.name != "tutorial.md"]
"""Those whose steps stand for themselves; the tutorial is one walk (test_tutorial.py)."""
LINK = re.compile(r"\]\(([^)#:]+)\)")


@dataclass
class Step:
    """A command or program of a document, where its expected output stands, and what that says."""

    run: list[str]
    start: int
    stop: int
    expected: str
    program: str | None = None


def steps(text: str) -> list[Step]:
    """What a document runs, in order. A python block is the script `<its last def>.py` of later commands."""
    found: list[Step] = []
    for block in BLOCK.finditer(text):
        kind, body, start = block[1], block[2], block.start(2)
        if kind == "console":
            commands = re.finditer(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", body, re.MULTILINE)
            found += [Step(each[1].split(), start + each.start(2), start + each.end(2), each[2]) for each in commands]
        elif kind == "python":
            found.append(Step([], 0, 0, "", body))
        elif found and found[-1].program is not None:
            found[-1].start, found[-1].stop, found[-1].expected = start, block.end(2), body
    return found


def output(step: Step, folder: Path) -> str:
    """What a step prints in a folder (standard output and error together), with paths as a reader would see them."""
    if step.program is not None:
        name = re.findall(r"^def (\w+)", step.program, re.MULTILINE)[-1:] or ["program"]
        script = folder / f"{name[0]}.py"
        script.write_text(step.program)
        if not step.stop:
            return ""
        command = [sys.executable, script.name]
    else:
        assert step.run[0] == "tilewright", f"documents run tilewright only, not {step.run[0]}"
        command = [sys.executable, "-m", "tilewright", *step.run[1:]]
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("TILEWRIGHT", "NEURON", "NKI"))
    }
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    printed = (ran.stdout + ran.stderr).replace(f"{folder}{os.sep}", "")
    return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


@pytest.mark.parametrize("document", RUN, ids=lambda path: path.name)
def test_documents_say_what_happens(document: Path, tmp_path: Path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for step in steps(document.read_text()):
        printed = _comparable(output(step, tmp_path))
        assert printed == _comparable(step.expected), f"{document.name}: {' '.join(step.run) or step.program}"


def _comparable(text: str) -> str:
    """Before 3.11 Python does not say which expression of a line ran: the whole line is underlined."""
    return text if sys.version_info >= (3, 11) else re.sub(r"^ +\| +\^+$", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path):
    # A call of what stands in brackets is no link.
    for link in LINK.findall(re.sub(r"`[^`\n]*`", "code", document.read_text())):
        assert (document.parent / link).exists(), link


def test_documents_name_files_that_exist():
    for document in DOCUMENTS:
        for name in re.findall(r"`((?:src|tests|examples|docs|bench)/[\w./*]+)`", document.read_text()):
            assert list(ROOT.glob(name.rstrip("/"))), f"{document.name}: {name}"


def test_everything_public_is_in_the_reference():
    from tests import reference  # what it imports is not needed to write documents anew

    shown, made = (reference.headings(text) for text in (reference.PAGE.read_text(), reference.page()))
    assert shown == made, "python -m tests.reference"


def update(document: Path, folder: Path) -> None:
    """Write what every step prints now into a document."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    text = document.read_text()
    made = [(step, output(step, folder)) for step in steps(text)]
    for step, printed in reversed(made):
        if step.stop:
            text = text[: step.start] + printed + text[step.stop :]
    document.write_text(text)


if __name__ == "__main__":
    import tempfile

    for path in [Path(name) for name in sys.argv[1:]] or RUN:
        with tempfile.TemporaryDirectory() as temporary:
            update(path, Path(temporary))
