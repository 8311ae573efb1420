"""The stage that runs tests with a fault really has the fault in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.mutation.inject import VARIABLE
from tests.mutation.places import AREAS, every_fault, faults
from tests.mutation.tested import WITHOUT

ROOT = Path(__file__).parents[2]
TEST = "tests/lower/test_reuse.py::test_small_kernels[pieces that overlap]"
BEFORE = "if _is_same(a.view, b.view) and injective"


def _fault() -> str:
    (key,) = (each.key for each in every_fault("reuse", "order/reuse.py") if each.before.startswith(BEFORE))
    return key


def _code(test: str, fault: str) -> int:
    environment = {**os.environ, VARIABLE: fault}
    # Options of this run of pytest are not meant for that one.
    environment.pop("PYTEST_ADDOPTS", None)
    command = [sys.executable, "-m", "tests.mutation.tested", test]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=False).returncode


def test_a_fault_is_found_by_a_test():
    """One that passes without it."""
    assert _code(TEST, _fault()) == 1


def test_tests_that_never_load_the_file_are_no_proof():
    assert _code("tests/mutation/test_tested.py::test_there_is_such_a_place", _fault()) == WITHOUT


def test_there_is_such_a_place():
    assert _fault().startswith("order/reuse.py:")


def test_every_area_has_places():
    """Files that are named are there, with places enough in them."""
    for area in AREAS:
        found = faults(area, 10)
        assert len({fault.key for fault in found}) == 10
        assert len({fault.file for fault in found}) >= 4
