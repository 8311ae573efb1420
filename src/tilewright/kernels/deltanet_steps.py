"""The steps of chunks of gated DeltaNet, for several at a time: [rows, chunks, columns] in SBUF."""

from __future__ import annotations

from typing import Any

import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.kernels.tiles import copied, filled

GROUP = 4
"""Chunks whose steps are single instructions: 128 columns of each fill a bank of PSUM."""


def decayed_products(q: Any, k: Any, beta: Any, g: Any, triangles: Any) -> tuple[Any, Any]:
    """-beta * keys and queries, turned: [width, n, 2, i]; and their products with all keys, decayed: [j, n, 2, i]"""
    rows, count, wide = k.shape
    minus = nl.ndarray((rows, count), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=minus, data=beta, op0=nl.multiply, operand0=-1.0)
    sides_t = nl.ndarray((wide, count, 2, rows), dtype=nl.float32, buffer=nl.sbuf)
    products = nl.ndarray((rows, count, 2, rows), dtype=nl.float32, buffer=nl.sbuf)
    for at in range(0, count, GROUP):
        some = slice(at, min(at + GROUP, count))
        keys_t = nl.ndarray((wide, some.stop - at, rows), dtype=nl.float32, buffer=nl.sbuf)
        turn(keys_t, k[:, some])
        turn(sides_t[:, some, 0], scaled(k[:, some], minus[:, some]))
        turn(sides_t[:, some, 1], q[:, some])
        decay_t = decays(g[:, some], triangles)
        for first in range(at, some.stop, GROUP // 2):
            last = min(first + GROUP // 2, some.stop)
            bank = nl.ndarray((rows, last - first, 2, rows), dtype=nl.float32, buffer=nl.psum)
            for n in range(first, last):
                nisa.nc_matmul(dst=bank[:, n - first], stationary=keys_t[:, n - at], moving=sides_t[:, n])
            factor = decay_t[:, first - at : last - at].expand_dim(2).broadcast(2, 2)
            nisa.tensor_tensor(dst=products[:, first:last], data1=bank, data2=factor, op=nl.multiply)
    return sides_t, products


def turn(place: Any, tiles: Any) -> None:
    """place[f, n, p] = tiles[p, n, f], as many as share a bank of PSUM"""
    bank = nl.ndarray(place.shape, dtype=nl.float32, buffer=nl.psum)
    for n in range(tiles.shape[1]):
        nisa.nc_transpose(dst=bank[:, n], data=tiles[:, n])
    nisa.tensor_copy(dst=place, src=bank)


def scaled(tiles: Any, factors: Any) -> Any:
    """tiles[p, n, f] * factors[p, n]"""
    made = nl.ndarray(tiles.shape, dtype=nl.float32, buffer=nl.sbuf)
    factor = factors.expand_dim(2).broadcast(2, tiles.shape[2])
    nisa.tensor_tensor(dst=made, data1=tiles, data2=factor, op=nl.multiply, engine=nisa.engine.gpsimd)
    return made


def decays(g: Any, triangles: Any) -> Any:
    """[j, n, i]: decay from j to i, zero before j

    The sum of gates after j up to i is one product: of g[t] * [t > j] with [t <= i].
    """
    (rows, count), (upper, strict) = g.shape, triangles
    after = scaled(strict.expand_dim(1).broadcast(1, count), g)
    sums = nl.ndarray((rows, count, rows), dtype=nl.float32, buffer=nl.psum)
    for n in range(count):
        nisa.nc_matmul(dst=sums[:, n], stationary=after[:, n], moving=upper, is_moving_onezero=True)
    decay = nl.ndarray((rows, count, rows), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=decay, op=nl.exp, data=sums)
    nisa.affine_select(
        dst=decay,
        pattern=[[0, count], [1, rows]],
        offset=0,
        channel_multiplier=-1,
        on_true_tile=decay,
        on_false_value=0.0,
        cmp_op=nl.greater_equal,
    )
    return decay


def decays_to_the_ends(g: Any, triangles: Any, wide: int) -> list:
    """Decay from the start to every position, from there to the end, [rows, n]; and over the chunk, [wide, n]"""
    rows, count = g.shape
    found = []
    for chosen in (triangles[0], triangles[1], filled((rows, wide), 1.0)):
        sums = nl.ndarray((chosen.shape[1], count), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=sums, stationary=chosen, moving=g, is_stationary_onezero=True)
        decay = nl.ndarray((chosen.shape[1], count), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=decay, op=nl.exp, data=sums)
        found.append(decay)
    return found


def added(states: Any, sides_t: Any, grown: Any, given: Any, inverse_t: Any) -> Any:
    """What each position adds: (1 - system)^-1 (beta v - grown beta k S), [rows, n, width]"""
    known = nl.ndarray(given.shape, dtype=nl.float32, buffer=nl.psum)
    new = nl.ndarray(given.shape, dtype=nl.float32, buffer=nl.psum)
    right = nl.ndarray(given.shape, dtype=nl.float32, buffer=nl.sbuf)
    for n in range(given.shape[1]):
        nisa.nc_matmul(dst=known[:, n], stationary=sides_t[:, n, 0], moving=states[:, n])
        nisa.scalar_tensor_tensor(
            dst=right[:, n],
            data=known[:, n],
            op0=nl.multiply,
            operand0=grown[:, n : n + 1],
            op1=nl.add,
            operand1=given[:, n],
        )
        nisa.nc_matmul(dst=new[:, n], stationary=inverse_t[:, n], moving=right[:, n])
    return copied(new, nl.float32)


def read_out(states: Any, sides_t: Any, grown: Any, products: Any, new: Any) -> Any:
    """grown q S + decayed products of queries and keys . new"""
    from_state = nl.ndarray(new.shape, dtype=nl.float32, buffer=nl.psum)
    from_chunk = nl.ndarray(new.shape, dtype=nl.float32, buffer=nl.psum)
    made = nl.ndarray(new.shape, dtype=nl.float32, buffer=nl.sbuf)
    for n in range(new.shape[1]):
        nisa.nc_matmul(dst=from_state[:, n], stationary=sides_t[:, n, 1], moving=states[:, n])
        nisa.activation(dst=made[:, n], op=nl.copy, data=from_state[:, n], scale=grown[:, n : n + 1])
        nisa.nc_matmul(dst=from_chunk[:, n], stationary=products[:, n, 1], moving=new[:, n])
    nisa.tensor_tensor(dst=made, data1=made, data2=from_chunk, op=nl.add)
    return made


def advance(states: Any, shrunk: Any, kept: Any, new: Any) -> None:
    """states = shrunk * states + what is left of the new at the end of the chunk"""
    more = nl.ndarray(states.shape, dtype=nl.float32, buffer=nl.psum)
    for n in range(states.shape[1]):
        nisa.nc_matmul(dst=more[:, n], stationary=kept[:, n], moving=new[:, n])
        nisa.scalar_tensor_tensor(
            dst=states[:, n],
            data=states[:, n],
            op0=nl.multiply,
            operand0=shrunk[:, n : n + 1],
            op1=nl.add,
            operand1=more[:, n],
        )
