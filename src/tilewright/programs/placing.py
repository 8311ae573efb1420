"""Running an executable with its tensors elsewhere in HBM: results must not depend on where they lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.ir.core import Graph
from tilewright.sim.run import run_graph
from tilewright.target import Target

_ALIGNED = 56
_FILL = 0xA5
_MOST_GAP = 5


def run_placed(
    graph: Graph, arrays: Sequence[np.ndarray], target: Target, profile: str, placement: int
) -> list[np.ndarray]:
    """The outputs of a verified kernel whose inputs lie in one memory, in an order and at distances that a seed draws.

    What lies between the tensors is looked at afterwards: no kernel may have written there.
    """
    rng = np.random.default_rng(placement)
    order = rng.permutation(len(arrays))
    starts: dict[int, int] = {}
    end = 0
    for number in order.tolist():
        starts[number] = end + int(rng.integers(1, _MOST_GAP)) * _ALIGNED
        end = starts[number] + -(-arrays[number].nbytes // _ALIGNED) * _ALIGNED
    memory = np.full(end + _ALIGNED, _FILL, np.uint8)
    free = np.ones(memory.size, np.bool_)
    placed: list[np.ndarray] = []
    for number, array in enumerate(arrays):
        part = slice(starts[number], starts[number] + array.nbytes)
        memory[part] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        free[part] = False
        placed.append(memory[part].view(array.dtype).reshape(array.shape))
    results = list(run_graph(graph, placed, target, profile, verified=True, copy=False))
    assert (memory[free] == _FILL).all(), f"{graph.name} wrote between its tensors"
    return results
