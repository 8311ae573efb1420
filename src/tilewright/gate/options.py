"""The options of the gate, which every run of pytest knows."""

from __future__ import annotations

import argparse

import pytest

_OF_THE_GATE = {
    "--tilewright-min-kernels": None,
    "--tilewright-gate": "fail",
    "--tilewright-cov": None,
    "--tilewright-baseline": None,
    "--tilewright-update-baseline": False,
}
"""Options that mean nothing where no kernels are counted, with what they are when nobody gives them."""


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no number of kernels: give 0, 1, 2, ...")
    return int(text)


def check_options(config: pytest.Config, gated: bool, compiled: bool) -> None:
    """A usage error for options that contradict each other, a warning for those that do nothing in this run."""
    if config.getoption("--tilewright-update-baseline") and not config.getoption("--tilewright-baseline"):
        raise pytest.UsageError("--tilewright-update-baseline: say which file, with --tilewright-baseline FILE")
    idle = [] if gated else [name for name, usual in _OF_THE_GATE.items() if config.getoption(name) != usual]
    told = [f"{', '.join(idle)}: nothing is counted without --tilewright"] if idle else []
    if not compiled and config.getoption("--tilewright-promotion") != "numpy":
        told.append("--tilewright-promotion: nothing is compiled without --tilewright-compile")
    for text in told:
        config.issue_config_time_warning(pytest.PytestConfigWarning(text), stacklevel=2)


def add_options(group: pytest.OptionGroup) -> None:
    """The options of the gate."""
    group.addoption(
        "--tilewright-min-kernels",
        type=_count,
        default=_OF_THE_GATE["--tilewright-min-kernels"],
        metavar="N",
        help="fail the run when fewer kernels were executed (default: 1, where not all tests are skipped)",
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
