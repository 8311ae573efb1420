"""Commands of tilewright in processes of their own: what a user's script does there cannot harm a server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command answered. `document` is its JSON; None where it gave none or ran out of time."""

    exit_code: int | None
    document: dict[str, Any] | None
    messages: str
    """What it, and the script that it ran, printed besides."""

    @property
    def timed_out(self) -> bool:
        return self.exit_code is None


class Child:
    """A command `tilewright ARGUMENTS` that runs in a folder until it ends, is ended, or its time is over."""

    def __init__(self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tilewright", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, **(environment or {}), "PYTHONIOENCODING": "utf-8"},
            start_new_session=True,
        )

    def answer(self, time_limit_s: float) -> Answer:
        """Wait for what the command answers."""
        process = self._process
        with process:
            try:
                printed, messages = process.communicate(timeout=time_limit_s)
            except subprocess.TimeoutExpired:
                self.end()
                _, messages = process.communicate()
                return Answer(None, None, messages)
            except BaseException:
                self.end()
                raise
        return Answer(process.returncode, _document(printed), messages)

    def end(self) -> None:
        """End the process and its children: they are a group of their own where the system has groups."""
        if self._process.poll() is not None:
            return
        if hasattr(os, "killpg"):
            os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()


def _document(printed: str) -> dict[str, Any] | None:
    try:
        found = json.loads(printed)
    except ValueError:
        return None
    return found if isinstance(found, dict) else {"value": found}
