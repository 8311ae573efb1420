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
REDUCING = ("reduce", "reset_reduce", "load_reduce")
"""The reduce_cmd values with which an instruction's data reaches the registers."""


def reduces(attrs: Any) -> bool:
    """True when the instruction reduces its data: all of it must then be defined."""
    return attrs["reduce_cmd"] in REDUCING


def accumulate(
    state: dict[str, Any],
    target: Target,
    lane: int,
    command: str,
    combine: Callable[[Any, Any], Any],
    column: np.ndarray,
    report: Callable[..., None],
    initial: np.ndarray | float | None = None,
    *,
    rule: str = "R-tensor_scalar_cumulative-05",
    identity: float = 0.0,
    idle_reads: bool = False,
) -> np.ndarray | None:
    """Apply a reduce_cmd to the registers of lanes `lane`...; returns what they then hold, [P, 1], None when idle.

    column: this instruction's own reduction, [P, 1]. initial: what load_reduce starts from. `state` is the engine's.
    Using registers that nothing has reset is reported as `rule`. `identity` is what a reset without a reduction leaves.
    An idle instruction of the Vector engine leaves its registers in an unknown state (R-exponential-06); with
    `idle_reads` it leaves them alone and reads them.
    """
    held, status = _registers(state, target, lane, len(column))
    if command == "idle" and not idle_reads:
        status[...] = UNDEFINED
        return None
    _prepare(held, status, lane, command, report, initial, rule, identity)
    if command in REDUCING:
        held[...] = np.where(status == HELD, combine(held, column), column)
        status[...] = HELD
    return held.copy()


def begin(
    state: dict[str, Any],
    target: Target,
    lane: int,
    count: int,
    command: str,
    report: Callable[..., None],
    initial: np.ndarray | float | None = None,
    *,
    rule: str = "R-tensor_scalar_cumulative-05",
    identity: float = 0.0,
) -> np.ndarray:
    """What a running reduction starts from, [P, 1], where the caller stores its last values with `keep`."""
    held, status = _registers(state, target, lane, count)
    _prepare(held, status, lane, command, report, initial, rule, identity)
    return np.where(status == HELD, held, np.float32(identity))


def keep(state: dict[str, Any], lane: int, values: np.ndarray) -> None:
    """Store the registers of lanes `lane`... after `begin`."""
    state["held"][lane : lane + len(values)] = values
    state["status"][lane : lane + len(values)] = HELD


def _registers(state: dict[str, Any], target: Target, lane: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Values and status of the lanes, [P, 1] each. They replace the old ones: a copy of the state keeps its own."""
    lanes = target["limits.partitions"]
    held = state["held"].copy() if "held" in state else np.zeros((lanes, 1), np.float32)
    status = state["status"].copy() if "status" in state else np.full((lanes, 1), UNDEFINED, np.uint8)
    state["held"], state["status"] = held, status
    return held[lane : lane + count], status[lane : lane + count]


def _prepare(
    held: np.ndarray,
    status: np.ndarray,
    lane: int,
    command: str,
    report: Callable[..., None],
    initial: np.ndarray | float | None,
    rule: str,
    identity: float,
) -> None:
    """What a reduce_cmd does before anything is reduced."""
    if command == "load_reduce":
        held[...] = np.asarray(initial, np.float32)
        status[...] = HELD
        return
    if command not in ("reset", "reset_reduce"):
        if not (status == UNDEFINED).any():
            return
        report(
            rule,
            f"reduce_cmd={command} uses accumulators of lanes {lane}..{lane + len(held) - 1} that hold nothing",
            hint="start the chain with reduce_cmd.reset_reduce",
        )
    held[...] = identity
    status[...] = EMPTY
