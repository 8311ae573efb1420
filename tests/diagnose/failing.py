"""Programs that fail, each with its cause on a marked line: several kernels, cores, loops, references."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tests.kit import nisa, nki, nl
from tests.provenance.kit import gathered, loaded, stored

PLANTED = "# planted"


@dataclass(frozen=True)
class Failing:
    """A kernel or function with its arguments; cause: the kernel with the marked line."""

    thing: Any
    arguments: tuple[Any, ...]
    cause: Any
    target: str = "trn2"
    reference: Callable[..., Any] | None = None


@nki.jit
def positions(base: Any) -> Any:
    i = nl.ndarray((96, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(dst=i, pattern=[[1, 1]], offset=0, channel_multiplier=1)
    nisa.tensor_tensor(dst=i, data1=i, data2=loaded(base, nl.int32), op=nl.add)
    nisa.tensor_scalar(dst=i, data=i, op0=nl.add, operand0=3)  # planted
    return stored(i)


@nki.jit
def lookup(at: Any, table: Any) -> Any:
    rows = gathered(table, loaded(at, nl.int32))
    nisa.activation(dst=rows, op=nl.gelu, data=rows)
    return stored(rows)


@nki.jit
def scattered(x: Any, score: Any) -> Any:
    s = loaded(score)
    nisa.tensor_scalar(dst=s, data=s, op0=nl.multiply, operand0=64.5)  # planted
    i = nl.ndarray((64, 1), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=i, src=s)
    zeros = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(zeros, value=0.0)
    out = stored(zeros)
    nisa.dma_copy(dst=out.ap(pattern=[[16, 64], [1, 16]], vector_offset=i), src=loaded(x))
    return out


@nki.jit
def tiles(x: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(3):
        n = min(128, x.shape[0] - i * 128)
        t = loaded(x[i * 128 : i * 128 + n, :])
        nisa.dma_copy(dst=out[i * 128 + 1 : i * 128 + 1 + n, :], src=t)  # planted
    return out


@nki.jit
def by_scratch(x: Any) -> Any:
    scratch = nl.ndarray((128, 32), dtype=nl.float32, buffer=nl.hbm)
    t = loaded(x)
    nisa.dma_copy(dst=scratch[0:64, :], src=t[0:64, :])  # planted
    nisa.tensor_tensor(dst=t, data1=t, data2=loaded(scratch), op=nl.add)
    return stored(t)


@nki.jit
def some_indices(indices: Any, table: Any) -> Any:
    i = nl.ndarray((128, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=i[0:96, :], src=indices[0:96, :])  # planted
    return stored(gathered(table, i))


@nki.jit
def halves(x: Any, y: Any) -> Any:
    out = nl.ndarray((256, 16), dtype=nl.float32, buffer=nl.shared_hbm)
    for each in (x, y):
        t = loaded(each)
        nisa.dma_copy(dst=out[0:128, :], src=t)  # planted
    return out


@nki.jit
def both_write(x: Any) -> Any:
    c = nl.program_id(0)
    t = loaded(x[c * 64 : c * 64 + 64, :])
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)  # planted
    return out


@nki.jit
def halo(x: Any) -> Any:
    c = nl.program_id(0)
    mid = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.shared_hbm, name="mid")
    t = loaded(x[c * 64 : c * 64 + 64, :])
    nisa.activation(dst=t, op=nl.exp, data=t)
    nisa.dma_copy(dst=mid[c * 64 : c * 64 + 64, :], src=t)  # planted
    edge = loaded(mid[64:65, :] if c == 0 else mid[63:64, :])
    nisa.tensor_tensor(dst=t[0:1, :], data1=t[0:1, :], data2=edge, op=nl.add)
    out = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.shared_hbm, name="out")
    nisa.dma_copy(dst=out[c * 64 : c * 64 + 64, :], src=t)
    return out


@nki.jit
def overlapping(x: Any) -> Any:
    c = nl.program_id(0)
    t = loaded(x[c * 63 : c * 63 + 65, :])
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=float(c + 1))
    out = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[c * 63 : c * 63 + 65, :], src=t)  # planted
    return out


@nki.jit
def plus(x: Any) -> Any:
    t = loaded(x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
    return stored(t)


@nki.jit
def weights(x: Any) -> Any:
    t = loaded(x)
    s = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(dst=t, op=nl.exp, data=t, reduce_op=nl.add, reduce_res=s)  # planted
    nisa.reciprocal(dst=s, data=s)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=s)
    return stored(t)


@nki.jit
def product(a: Any, b: Any) -> Any:
    p = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=p, stationary=loaded(a), moving=loaded(b))
    o = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=o, src=p)
    return stored(o)


@nki.jit
def entropy(p: Any) -> Any:
    t = loaded(p)
    logs = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=logs, op=nl.log, data=t)  # planted
    nisa.tensor_tensor(dst=logs, data1=logs, data2=t, op=nl.multiply)
    return stored(logs)


@nki.jit
def power(a: Any) -> Any:
    t = loaded(a)
    for _ in range(5):
        p = nl.ndarray((16, 16), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=p, stationary=t, moving=t)  # planted
        nisa.tensor_copy(dst=t, src=p)
    return stored(t)


@nki.jit
def kept(x: Any) -> Any:
    t = loaded(x)
    sums = []
    for column in range(0, 45, 5):
        bank = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.psum)  # planted
        nisa.nc_matmul(dst=bank[:, 0:5], stationary=t, moving=t[:, column : column + 5])
        sums.append(bank)
    for bank in sums:
        nisa.tensor_tensor(dst=t[:, 0:5], data1=t[:, 0:5], data2=bank[:, 0:5], op=nl.add)
    return stored(t)


@nki.jit
def wide(a: Any, b: Any) -> Any:
    p = nl.ndarray((64, 1024), dtype=nl.float32, buffer=nl.psum)  # planted
    nisa.nc_matmul(dst=p, stationary=loaded(a, nl.bfloat16), moving=loaded(b, nl.bfloat16))
    o = nl.ndarray((64, 1024), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=o, src=p)
    return stored(o)


@nki.jit
def heads(x: Any, per: int) -> Any:
    t = nl.ndarray((x.shape[0] // per, per * 8), dtype=nl.float32, buffer=nl.sbuf)  # planted
    nisa.dma_copy(dst=t, src=x.reshape((x.shape[0] // per, per * 8)))
    return stored(t)


@nki.jit
def chosen(i: Any, x: Any) -> Any:
    t = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x.ap(pattern=[[8, 64], [1, 8]], vector_offset=loaded(i, nl.uint32)))  # planted
    return stored(t)


@nki.jit
def newer(x: Any) -> Any:
    t = loaded(x)
    nisa.exponential(dst=t, src=t)  # planted
    return stored(t)


@nki.jit
def by_hardware(x: Any) -> Any:
    t = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x, dge_mode=nisa.dge_mode.hwdge)  # planted
    return stored(t)


@nki.jit
def narrow_index(indices: Any, table: Any) -> Any:
    small = nl.ndarray((64, 1), dtype=nl.int8, buffer=nl.sbuf)
    nisa.tensor_copy(dst=small, src=loaded(indices, nl.int32))  # planted
    i = nl.ndarray((64, 1), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=i, src=small)
    return stored(gathered(table, i))


@nki.jit
def mixed(a: Any, b: Any) -> Any:
    p = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=p, stationary=loaded(a, nl.bfloat16), moving=loaded(b))  # planted
    o = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=o, src=p)
    return stored(o)


@nki.jit
def identities(x: Any) -> Any:
    f = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=f, src=loaded(x, nl.int32))  # planted
    nisa.tensor_scalar(dst=f, data=f, op0=nl.subtract, operand0=16777216.0)
    i = nl.ndarray((64, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=i, src=f)
    return stored(i)


def _in_a_model(x: np.ndarray) -> Any:
    return plus(overlapping[2](plus(x)))


RANDOM = np.random.default_rng(0).normal(size=(128, 32)).astype(np.float32)
HOT = RANDOM.copy()
HOT[5, 9] = 95
NONE_LEFT = np.full((64, 32), 1 / 32, np.float32)
NONE_LEFT[3, 3] = 0
TABLE = np.arange(200 * 8, dtype=np.float32).reshape(200, 8)
ONES = np.ones((64, 64), np.float32)
HALF = np.ones((64, 64), ml_dtypes.bfloat16)
GROWS = np.eye(16, dtype=np.float32) * 9 + 1

FAILING: dict[str, Failing] = {
    "wrong index, another kernel": Failing(
        lambda base, table: lookup(positions(base), table),
        (np.full((96, 1), 30, np.int32), np.ones((128, 40), np.float32)),
        positions,
    ),
    "wrong index, scattered": Failing(
        scattered,
        (np.ones((64, 16), np.float32), np.linspace(0, 0.999, 64, dtype=np.float32).reshape(64, 1)),
        scattered,
    ),
    "wrong index, a slice": Failing(tiles, (np.ones((300, 32), np.float32),), tiles),
    "stale buffer, scratch": Failing(by_scratch, (RANDOM,), by_scratch),
    "stale buffer, indices": Failing(
        some_indices, (np.zeros((128, 1), np.int32), np.ones((32, 8), np.float32)), some_indices
    ),
    "stale buffer, an output": Failing(halves, (RANDOM[:, :16], RANDOM[:, 16:]), halves),
    "race, both write": Failing(both_write[2], (RANDOM,), both_write),
    "race, halo": Failing(halo[2], (RANDOM[:, :16],), halo),
    "race, in a model": Failing(_in_a_model, (RANDOM[:, :16],), overlapping),
    "overflow, softmax": Failing(lambda x, v: product(weights(x), v), (HOT, RANDOM), weights),
    "overflow, log of zero": Failing(entropy, (NONE_LEFT,), entropy),
    "overflow, powers": Failing(power, (GROWS * np.float32(1e2),), power),
    "capacity, kept tiles": Failing(kept, (ONES,), kept),
    "capacity, a wide product": Failing(wide, (HALF, np.ones((64, 1024), ml_dtypes.bfloat16)), wide),
    "capacity, partitions": Failing(heads, (np.ones((512, 8), np.float32), 2), heads),
    "generation, a gather": Failing(chosen, (np.zeros((64, 1), np.uint32), TABLE), chosen, "trn1"),
    "generation, an instruction": Failing(newer, (ONES,), newer),
    "generation, in a model": Failing(lambda x: by_hardware(plus(x)), (ONES,), by_hardware, "trn1"),
    "dtype, an index": Failing(
        narrow_index,
        (np.arange(130, 194, dtype=np.int32).reshape(64, 1), TABLE),
        narrow_index,
        reference=lambda indices, table: table[indices[:, 0]],
    ),
    "dtype, two in a product": Failing(mixed, (HALF, ONES), mixed),
    "dtype, large integers": Failing(
        identities,
        (np.arange(16777216, 16777280, dtype=np.int32).reshape(64, 1),),
        identities,
        reference=lambda x: x - 16777216,
    ),
}
