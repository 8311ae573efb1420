"""The examples run from any folder and do what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def ran(folder: Path, *command: str) -> str:
    """What a command prints, run in a folder."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("TILEWRIGHT_", "NEURON"))}
    environment["TILEWRIGHT_CACHE"] = "off"
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_demo(tmp_path: Path):
    printed = ran(tmp_path, str(EXAMPLES / "demo.py"))
    assert "every instruction verified" in printed and ", group: " in printed and "build/demo/attention.html" in printed
    made = {file.name for file in (tmp_path / "build" / "demo").iterdir()}
    assert {"attention.py", "attention.html", "attention.report.json", "attention.plan.txt"} <= made
    # What was written is a kernel that runs.
    run = (
        "import importlib.util, sys, numpy as np, tilewright as tw; tw.activate()\n"
        "def module(file):\n"
        "    spec = importlib.util.spec_from_file_location('example', file)\n"
        "    made = importlib.util.module_from_spec(spec); spec.loader.exec_module(made); return made\n"
        f"kernel, plain = module('build/demo/attention.py'), module({str(EXAMPLES / 'attention.py')!r})\n"
        "arrays = plain.inputs()\n"
        "print(np.abs(kernel.attention(*arrays) - plain.attention(*arrays)).max() < 1e-5)"
    )
    assert ran(tmp_path, "-c", run) == "True\n"


def test_the_hand_written_kernel(tmp_path: Path):
    printed = ran(tmp_path, "-m", "tilewright", "run", str(EXAMPLES / "attention_nki.py"))
    assert printed == "attention over 512 keys agrees with NumPy\n"
