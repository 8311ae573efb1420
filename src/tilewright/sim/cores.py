"""The cores of a logical core: one kernel on several cores, one after the other, and where they wait for each other.

A core runs until it waits for others or ends; then the next one goes on, so that a run is deterministic whatever the
kernel does. Each core has a thread and a program_id of its own (R-simulate-05), but only the one whose turn it is runs.
When all that have not ended wait, none of them can ever go on, and the kernel is refused. Between two meetings all that
one core does comes before all that the next does; in another `Order` it comes after it, or the cores take turns at what
they share: what differs is a race.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.errors import Location
from tilewright.ir.core import Op
from tilewright.rules import Reporter, violate
from tilewright.sim.races import Accesses, Barrier
from tilewright.sim.storage import Storage
from tilewright.sim.undefined import Origins
from tilewright.tile.memory import Buffer
from tilewright.tile.record import Meeting

if TYPE_CHECKING:
    from tilewright.sim.session import Session


@dataclass(frozen=True, slots=True)
class Order:
    """In which order cores run between two meetings: the last one first; after some lines the others go on first."""

    backwards: bool = False
    pauses: frozenset[Location | None] = frozenset()

    @property
    def seen(self) -> str:
        """What is said where the results are others in this order."""
        if self.pauses:
            return "the results are different when the cores take turns there"
        return "in the other order the results are different"


FIRST_TO_LAST = Order()


def other_orders(accesses: Accesses) -> tuple[Order, ...]:
    """Orders in which what races is tried.

    The cores the other way round turn every pair of accesses round. Sums that both update are the same then: they
    differ when each has read before the other writes.
    """
    return Order(backwards=True), Order(pauses=accesses.lines())


class Stopped(BaseException):
    """Ends a core because another one has failed. Not an Exception: a kernel's own handlers must not stop it."""


@dataclass(slots=True)
class Wait:
    """A core at a meeting: what it brings, and what it takes away once all have come."""

    meeting: Meeting
    name: str
    location: Location | None
    brought: Any
    orders: tuple[Storage, ...] = ()
    taken: Any = None
    over: bool = False


class Turns:
    """Whose turn it is among the cores of a launch, and who waits for whom."""

    def __init__(self, count: int, order: Order = FIRST_TO_LAST) -> None:
        self._step = -1 if order.backwards else 1
        self._pauses = order.pauses
        # A core whose turn it is not waits for its lock.
        self._locks = [threading.Lock() for _ in range(count)]
        self._waits: list[Wait | None] = [None] * count
        self._ended = [False] * count
        self._failed: int | None = None
        self.accesses = Accesses()
        # Set when a meeting was left out because its instruction broke a rule: that others wait is no fault of theirs.
        self.excused = False

    def run(self, bodies: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run one body per core; that of core 0 runs in the caller's thread. Returns what they return.

        What one of them raises ends the others, and is raised here.
        """
        for lock in self._locks:
            lock.acquire()
        results: list[Any] = []
        with ThreadPoolExecutor(len(bodies) - 1, thread_name_prefix="core") as pool:
            futures = [
                pool.submit(contextvars.copy_context().run, self._run, core, body)
                for core, body in enumerate(bodies[1:], 1)
            ]
            self._locks[0 if self._step > 0 else -1].release()
            with suppress(Stopped):
                results.append(self._run(0, bodies[0]))
        if self._failed is not None:
            # Of the caller's own core the exception has been raised already.
            futures[self._failed - 1].result()
        return results + [future.result() for future in futures]

    def _run(self, core: int, body: Callable[[], Any]) -> Any:
        done = False
        try:
            self._take_turn(core)
            result = body()
            done = True
        finally:
            self._leave(core, done)
        return result

    def _take_turn(self, core: int) -> None:
        self._locks[core].acquire()
        if self._failed is not None:
            raise Stopped

    def _leave(self, core: int, done: bool) -> None:
        self._ended[core] = True
        if not done and self._failed is None:
            self._failed = core
        following = self._next(core, anyone=True)
        # After an interrupt another core may be running already; it stops at its next instruction.
        if following is not None and self._locks[following].locked():
            self._locks[following].release()

    def _next(self, core: int, anyone: bool = False) -> int | None:
        """The next core after this one that can run; with `anyone`, else one that only waits."""
        waiting: int | None = None
        count = len(self._locks)
        for step in range(1, count):
            other = (core + step * self._step) % count
            if self._ended[other]:
                continue
            wait = self._waits[other]
            if wait is None or wait.over or self._failed is not None:
                return other
            waiting = other if waiting is None else waiting
        return waiting if anyone else None

    def go_on(self, core: int, location: Location | None) -> None:
        """Called after every instruction: a core stops when another one has failed, and pauses where it is to."""
        if self._failed is not None:
            raise Stopped
        if self._pauses and location in self._pauses:
            self.let_others(core)

    def let_others(self, core: int) -> None:
        """Let the other cores go on until they wait, pause or end, as if this one were slower."""
        following = self._next(core)
        if following is not None:
            self._hand_to(following, core)

    def _hand_to(self, following: int, core: int) -> None:
        self._locks[following].release()
        self._take_turn(core)

    def meet(self, core: int, op: Op, brought: Any, orders: tuple[Storage, ...], reporter: Reporter) -> Any:
        """Wait until all cores of an instruction's meeting have come; returns what this core takes away from it.

        orders: the tensors whose accesses are ordered by it; none: all.
        """
        meeting = op.definition.meeting(op.attrs, core)
        wait = self._waits[core] = Wait(meeting, op.name, op.location, brought, orders)
        self._settle(wait.meeting)
        while not wait.over:
            following = self._next(core)
            if following is not None:
                self._hand_to(following, core)
            elif self.excused:
                wait.taken, wait.over = wait.brought, True
            else:
                self._report_deadlock(core, wait, reporter)
        self._waits[core] = None
        return wait.taken

    def _settle(self, meeting: Meeting) -> None:
        """End a meeting to which all have come, with everybody listening to one who sends to it."""
        # Who has not come back from a meeting that is over has not come to this one.
        waits = {core: self._waits[core] for core in meeting.cores}
        there = {core: wait for core, wait in waits.items() if wait is not None and not wait.over}
        if len(there) < len(meeting.cores):
            return
        for core, wait in there.items():
            heard = there.get(core if wait.meeting.listens_to is None else wait.meeting.listens_to)
            same = wait.meeting.place == meeting.place and wait.meeting.cores == meeting.cores
            if not same or heard is None or (heard.meeting.sends_to not in (None, core)):
                return
        if len(there) == len(self._locks):
            orders = tuple(each for wait in there.values() for each in wait.orders)
            self.accesses.meet(Barrier(orders, there[meeting.cores[0]].location) if orders else None)
        for core, wait in there.items():
            listens_to = wait.meeting.listens_to
            wait.taken = there[core if listens_to is None else listens_to].brought
            wait.over = True

    def _report_deadlock(self, core: int, wait: Wait, reporter: Reporter) -> None:
        others = [self._describe(other) for other in range(len(self._locks)) if other != core]
        reporter.violate(
            wait.meeting.rule,
            f"deadlock: core {core} waits in {wait.name} ({_shown(wait.meeting)}) for ever: {'; '.join(others)}",
            hint="every core must come to the same meetings in the same order; issue them outside of what differs "
            "between the cores",
            location=wait.location,
            final=True,
        )

    def _describe(self, core: int) -> str:
        if self._ended[core]:
            return f"core {core} has ended"
        wait = self._waits[core]
        assert wait is not None, "a core that can run is no part of a deadlock"
        return f"core {core} waits in {wait.name} ({_shown(wait.meeting)}) at {wait.location}"


def _shown(meeting: Meeting) -> str:
    what, *which = meeting.place
    text = f"{what} {', '.join(map(str, which))}" if which else str(what)
    if meeting.listens_to is not None:
        text += f", to core {meeting.sends_to}, from core {meeting.listens_to}"
    return text


def run_cores(
    sessions: Sequence[Session], body: Callable[[Session], Any], order: Order = FIRST_TO_LAST
) -> tuple[list[Any], Accesses | None]:
    """Run a kernel's body in every session. Returns what each returned, and what several cores touched."""
    if len(sessions) == 1:
        return [_inside(sessions[0], body)], None
    turns = Turns(len(sessions), order)
    for session in sessions:
        session.machine.turns = turns
        session.machine.core = session.program_id
    returned = turns.run([lambda session=session: _inside(session, body) for session in sessions])
    turns.accesses.meet()
    for session in sessions:
        session.machine.turns = None  # what is read of results now comes after all
    return returned, turns.accesses


def _inside(session: Session, body: Callable[[Session], Any]) -> Any:
    with session.running():
        return body(session)


class SharedMemory:
    """shared_hbm tensors of a kernel that runs on several cores.

    One tensor belongs to all cores: the one of the same name, or the n-th without a name.
    """

    def __init__(self) -> None:
        self.origins = Origins()
        self._storages: dict[str | int, Storage] = {}
        self._unnamed: dict[int, int] = {}

    def find(self, core: int, name: str | None, buffer: Buffer) -> tuple[str | int, Storage | None]:
        """The key of this core's next shared tensor, and its storage if another core has allocated it already."""
        key = name or self._unnamed.get(core, 0)
        if not name:
            self._unnamed[core] = self._unnamed.get(core, 0) + 1
        storage = self._storages.get(key)
        if storage is not None:
            self._check_alike(core, key, storage.buffer, buffer)
        return key, storage

    def keep(self, key: str | int, storage: Storage) -> None:
        """Remember the storage of a tensor for the cores that allocate it later."""
        self._storages[key] = storage

    def _check_alike(self, core: int, key: str | int, known: Buffer, buffer: Buffer) -> None:
        if (known.shape, known.dtype) == (buffer.shape, buffer.dtype):
            return
        which = f"shared tensor {key!r}" if isinstance(key, str) else f"the shared tensor allocated as number {key + 1}"
        violate(
            "R-jit-07",
            f"{which} is {buffer.dtype}{list(buffer.shape)} on core {core}, but {known.dtype}{list(known.shape)} on "
            f"another core (allocated at {known.location})",
            hint="all cores of a logical core run the same control flow; allocate shared tensors alike on each",
            final=True,
        )
