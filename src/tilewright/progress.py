"""How far something is that takes over a second, and what was done: for people at a terminal or in a notebook.

`TILEWRIGHT_PROGRESS=off` shows nothing; `TILEWRIGHT_LOG=info` (or debug, warning, error) writes a line for everything
that was done to standard error.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

AFTER_S = 1.0
_PAUSE_S = 0.2

log = logging.getLogger("tilewright")
_shown = threading.Lock()


def set_up_log() -> None:
    """Send the log to standard error at the level that TILEWRIGHT_LOG names; a program's own handlers stay."""
    named = os.environ.get("TILEWRIGHT_LOG", "")
    level = logging.getLevelName(named.upper())
    if not isinstance(level, int):
        if named:
            log.warning("TILEWRIGHT_LOG=%s is none of debug, info, warning and error", named)
        return
    log.setLevel(level)
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("tilewright %(levelname)s %(message)s"))
        log.addHandler(handler)


set_up_log()


@contextmanager
def working(what: str, state: Callable[[], str] | None = None) -> Iterator[None]:
    """Say what is being done once it has taken a second, until it ends. `state` says how far it is.

    Only the outermost of several speaks, and only where somebody looks.
    """
    start = perf_counter()
    # One that is shown already is about the whole of what is being done.
    mine = _watched() and _shown.acquire(blocking=False)
    ended = threading.Event()
    thread = threading.Thread(target=_show, args=(what, state, ended, start), daemon=True) if mine else None
    if thread is not None:
        thread.start()
    try:
        yield
    finally:
        if thread is not None:
            ended.set()
            thread.join()
            _shown.release()
        log.info("%s: %.3f s", what, perf_counter() - start)


@contextmanager
def silent() -> Iterator[None]:
    """Something else shows how far it is."""
    mine = _shown.acquire(blocking=False)
    try:
        yield
    finally:
        if mine:
            _shown.release()


def _watched() -> bool:
    if os.environ.get("TILEWRIGHT_PROGRESS", "").lower() in ("off", "0", "no", "false"):
        return False
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def _show(what: str, state: Callable[[], str] | None, ended: threading.Event, start: float) -> None:
    """Runs beside the work: a line that is written over."""
    if ended.wait(AFTER_S):
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status(what) as status:
        while not ended.wait(_PAUSE_S):
            told = "" if state is None else f", {state()}"
            status.update(f"{what}: {perf_counter() - start:.0f} s{told}")
