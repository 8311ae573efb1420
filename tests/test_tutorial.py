"""The tutorial's ten commands, run one after the other in a clone, as a stranger would: they print what stands there.

`python -m tests.test_tutorial` writes what they print now into the page.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUIET = ("git", "make", "source")
"""What is run, and whose words are not the page's business."""


def prepare(clone: Path) -> None:
    """What `make` would install, without a network: an environment with this run's packages and the clone's sources."""
    venv.create(clone / ".venv", symlinks=True)
    places = {name: sysconfig.get_path(name) for name in ("purelib", "platlib")}
    inside = sysconfig.get_path("purelib", vars={"base": str(clone / ".venv"), "platbase": str(clone / ".venv")})
    # The clone's own sources come before those that are installed here.
    lines = [f"import sys; sys.path.insert(0, {str(clone / 'src')!r})", *dict.fromkeys(places.values())]
    Path(inside, "installed.pth").write_text("".join(f"{line}\n" for line in lines))
    command = clone / ".venv" / "bin" / "tilewright"
    command.write_text(f"#!{clone}/.venv/bin/python\nfrom tilewright.cli import main\nmain()\n")
    command.chmod(0o755)
    (clone / ".venv" / ".installed").touch()


def repository(folder: Path) -> Path:
    """The project as it is here, committed or not, as a repository to clone."""
    for name in ("Makefile", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for name in ("src", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    author = ("-c", "user.name=reader", "-c", "user.email=reader@example.org")
    for words in (("init", "-q"), ("add", "."), (*author, "commit", "-q", "-m", "as it is")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


class Shell:
    """A shell that keeps its folder and its environment from one command to the next."""

    def __init__(self, home: Path) -> None:
        self.folder, self.home = home, home
        origin = home / "origin"
        origin.mkdir()
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("TILEWRIGHT", "NEURON", "NKI"))}
        self.environment = {**kept, "REPOSITORY": str(repository(origin)), "TILEWRIGHT_CACHE": "off"}
        self.environment.pop("PYTHONPATH", None)

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        state = self.home / "state"
        script = f"{command}\nstatus=$?\n{{ pwd; env -0; }} > {state}\nexit $status"
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=120
        )
        folder, _, rest = state.read_text().partition("\n")
        self.folder = Path(folder)
        variables = (entry.partition("=") for entry in rest.split("\0") if entry)
        self.environment = {name: value for name, _, value in variables}
        return done


def walk(page: str, home: Path) -> tuple[list[tuple[re.Match[str], str, str]], Shell]:
    """Run the page in a folder: each console block with its command and what that printed."""
    shell, done = Shell(home), []
    for block in BLOCK.finditer(page):
        if block[1] == "python":
            name = re.findall(r"^def (\w+)", block[2], re.MULTILINE)[-1]
            (shell.folder / f"{name}.py").write_text(block[2])
            continue
        command = block[2].splitlines()[0].removeprefix("$ ")
        ran = shell.run(command)
        at_fault = command.endswith("copy_rows.py")
        assert ran.returncode == (1 if at_fault else 0), f"{command}\n{ran.stdout}{ran.stderr}"
        printed = "" if command.split()[0] in QUIET else ran.stdout + ran.stderr
        done.append((block, command, "".join(f"{line.rstrip()}\n" for line in printed.splitlines())))
        if command.startswith("git clone"):
            prepare(shell.folder)
        if command == "make demo":
            assert "every instruction verified" in ran.stdout and ", group: " in ran.stdout
    return done, shell


@pytest.mark.skipif(
    any(shutil.which(each) is None for each in ("git", "make", "bash")), reason="needs git, make and bash"
)
def test_ten_commands(tmp_path: Path):
    done, shell = walk(PAGE.read_text(), tmp_path)
    assert len(done) == 10
    for block, command, printed in done:
        assert _comparable(printed) == _comparable("".join(block[2].splitlines(keepends=True)[1:])), command
    demo = {file.name for file in (shell.folder / "build" / "demo").iterdir()}
    assert {"attention.py", "attention.html", "attention.report.json", "attention.plan.txt"} <= demo
    made = {file.name for file in (shell.folder / "mine").iterdir()}
    assert {"gated_norm.py", "gated_norm.html", "profile.html"} <= made
    # What the page says to do last is right, and what the demo wrote is a kernel that runs.
    (shell.folder / "copy_rows.py").write_text((shell.folder / "copy_rows.py").read_text().replace("256", "128"))
    (shell.folder / "attend.py").write_text(
        "import sys; sys.path[:0] = ['build/demo', 'examples']\n"
        "import importlib, numpy as np, attention as kernel\n"
        "del sys.modules['attention'], sys.path[0]\n"
        "plain = importlib.import_module('attention')\n"
        "arrays = plain.inputs()\n"
        "print(np.abs(kernel.attention(*arrays) - plain.attention(*arrays)).max() < 1e-5)"
    )
    last = shell.run("tilewright run copy_rows.py && tilewright run attend.py")
    assert (last.returncode, last.stdout) == (0, "True\n"), last.stderr


def _comparable(text: str) -> str:
    """Before 3.11 Python does not say which expression of a line ran: the whole line is underlined."""
    return text if sys.version_info >= (3, 11) else re.sub(r"^ +\| +\^+$", "", text, flags=re.MULTILINE)


if __name__ == "__main__":
    import tempfile

    text = PAGE.read_text()
    with tempfile.TemporaryDirectory() as temporary:
        for block, command, printed in reversed(walk(text, Path(temporary))[0]):
            text = f"{text[: block.start(2)]}$ {command}\n{printed}{text[block.end(2) :]}"
    PAGE.write_text(text)
