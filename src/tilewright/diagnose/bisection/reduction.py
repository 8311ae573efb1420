"""Delta debugging: the fewest parts with which a failure stays, with few tries, a budget, and a memory of tries."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from tilewright.files import json_of

Tell = Callable[[str], None]


@dataclass
class Budget:
    """What may be spent, and what was: calls of the oracle and seconds. `tell` hears of progress.

    once: what one call takes at present. closing: what is left to do at the end, for which time is kept.
    """

    calls: int = 2000
    seconds: float = 120.0
    tell: Tell | None = None
    spent: int = 0
    started: float = field(default_factory=time.monotonic)
    once: float = 0.0
    closing: float = 0.0

    @property
    def is_over(self) -> bool:
        return self.spent >= self.calls or self.elapsed + self.once + self.closing > self.seconds

    @property
    def elapsed(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self.started

    def spend(self, what: str, call: Callable[[], bool]) -> bool:
        """Call the oracle once."""
        self.spent += 1
        if self.tell is not None:
            self.tell(f"{self.spent} of at most {self.calls} tries, {self.elapsed:.0f} s: {what}")
        before = self.elapsed
        try:
            return call()
        finally:
            self.once = self.elapsed - before


class Memory:
    """Verdicts by what was tried, kept in a file so that a bisection that was ended goes on where it was."""

    def __init__(self, file: Path | None, case: str) -> None:
        self.file, self.case = file, case
        self.known: dict[str, bool] = {}
        self.resumed = 0
        if file is not None and file.exists():
            try:
                held = json_of(file.read_text(encoding="utf-8"))
            except ValueError:
                # A file that was cut off while it was written: everything is tried again.
                held = {}
            known = held.get("known") if isinstance(held, dict) and held.get("case") == case else None
            if isinstance(known, dict):
                self.known = {str(name): bool(verdict) for name, verdict in known.items()}
                self.resumed = len(self.known)

    def ask(self, key: Any, oracle: Callable[[], bool]) -> bool:
        """The verdict on something, from memory if it was tried before."""
        name = sha256(repr(key).encode()).hexdigest()[:32]
        if name not in self.known:
            self.known[name] = oracle()
            self._save()
        return self.known[name]

    def _save(self) -> None:
        if self.file is not None:
            part = self.file.with_suffix(".part")
            part.write_text(json.dumps({"case": self.case, "known": self.known}), encoding="utf-8")
            part.replace(self.file)


def fewest(parts: Sequence[int], fails: Callable[[Sequence[int]], bool], budget: Budget) -> list[int]:
    """A subset of the parts with which it fails, of which none can be left out (as far as the budget reaches).

    First halves, then smaller and smaller runs are left out; single ones at last, until nothing changes.
    """
    kept = list(parts)
    size = max(1, len(kept) // 2)
    while kept and not budget.is_over:
        changed = False
        start = 0
        while start < len(kept) and not budget.is_over:
            rest = kept[:start] + kept[start + size :]
            if fails(rest):
                kept, changed = rest, True
            else:
                start += size
        if size == 1 and not changed:
            break
        size = max(1, size // 2) if not changed or size > 1 else 1
    return kept


def smallest(low: int, high: int, fails: Callable[[int], bool], budget: Budget) -> int:
    """The smallest number above `low`, with which it does not fail, that fails; `high` does."""
    while high - low > 1 and not budget.is_over:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(middle) else (middle, high)
    return high
