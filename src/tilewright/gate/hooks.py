"""What pytest calls: kernels are counted by test, and the run is judged at its end, across the workers of xdist."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tilewright.events import listen
from tilewright.gate.branches import Branch, branches_on_simulation
from tilewright.gate.budgets import (
    Measured,
    Taken,
    not_in,
    over_budget,
    read_baseline,
    regressions,
    taken_by,
    write_baseline,
)
from tilewright.gate.lines import Covered, LineTracer, check_target
from tilewright.gate.marks import MARK, check_marks, has_budget, marked
from tilewright.gate.summary import Imported, Outcome, show
from tilewright.gate.tally import Refusal, Tally, count, watching_for_errors

EXECUTED, REFUSED, TAKEN = "tilewright_executed", "tilewright_refused", "tilewright_taken"
"""Names of what a test's report has, and its JUnit file."""
AFTER = "_after"
"""Behind the names of what fixtures did when the test was over."""


class FallbackWarning(pytest.PytestWarning):
    """A kernel was refused, and the test passed with what something else computed."""


class OverBudget(pytest.fail.Exception):
    """A test whose kernels take more than it allows."""


class Gate:
    """The plugin of one process: a run, or a worker of one."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.is_worker = hasattr(config, "workerinput")
        self.tally = Tally()
        measures = not config.getoption("--no-tilewright-cov")
        target = config.getoption("--tilewright-cov")
        self.tracer = LineTracer(bool(target)) if measures else None
        for file in (target, config.getoption("--tilewright-baseline")):
            if file and not self.is_worker:
                check_target(Path(file), is_lines=file == target)
        self.before = self._baseline()
        self.covered = Covered()
        self.branches: set[Branch] = set()
        self.imported = Imported()
        self.outcome = Outcome()
        self.measured: Measured = {}
        self.stack = ExitStack()

    # Before and after each test.

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Refuse marks that mean nothing."""
        check_marks(items)

    def pytest_sessionstart(self) -> None:
        """Listen to kernels from now on."""
        self.stack.callback(listen(self.tally))
        if self.tracer is not None:
            self.stack.callback(listen(self.tracer))
        self.stack.enter_context(watching_for_errors(self.tally.saw))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Count for this test."""
        wants_times = bool(item.config.getoption("--tilewright-baseline"))
        self.tally.begin(wants_times or has_budget(item))
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Hold the kernels of a test to its budgets."""
        result = yield
        if self.tally.now.runs:
            taken = taken_by(self.tally.now.runs)
            item.user_properties.append((TAKEN, json.dumps({name: each._asdict() for name, each in taken.items()})))
            over = over_budget(taken, marked(item, "max_us"), marked(item, "max_sbuf"))
            if over:
                raise OverBudget("; ".join(over), pytrace=False)
        elif has_budget(item) and not marked(item, "refused"):
            raise OverBudget("no kernel ran, so that nothing was held to the budget of the test", pytrace=False)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        """Put what the kernels did into the report of a test; what fixtures did before it counts for the test."""
        if call.when != "setup" or call.excinfo is not None:
            accepts = bool(marked(item, "refused"))
            record, refusals = self.tally.take()
            refused = [each.as_data() | {"expected": each.expected or accepts} for each in refusals]
            after = AFTER if call.when == "teardown" else ""
            if record.executed or not after:
                item.user_properties.append((EXECUTED + after, len(record.executed)))
            if refused:
                item.user_properties.append((REFUSED + after, json.dumps(refused)))
        report: Any = yield
        if call.excinfo is not None and isinstance(call.excinfo.value, OverBudget):
            report.longrepr = str(call.excinfo.value)
        if report.outcome == "passed":
            for each in _refusals(report):
                if not each.expected:
                    _warn(item, report, f"the test passed, but something else ran in place of kernel {each}")
        return report

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count what the import of a test file ran: nothing else would notice that it fell back."""
        record, refusals = self.tally.take()
        self.imported.executed += len(record.executed)
        self.imported.refused += count(refusals)
        if report.passed:
            self.imported.fell_back += [(report.nodeid, each) for each in refusals if not each.expected]

    # At the end of a process.

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a test to the outcome of the run."""
        if self.is_worker:
            return
        reason = getattr(report, "wasxfail", None)
        if reason is not None and report.when == "call":
            kind = self.outcome.unexpected_passes if report.outcome == "passed" else self.outcome.expected_failures
            kind.append((report.nodeid, str(reason)))
        found = _found(report)
        self.outcome.executed += int(found.get(EXECUTED, 0))
        refusals = _refusals(report)
        self.outcome.refused += count(refusals)
        self.outcome.reached += report.when == "call" and report.outcome != "skipped"
        unexpected = [(report.nodeid, each) for each in refusals if not each.expected]
        if report.outcome == "passed":
            self.outcome.fell_back += unexpected
        elif report.outcome == "skipped" and reason is None:
            self.outcome.skipped += unexpected
        if TAKEN in found:
            taken = json.loads(str(found[TAKEN]))
            self.measured[report.nodeid] = {name: Taken(**each) for name, each in taken.items()}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """Take over what a worker of xdist found."""
        found = getattr(node, "workeroutput", {}).get(MARK)
        if found is not None:
            self.covered.add(**found["covered"])
            self.branches.update(Branch(*each) for each in found["branches"])
            self.imported.join(Imported.of_data(found["imported"]))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Judge the run, or send what a worker found to it."""
        self.stack.close()
        covered = Covered() if self.tracer is None else self.tracer.covered()
        if self.is_worker:
            output: dict[str, Any] = self.config.workeroutput  # type: ignore[attr-defined]
            output[MARK] = {
                "covered": covered.as_data(),
                "branches": [tuple(each) for each in branches_on_simulation(self.tally.hosts)],
                "imported": self.imported.as_data(),
            }
            return
        self.covered.add(**covered.as_data())
        self.outcome.branches = sorted(self.branches.union(branches_on_simulation(self.tally.hosts)))
        self.outcome.add(self.imported)
        self._against_baseline()
        target = self.config.getoption("--tilewright-cov")
        if target:
            self.covered.write(Path(target))
        if self.gating and self.faults and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _baseline(self) -> Measured | None:
        """What the file of earlier figures says, read before the first test; None where there is none."""
        file = self.config.getoption("--tilewright-baseline")
        return read_baseline(Path(file)) if file and not self.is_worker and Path(file).exists() else None

    def _against_baseline(self) -> None:
        file = self.config.getoption("--tilewright-baseline")
        if not file:
            return
        if self.config.getoption("--tilewright-update-baseline") or self.before is None:
            write_baseline(Path(file), (self.before or {}) | self.measured)
            self.outcome.written = f"{file} has the figures of {len(self.measured)} tests anew"
        else:
            self.outcome.slower = regressions(self.before, self.measured)
            self.outcome.unknown = not_in(self.before, self.measured)

    @property
    def gating(self) -> bool:
        """Whether a fault fails the run."""
        return self.config.getoption("--tilewright-gate") == "fail"

    @property
    def faults(self) -> list[str]:
        """Why the run fails."""
        if self.config.getoption("collectonly"):
            return []
        asked: Any = self.config.getoption("--tilewright-min-kernels")
        return self.outcome.faults(asked)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what was found."""
        if not self.is_worker and not self.config.getoption("collectonly"):
            show(terminalreporter, self.outcome, self.faults, self.covered, self.gating)


def _warn(item: pytest.Item, report: Any, text: str) -> None:
    """Warn of a test that passed; it fails where the suite makes errors of warnings."""
    try:
        item.warn(FallbackWarning(text))
    except FallbackWarning:
        report.outcome, report.longrepr = "failed", f"FallbackWarning: {text}"


def _found(report: pytest.TestReport) -> dict[str, Any]:
    """What the phase of a test that a report is of has left in it; a report also has what earlier ones left."""
    found = dict(report.user_properties)
    if report.when == "teardown":
        return {name.removesuffix(AFTER): value for name, value in found.items() if name.endswith(AFTER)}
    return {} if report.when == "setup" and report.passed else found


def _refusals(report: pytest.TestReport) -> list[Refusal]:
    text = _found(report).get(REFUSED)
    return [] if text is None else [Refusal(**each) for each in json.loads(str(text))]
