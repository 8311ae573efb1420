"""The examples run from any folder and do what they say; the demo is part of the tutorial (test_tutorial.py)."""

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


def test_the_hand_written_kernel(tmp_path: Path):
    printed = ran(tmp_path, "-m", "tilewright", "run", str(EXAMPLES / "attention_nki.py"))
    assert printed == "attention over 512 keys agrees with NumPy\n"
