"""pytest plugin: `import nki` resolves to tilewright in a test run, conftest.py files included, when asked for.

It does nothing unless one of these asks: `pytest --tilewright`, `pytest --tilewright-compile`, `pytest -p tilewright`,
the setting `tilewright = true` and the environment variable TILEWRIGHT_ACTIVATE=1. "force" in place of true or 1 hides
an installed nki.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

from tilewright.activate import activate
from tilewright.errors import TileError, is_internal
from tilewright.gate.options import add_options, check_options
from tilewright.target import get_target

VARIABLE = "TILEWRIGHT_ACTIVATE"
_WORDS = {
    **dict.fromkeys(("", "0", "false", "no", "off"), "off"),
    **dict.fromkeys(("1", "true", "yes", "on"), "on"),
    "force": "force",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """The flag and the setting."""
    leave_assertions()
    group = parser.getgroup("tilewright", "NKI kernels on tilewright's simulator")
    group.addoption("--tilewright", action="store_true", help="make `import nki` resolve to tilewright")
    add_options(group)
    parser.addini("tilewright", "make `import nki` resolve to tilewright: true, false or force", default="false")


def leave_assertions() -> None:
    """Keep pytest from rewriting the package's own assertions.

    It does so with every package that brings a plugin, for the sake of assertions in plugins. Ours stand in a compiler
    and a simulator, for which every test run would wait.
    """
    for finder in sys.meta_path:
        if isinstance(finder, AssertionRewritingHook):
            finder._must_rewrite.discard("tilewright")  # pyright: ignore[reportPrivateUsage]
            finder.mark_rewrite()  # forgets what it has decided


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Activate before any conftest.py is imported: it may import nki itself."""
    wanted = asked(early_config)
    if wanted != "off":
        activate(force=wanted == "force")
    given = early_config.known_args_namespace
    if given.tilewright_compile:
        from tilewright.host.nkipy import install

        install(given.tilewright_promotion)


def pytest_configure(config: pytest.Config) -> None:
    """Know the mark; count kernels where nki is simulated."""
    config.addinivalue_line(
        "markers",
        "tilewright(max_us=None, max_sbuf=None, refused=False): budgets of each kernel that the test runs; "
        "refused: the test knows that kernels are refused",
    )
    check_options(config, asked(config) != "off", bool(config.getoption("tilewright_compile")))
    if asked(config) != "off":
        from tilewright.gate.hooks import Gate

        config.pluginmanager.register(Gate(config), "tilewright-gate")
    if config.getoption("tilewright_compile"):
        from tilewright.gate.suite import CompiledSuite

        suite = CompiledSuite(str(config.getoption("tilewright_promotion")))
        config.pluginmanager.register(suite, "tilewright-suite")


@pytest.fixture
def tilewright_backend(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """run(function, *args): through `tw.compile` with --tilewright-compile, else the function itself."""
    suite = request.config.pluginmanager.get_plugin("tilewright-suite")
    return (lambda function, *args, **kwargs: function(*args, **kwargs)) if suite is None else suite.backend()


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say which nki the tests get."""
    if asked(config) == "off":
        return None
    simulated = f"nki is simulated, by default on {get_target(None).name}"
    return f"tilewright: {simulated if activate() else 'nki is installed and was left alone'}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A test that a kernel fails shows the kernel's line, not how this package came to refuse it (--full-trace)."""
    if call.excinfo is not None and _is_users(call.excinfo):
        for entry in call.excinfo.traceback:
            if is_internal(str(entry.path)):
                entry.frame.raw.f_globals.setdefault("__tracebackhide__", _is_users)
    return (yield)


def _is_users(found: pytest.ExceptionInfo[BaseException]) -> bool:
    """Whether an error is about the user's code: a diagnostic, or raised by it."""
    return isinstance(found.value, TileError) or not is_internal(str(found.traceback[-1].path))


def asked(config: pytest.Config) -> str:
    """What the run asks for: "off", "on" or "force"."""
    wanted = {_read(VARIABLE, os.environ.get(VARIABLE, "")), _read("tilewright", config.getini("tilewright"))}
    given = config.known_args_namespace
    if given.tilewright or given.tilewright_compile or "tilewright" in (given.plugins or ()):
        wanted.add("on")
    return next(each for each in ("force", "on", "off") if each in wanted)


def _read(name: str, word: str) -> str:
    if word.strip().lower() not in _WORDS:
        raise pytest.UsageError(f"{name}={word!r} is not one of true, false and force")
    return _WORDS[word.strip().lower()]
