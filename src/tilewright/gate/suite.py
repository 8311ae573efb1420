"""Suites of NumPy kernels through the compiler: what is not supported yet is expected to fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tilewright.api import compile as compile_function
from tilewright.errors import TileError


class CompiledSuite:
    """Turns refusals of what is not implemented into expected failures, each with its reason, and counts them.

    Nothing is listed by hand: a test whose program is supported one day simply passes from then on.
    """

    def __init__(self, promotion: str) -> None:
        self.promotion = promotion
        self.reasons: Counter[str] = Counter()

    def backend(self) -> Callable[..., Any]:
        """What the fixture gives to tests: run(function, *args) compiles and runs."""

        def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            return compile_function(function, *args, promotion=self.promotion, **kwargs)(*args, **kwargs)

        return run

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[None] | pytest.TestReport:
        """A refusal of what is not implemented is an expected failure."""
        report: pytest.TestReport = yield  # type: ignore[assignment,misc]
        error = call.excinfo.value if call.excinfo is not None else None
        if call.when == "call" and isinstance(error, NotImplementedError) and isinstance(error, TileError):
            report.outcome = "skipped"
            report.wasxfail = f"{error.diagnostic.code}: {error.diagnostic.message}"
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count reasons, also those of workers."""
        reason = getattr(report, "wasxfail", "")
        if report.when == "call" and report.outcome == "skipped" and reason.startswith("E"):
            self.reasons[reason] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The reasons, the most frequent first."""
        if self.reasons:
            terminalreporter.section("tilewright: not supported yet")
            for reason, count in self.reasons.most_common():
                terminalreporter.line(f"{count:5} {reason}")
