"""The options of the gate, which every run of pytest knows."""

from __future__ import annotations

import pytest


def add_options(group: pytest.OptionGroup) -> None:
    """The options of the gate."""
    group.addoption(
        "--tilewright-min-kernels",
        type=int,
        default=1,
        metavar="N",
        help="fail the run when fewer kernels were executed (default: 1)",
    )
    group.addoption(
        "--tilewright-gate",
        choices=("fail", "report"),
        default="fail",
        help="fail a run in which kernels were refused while their tests passed, or only report it",
    )
    group.addoption(
        "--tilewright-cov", metavar="FILE", help="write the lines of kernels that ran: FILE.lcov, or coverage.py data"
    )
    group.addoption("--no-tilewright-cov", action="store_true", help="do not measure which lines of kernels ran")
    group.addoption("--tilewright-baseline", metavar="FILE", help="fail when a kernel takes more than FILE says")
    group.addoption("--tilewright-update-baseline", action="store_true", help="write that file anew")
    group.addoption(
        "--tilewright-compile",
        action="store_true",
        help="NumPy kernels run through tw.compile: those of suites for nkipy, and of the fixture tilewright_backend",
    )
    group.addoption(
        "--tilewright-promotion",
        choices=("numpy", "device"),
        default="numpy",
        help="how their element types are promoted (default: numpy)",
    )
