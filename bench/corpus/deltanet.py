"""One chunk of gated DeltaNet: the inverse of a triangular matrix row after row, and by doubling."""

from __future__ import annotations

import numpy as np

from bench.corpus.program import Arrays, Program, normal


def _start(k, beta, g, lower, below):
    """Summed gates, decay between positions, and the strictly lower matrix whose inverse is wanted."""
    gates = np.cumsum(g, axis=0)
    decay = np.exp((np.expand_dims(gates, 1) - np.expand_dims(gates, 0)) * lower) * lower
    weighted = k * np.expand_dims(beta, 1)
    return gates, decay, (weighted @ np.transpose(k)) * decay * below * -1.0


def _finish(inverse, q, k, v, beta, gates, decay, state):
    """The chunk's output and the state after it."""
    rates, grown = np.expand_dims(beta, 1), np.expand_dims(np.exp(gates), 1)
    value = inverse @ (v * rates)
    kept = inverse @ (k * rates * grown)
    new = value - kept @ state
    out = (q * grown) @ state + ((q @ np.transpose(k)) * decay) @ new
    last = gates[-1:]
    left = k * np.expand_dims(np.exp(last - gates), 1)
    return out, state * np.exp(last) + np.transpose(left) @ new


def by_rows(q, k, v, beta, g, state, lower, below, unit):
    """Forward substitution, one row after the other."""
    gates, decay, matrix = _start(k, beta, g, lower, below)
    inverse = np.copy(matrix)
    for i in range(1, q.shape[0]):
        row = inverse[i : i + 1, :]
        inverse[i : i + 1, :] = row + row @ (inverse * below)
    return _finish(inverse + unit, q, k, v, beta, gates, decay, state)


def by_doubling(q, k, v, beta, g, state, lower, below, unit):
    """(1 + A)(1 + A^2)(1 + A^4) and so on."""
    gates, decay, power = _start(k, beta, g, lower, below)
    inverse, reach = unit + power, 2
    while reach < q.shape[0]:
        power = power @ power
        inverse = inverse @ (unit + power)
        reach *= 2
    return _finish(inverse, q, k, v, beta, gates, decay, state)


def chunk(length: int, width: int = 128) -> Arrays:
    """Queries and keys of unit length, gates, a state, and the triangles that the functions take."""
    rng = np.random.default_rng(0)

    def unit(a: np.ndarray) -> np.ndarray:
        return (a / np.linalg.norm(a, axis=-1, keepdims=True)).astype(np.float32)

    rates = rng.uniform(0.1, 0.9, length).astype(np.float32)
    gates = -rng.uniform(0.01, 0.2, length).astype(np.float32)
    ones = np.ones((length, length), np.float32)
    return (
        unit(normal(length, width)) * np.float32(width**-0.5),
        unit(normal(length, width, seed=1)),
        normal(length, width, seed=2),
        rates,
        gates,
        normal(width, width, scale=0.1, seed=3),
        np.tril(ones),
        np.tril(ones, -1),
        np.eye(length, dtype=np.float32),
    )


PROGRAMS = [
    Program(f"deltanet_chunk{n}_d128_{how}", fn, lambda n=n: chunk(n))
    for n in (64, 128)
    for how, fn in (("rows", by_rows), ("doubling", by_doubling))
]
