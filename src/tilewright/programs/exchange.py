"""Collectives in programs: ranks run the same executables in step, and exchange tensors where a collective stands.

A collective is a unit without instructions: the cores for collectives do it, between the kernels of an executable or
between executables. An executable that has some runs as segments of kernels with the exchanges between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tilewright.device import as_output, on_device
from tilewright.ir.core import Op, Value
from tilewright.programs.code import Code
from tilewright.target import Target
from tilewright.tensor.ranks import check_ranks

if TYPE_CHECKING:
    from tilewright.programs.plan import Executable

COLLECTIVE = "collective"
_ROUNDS = {"all_reduce": 2}
"""How often the tensor goes around: a sum is gathered, then given out."""


def is_collective(op: Op | None) -> bool:
    """Whether an op is done by several ranks together."""
    return op is not None and getattr(op.definition, "family", None) == COLLECTIVE


def collective_code(op: Op) -> Code:
    """What stands in the place of a kernel: no instructions, on no core."""
    return Code(op.name, dialect=COLLECTIVE, location=op.location)


def exchange_us(op: Op, target: Target) -> float:
    """How long a collective takes: every rank passes on what it has, around the ring of ranks."""
    world, rounds = op.attrs["world"], _ROUNDS.get(op.name, 1)
    moved = max(op.operands[0].type.nbytes, op.result.type.nbytes) * rounds * (world - 1) / world
    # GB/s is bytes per ns.
    return rounds * (world - 1) * target["chip.collective_hop_us"] + moved / target["chip.neuronlink"] / 1e3


def exchanged(op: Op, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What each rank gets of what all of them bring."""
    check_ranks(op, len(arrays))
    given = tuple(as_output(array, op.operands[0].type) for array in arrays)
    return [on_device(np.ascontiguousarray(each)) for each in op.definition.meaning(given, **op.attrs)]


def run_in_step(executable: Executable, ranks: Sequence[dict[Value, np.ndarray]]) -> None:
    """Run an executable on every rank; each rank's tensors are added to those that it has."""
    for part in executable.parts or (executable,):
        op = part.exchange
        if op is not None:
            (x,), (made,) = part.inputs, part.outputs
            for known, array in zip(ranks, exchanged(op, [known[x] for known in ranks]), strict=True):
                known[made] = array
            continue
        for known in ranks:
            results = part.run([known[value] for value in part.inputs])
            known.update(zip(part.outputs, results, strict=True))
