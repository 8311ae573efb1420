"""Plugin: write what the collected tests show of each rule, from their `rule(id, kind)` marks, to a file.

Used by `tests/test_conventions.py` as `pytest --collect-only -p tests.rule_marks`; RULE_MARKS names the file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest


def pytest_collection_finish(session: pytest.Session) -> None:
    found: dict[str, list[str]] = {}
    for item in session.items:
        for mark in item.iter_markers("rule"):
            rule, kind = mark.args
            kinds = found.setdefault(rule, [])
            if kind not in kinds:
                kinds.append(kind)
    Path(os.environ["RULE_MARKS"]).write_text(json.dumps(found))
