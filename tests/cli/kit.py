"""Running the command line inside the test process."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tilewright.cli import main

ROOT = Path(__file__).parents[2]
OURS = re.compile(r"src/tilewright|site-packages/tilewright|tilewright/[\w/]+\.py")


@dataclass(frozen=True)
class Result:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def codes(self) -> list[str]:
        """Codes of all diagnostics printed as text."""
        return re.findall(r"(?:error|warning)\[([EW]\d{3}|err_\w+)", self.out + self.err)


class CommandLine:
    """tilewright("run --json", script): runs a command and checks what holds for every command."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, command: str, *more: object) -> Result:
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([*shlex.split(command), *map(str, more)])
        printed = self.capsys.readouterr()
        result = Result(int(ended.value.code or 0), printed.out, printed.err)
        assert result.code in (0, 1, 2, 3), result
        assert not OURS.search(result.out + result.err), "an internal file name is shown"
        assert "\x1b[" not in result.out + result.err, "colours without a terminal"
        return result
