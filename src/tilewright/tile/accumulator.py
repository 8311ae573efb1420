"""The accumulator registers of an engine: one float32 per lane, shared by all of its instructions that reduce.

A chain of instructions reduces into them: the first with reduce_cmd.reset_reduce or load_reduce, the others with
reduce, and whichever is given a result tile reads them out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.target import Target

UNDEFINED, EMPTY, HELD = range(3)


def accumulate(
    state: dict[str, Any],
    target: Target,
    lane: int,
    command: str,
    combine: np.ufunc,
    column: np.ndarray,
    report: Callable[..., None],
    initial: np.ndarray | float | None = None,
) -> np.ndarray | None:
    """Apply a reduce_cmd to the registers of lanes `lane`...; returns what they then hold, [P, 1], None when idle.

    column: this instruction's own reduction, [P, 1]. initial: what load_reduce starts from. `state` is the engine's.
    Reducing into registers that nothing has reset is reported (R-tensor_scalar_cumulative-05).
    """
    if command == "idle":
        return None
    if "held" not in state:
        lanes = target["limits.partitions"]
        state["held"], state["status"] = np.zeros((lanes, 1), np.float32), np.full(lanes, UNDEFINED, np.uint8)
    used = slice(lane, lane + len(column))
    held, status = state["held"][used], state["status"][used]
    if command in ("reset", "reset_reduce"):
        status[:] = EMPTY
    elif command == "load_reduce":
        held[...] = np.asarray(initial, np.float32)
        status[:] = HELD
    elif (status == UNDEFINED).any():
        report(
            "R-tensor_scalar_cumulative-05",
            f"reduce_cmd=reduce goes on with accumulators of lanes {lane}..{lane + len(column) - 1} that hold nothing",
            hint="start the chain with reduce_cmd.reset_reduce",
        )
        status[:] = EMPTY
    if command != "reset":
        held[...] = np.where(status[:, None] == HELD, combine(held, column), column)
        status[:] = HELD
    return held.copy()
