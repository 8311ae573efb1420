"""What becomes of kernels, for whoever wants to know: each that is launched or compiled is announced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, eq=False)
class Event:
    """A kernel that is about to run, and what became of it.

    kernel: its name. function: the user's. run: what the run left behind, or the compiled kernel; None when it did not
    end, or ran as a part of a program. error: what ended it. given: the arguments of a compiled function. computes: it
    is run for its results, and not for its instructions alone, on arrays that are only described.
    """

    kernel: str
    function: Any
    run: Any = None
    error: BaseException | None = None
    given: tuple[Any, Any] = ((), {})
    computes: bool = True


class Listener:
    """Told of every kernel, before and after; both methods may be left as they are."""

    def begins(self, event: Event) -> None:
        """A kernel is about to run."""

    def ended(self, event: Event) -> None:
        """A kernel ran (`run`) or was refused (`error`)."""


_listeners: list[Listener] = []


def listen(listener: Listener) -> Callable[[], None]:
    """Tell a listener from now on, until what is returned is called."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


@contextmanager
def announced(kernel: str, function: Any) -> Iterator[Event]:
    """Tell listeners of a kernel that runs inside of the block, which sets the event's `run`."""
    event = Event(kernel, function)
    if not _listeners:
        yield event
        return
    for each in _listeners:
        each.begins(event)
    try:
        yield event
    except BaseException as error:
        event.error = error
        raise
    finally:
        for each in reversed(_listeners):
            each.ended(event)


def refused(kernel: str, function: Any, error: BaseException) -> None:
    """Tell listeners of a function of which no kernel was made, or of a part of a program that did not run."""
    _tell(Event(kernel, function, error=error))


def ran(kernel: str) -> None:
    """Tell listeners of a kernel that ran as a part of a program."""
    _tell(Event(kernel, None))


def _tell(event: Event) -> None:
    for each in _listeners:
        each.begins(event)
    for each in reversed(_listeners):
        each.ended(event)
