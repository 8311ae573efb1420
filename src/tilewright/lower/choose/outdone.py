"""Attempts that cannot win any more: steps written one by one are given up once they are worse than what is known.

A large group that is divided has as many steps as ops, and each is searched and written like a group of its own. Bytes
and engine time only grow from step to step, so that the rest need not be written where they are too many already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tilewright.ir.core import Op
from tilewright.lower.order.account import account, hbm_bytes
from tilewright.target import Target

Loses = Callable[[int, float], str | None]
"""Why what takes so many bytes of HBM and so many ns at least is worse than another; None where it may be better."""


class OutdoneError(Exception):
    """What is being written is worse than what is known; the message says by how much."""


@dataclass(slots=True)
class Contest:
    """What an attempt has taken so far."""

    target: Target
    loses: Loses
    bytes: int = 0
    engine_ns: Counter[str] = field(default_factory=Counter)

    def add(self, ops: Sequence[Op]) -> None:
        """Count further instructions; raises OutdoneError where no others can make up for them."""
        self.bytes += hbm_bytes(ops, self.target)
        self.engine_ns.update(account(ops, self.target).engine_ns)
        why = self.loses(self.bytes, max(self.engine_ns.values(), default=0.0))
        if why is not None:
            raise OutdoneError(why)
