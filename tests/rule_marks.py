"""What the tests show of each rule, from their `rule(id, kind)` marks.

As a plugin (`pytest --collect-only -p tests.rule_marks`) it writes that to the file that RULE_MARKS names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest


def marks_of(items: Iterable[pytest.Item]) -> dict[str, list[str]]:
    """The kinds of tests (accept, reject, holds) that each rule has."""
    found: dict[str, list[str]] = {}
    for item in items:
        for mark in item.iter_markers("rule"):
            rule, kind = mark.args
            kinds = found.setdefault(rule, [])
            if kind not in kinds:
                kinds.append(kind)
    return found


def pytest_collection_finish(session: pytest.Session) -> None:
    Path(os.environ["RULE_MARKS"]).write_text(json.dumps(marks_of(session.items)))
