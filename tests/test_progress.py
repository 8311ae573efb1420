"""What is said while something takes long, and what the log has."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
import time

import pytest

from tilewright import progress

SCRIPT = """
import numpy as np
import tilewright as tw

k = tw.compile(lambda x: x + x, np.ones((128, 16), np.float32))
k(np.ones((128, 16), np.float32))
k.report
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    made = Terminal()
    monkeypatch.setattr(progress, "AFTER_S", 0.05)
    monkeypatch.setattr(progress, "_PAUSE_S", 0.02)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("TILEWRIGHT_PROGRESS", raising=False)
    return made


def test_what_takes_long_is_shown(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.working("counting", lambda: "12 of 34"), progress.working("inside"):
        time.sleep(0.4)
    assert "counting" in terminal.getvalue() and "12 of 34" in terminal.getvalue()
    assert "inside" not in terminal.getvalue()


def test_what_does_not_is_not(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.working("counting"):
        pass
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("way", ["off", "silent", "no terminal"])
def test_nothing_where_nobody_wants_it(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, way: str):
    monkeypatch.setattr(sys, "stderr", terminal)
    if way == "off":
        monkeypatch.setenv("TILEWRIGHT_PROGRESS", "off")
    if way == "no terminal":
        monkeypatch.setattr(terminal, "isatty", lambda: False)
    with progress.silent() if way == "silent" else progress.working("x"), progress.working("counting"):
        time.sleep(0.15)
    assert terminal.getvalue() == ""


def test_an_error_ends_it(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", terminal)
    with pytest.raises(ZeroDivisionError), progress.working("counting"):
        raise ZeroDivisionError
    with progress.working("again"):
        time.sleep(0.3)
    assert "again" in terminal.getvalue()


def test_the_log():
    environment = {**os.environ, "TILEWRIGHT_LOG": "info", "TILEWRIGHT_CACHE": "off"}
    ran = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stderr.splitlines()
    assert any(line.startswith("tilewright INFO compiling ") for line in lines)
    assert any(line.startswith("tilewright INFO timing ") for line in lines)


def test_levels_that_mean_nothing_are_passed_over(monkeypatch: pytest.MonkeyPatch):
    before = logging.getLogger("tilewright").level
    monkeypatch.setenv("TILEWRIGHT_LOG", "loud")
    progress.set_up_log()
    assert logging.getLogger("tilewright").level == before
