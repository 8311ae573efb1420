"""The random number generator of the engines: XORWOW, six words of state for each stream of each lane.

The documentation names the algorithm; what it leaves open is chosen here: a state is (x, y, z, w, v, counter), elements
are taken from the streams of a lane in turn, and a seed is spread over all of them. Before NeuronCore-v4 the Vector
engine had another generator, whose numbers are not these. Unseeded, a run begins as with seed 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.target import Target

WORDS = 6


def streams(engine: str, target: Target) -> int:
    """Streams per lane of an engine."""
    return target[f"limits.rand_state_{engine}"] // WORDS


def states(state: dict[str, Any], engine: str, target: Target) -> np.ndarray:
    """The states of all lanes of an engine, uint32 [lanes, streams, 6], which `draw` changes in place."""
    if "random" not in state:
        seed(state, engine, 0, target)
    return state["random"]


def seed(state: dict[str, Any], engine: str, value: int, target: Target) -> None:
    """Set the states of all lanes from 32 bits."""
    shape = target["limits.partitions"], streams(engine, target), WORDS
    counter = np.arange(1, int(np.prod(shape)) + 1, dtype=np.uint64) + (np.uint64(value) << np.uint64(32))
    # SplitMix64: neighbouring counters give unrelated words.
    mixed = counter * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    state["random"] = (mixed ^ (mixed >> np.uint64(31))).astype(np.uint32).reshape(shape)


def draw(held: np.ndarray, count: int) -> np.ndarray:
    """The next 32-bit numbers of some lanes, uint32 [lanes, count]; `held` are their states."""
    lanes, width, _ = held.shape
    drawn = np.empty((lanes, -(-count // width), width), np.uint32)
    x, y, z, w, v, counter = (held[:, :, i].copy() for i in range(WORDS))
    for step in range(drawn.shape[1]):
        t = x ^ (x >> np.uint32(2))
        x, y, z, w = y, z, w, v
        v = v ^ (v << np.uint32(4)) ^ t ^ (t << np.uint32(1))
        counter = counter + np.uint32(362437)
        drawn[:, step] = v + counter
    for i, word in enumerate((x, y, z, w, v, counter)):
        held[:, :, i] = word
    return drawn.reshape(lanes, -1)[:, :count]


def uniform(bits: np.ndarray) -> np.ndarray:
    """float32 in [0, 1) from the upper 24 bits, all that a float32 holds."""
    return (bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
