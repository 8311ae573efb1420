"""The kernels of the library at sizes that fill the machine: predicted times, rooflines, and the compiler's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.kernels import references
from tilewright.kernels.moe import blocks_of_tokens

DENSE, SPARSE = 1.3, 1.6
"""What is asked of a kernel's time over its program's roofline on trn2."""
COMPILER = 1.1
"""A compiled program that takes longer than so many times the kernel's time is named."""
TARGETS = ("trn1", "trn2", "trn3")


@dataclass(frozen=True)
class Entry:
    """A kernel with its arguments, and the NumPy program, with its own, that it is compared with.

    size: for a further size of a kernel, what is different; it is shown, and not asked for.
    """

    name: str
    arguments: tuple[Any, ...]
    program: Callable[..., Any] | None = None
    inputs: tuple[Any, ...] | None = None
    asked: float = DENSE
    size: str = ""


def spec(*shape: int, dtype: str = "float32") -> Any:
    """A described array."""
    return tw.spec(shape, dtype)


def half(*shape: int) -> Any:
    """A described array of bfloat16."""
    return spec(*shape, dtype="bfloat16")


def blocks(rows: int, each: int) -> tuple[np.ndarray, np.ndarray]:
    """Column of every block, and row pointers, with equally many in every row of blocks."""
    rng = np.random.default_rng(0)
    columns = np.stack([np.sort(rng.permutation(rows)[:each]) for _ in range(rows)])
    return columns.reshape(-1).astype(np.int32), np.arange(0, rows * each + 1, each, dtype=np.int32)


def window(rows: int, each: int) -> np.ndarray:
    """Every block of queries sees so many blocks of keys from its own on, around the end."""
    mask = np.zeros((rows, rows), bool)
    for row in range(rows):
        mask[row, (row + np.arange(each)) % rows] = True
    return mask


ROWS, EACH, SIZE = 32, 8, 128
COLUMNS, POINTERS = blocks(ROWS, EACH)
TABLE, PICKED = 16384, 4
PLACES = np.random.default_rng(1).integers(0, TABLE, (2048, PICKED)).astype(np.int32)
MASK = window(ROWS, 4)
SEEN = np.stack([np.flatnonzero(row) for row in MASK])


def bsr(data: Any, dense: Any) -> Any:
    """Gathered rows of blocks times rows of blocks."""
    gathered = dense.reshape(ROWS, SIZE, -1)[COLUMNS].reshape(ROWS, EACH * SIZE, -1)
    rows = data.reshape(ROWS, EACH, SIZE, SIZE).transpose(0, 2, 1, 3).reshape(ROWS, SIZE, EACH * SIZE)
    return (rows @ gathered).reshape(ROWS * SIZE, -1)


def csr(data: Any, dense: Any) -> Any:
    """The sum of gathered rows, each with its factor."""
    return np.sum(data.reshape(*PLACES.shape, 1) * dense[PLACES], axis=1)


def attention_backward(q: Any, k: Any, v: Any, out: Any, lse: Any, dout: Any) -> Any:
    """Gradients from what the forward pass made."""
    factor = q.shape[-1] ** -0.5
    weights = np.exp(q @ np.swapaxes(k, -1, -2) * factor - np.expand_dims(lse, -1))
    dscores = weights * (dout @ np.swapaxes(v, -1, -2) - np.sum(dout * out, axis=-1, keepdims=True)) * factor
    return dscores @ k, np.swapaxes(dscores, -1, -2) @ q, np.swapaxes(weights, -1, -2) @ dout


def block_attention(q: Any, k: Any, v: Any) -> Any:
    """Attention of every block of queries to the blocks of keys that are gathered for it."""
    heads, length, d = q.shape
    keys, values = (x.reshape(heads, ROWS, SIZE, d)[:, SEEN].reshape(heads, ROWS, -1, d) for x in (k, v))
    out, lse = references.attention(q.reshape(heads, ROWS, SIZE, d), keys, values)
    return out.reshape(heads, length, d), lse.reshape(heads, length)


def block_attention_backward(q: Any, k: Any, v: Any, out: Any, lse: Any, dout: Any) -> Any:
    """Gradients of the queries, and those of the gathered keys and values."""
    heads, _, d = q.shape
    rows = [x.reshape(heads, ROWS, SIZE, d) for x in (q, out, dout)]
    keys, values = (x.reshape(heads, ROWS, SIZE, d)[:, SEEN].reshape(heads, ROWS, -1, d) for x in (k, v))
    return attention_backward(rows[0], keys, values, rows[1], lse.reshape(heads, ROWS, SIZE), rows[2])


def deltanet(q: Any, k: Any, v: Any, beta: Any, g: Any, state: Any) -> Any:
    """One chunk of all heads, with the inverse by doubling."""
    rows = q.shape[-2]
    lower, below = np.tri(rows, dtype=np.float32), np.tri(rows, k=-1, dtype=np.float32)
    sums = np.cumsum(g, axis=-1)
    decay = np.exp((np.expand_dims(sums, -1) - np.expand_dims(sums, -2)) * lower) * lower
    rate, grown = np.expand_dims(beta, -1), np.expand_dims(np.exp(sums), -1)
    power = (k @ np.swapaxes(k, -1, -2)) * decay * rate * below * -1.0
    new = (v - grown * (k @ state)) * rate
    for _ in range((rows - 1).bit_length()):
        new, power = new + power @ new, power @ power
    out = grown * (q @ state) + ((q @ np.swapaxes(k, -1, -2)) * decay) @ new
    last = np.expand_dims(sums[..., -1:], -1)
    left = k * np.exp(last - np.expand_dims(sums, -1))
    return out, state * np.exp(last) + np.swapaxes(left, -1, -2) @ new


TOKENS, EXPERTS, BEST = 2048, 8, 2
DEALT = np.random.default_rng(2).permutation(TOKENS)
CHOSEN = np.stack([DEALT % EXPERTS, (DEALT % EXPERTS + 1 + DEALT // EXPERTS % (EXPERTS - 1)) % EXPERTS], axis=1)
"""Two experts for each token, and equally many tokens for each expert."""
TOKEN_BLOCKS, OWNERS, MADE_AT = blocks_of_tokens(CHOSEN, EXPERTS, 512)


def moe(x: Any, router: Any, gate: Any, up: Any, down: Any) -> Any:
    """Every expert on its block of tokens, who goes where being known."""
    best, _ = tw.topk(x @ router, BEST)
    shares = np.exp(best - best[:, :1])
    shares = shares / np.sum(shares, axis=1, keepdims=True)
    rows = x[TOKEN_BLOCKS]
    opened = rows @ gate[OWNERS]
    hidden = opened / (1 + np.exp(-opened)) * (rows @ up[OWNERS])
    made = (hidden.astype(x.dtype) @ down[OWNERS]).reshape(-1, x.shape[1])
    return np.sum(np.expand_dims(shares, -1) * made[MADE_AT], axis=1)


def entries() -> tuple[Entry, ...]:
    heads, block = half(2, 4096, 128), half(4, ROWS * SIZE, SIZE)
    sums, gradients = spec(2, 2048), spec(4, ROWS * SIZE)
    short = half(2, 2048, 128)
    back, chunk = (short, short, short, short, sums, short), (spec(32, 128, 128),) * 3 + (spec(32, 128),) * 2
    molecule, smaller = (
        (spec(128, 512, 512), spec(512, nocc), spec(512, 128), spec(nocc), spec(128)) for nocc in (48, 32)
    )
    picked = np.zeros(PLACES.size, np.float32), PLACES.reshape(-1), np.arange(0, PLACES.size + 1, PICKED)
    matrices = spec(ROWS * EACH, SIZE, SIZE), spec(ROWS * SIZE, 512)
    screened = spec(2048, 2048), spec(2048), spec(2048, 512)
    expert, closing = half(EXPERTS, 1024, 1280), half(EXPERTS, 1280, 1024)
    routed = half(TOKENS, 1024), half(1024, EXPERTS), expert, expert, closing
    mixed = (block, block, block, block, gradients, block)
    return (
        Entry("rmsnorm", (spec(4096, 2048), spec(2048))),
        Entry("layernorm", (spec(4096, 2048), spec(2048), spec(2048))),
        Entry("rope", (spec(16, 2048, 128), spec(2048, 64), spec(2048, 64))),
        Entry("swiglu", (spec(4096, 2048), spec(4096, 2048))),
        Entry("topk", (spec(8192, 1024), 8)),
        Entry("matmul", (half(2048, 2048), half(2048, 2048))),
        Entry("einsum", ("bihd,bjhd->bhij", half(1, 2048, 4, 128), half(1, 2048, 4, 128))),
        Entry("attention", (heads, heads, heads)),
        Entry("attention_backward", back, attention_backward, back),
        Entry("bsr_spmm", (matrices[0], COLUMNS, POINTERS, matrices[1]), bsr, matrices, SPARSE),
        Entry("csr_spmm", (*picked, spec(TABLE, 2048)), csr, (spec(PLACES.size), spec(TABLE, 2048)), SPARSE),
        Entry("screened_spmm", (*screened, 0.5), None, None, SPARSE),
        Entry("block_sparse_attention", (block, block, block, MASK), block_attention, (block, block, block), SPARSE),
        Entry("block_sparse_attention_backward", (*mixed, MASK), block_attention_backward, mixed, SPARSE),
        Entry("moe", (*routed, BEST), moe, routed, SPARSE),
        Entry("deltanet_chunk", (*chunk, spec(32, 128, 128)), deltanet, (*chunk, spec(32, 128, 128))),
        Entry("ao_to_mo", smaller[:3]),
        Entry("df_mp2", molecule),
        Entry("df_mp2", smaller, size="32 occupied"),
    )


@dataclass(frozen=True)
class Figures:
    """Predicted microseconds of a kernel by target, the roofline on trn2, and what the compiler's own version takes."""

    entry: Entry
    us: dict[str, float | None]
    roofline_us: float
    compiled_us: float

    @property
    def name(self) -> str:
        """The kernel, and what is different at a further size of it."""
        return f"{self.entry.name} ({self.entry.size})" if self.entry.size else self.entry.name

    @property
    def ratio(self) -> float:
        """Time over roofline on trn2."""
        return (self.us["trn2"] or np.inf) / self.roofline_us

    @property
    def compiler_is_slow(self) -> bool:
        """The compiler takes longer than it should."""
        return self.compiled_us > COMPILER * (self.us["trn2"] or np.inf)


def predicted_us(kernel: Any, arguments: tuple[Any, ...], target: str) -> float | None:
    """The time of all kernels of a call; None on a target that it is not for."""
    try:
        return sum(report.latency_us for report in kernel.profile(*arguments, target=target))
    except tw.TileError as error:
        if error.diagnostic.code not in ("E106", "E301"):
            raise
        return None


def measured(entry: Entry) -> Figures:
    """The figures of one kernel."""
    kernel = getattr(tw.kernels, entry.name)
    us = {target: predicted_us(kernel, entry.arguments, target) for target in TARGETS}
    inputs = entry.arguments if entry.inputs is None else entry.inputs
    report = tw.compile(entry.program or kernel.reference, *inputs, target="trn2", check="off").report
    return Figures(entry, us, report.roofline_us, report.latency_us)


def run(parts: list[str]) -> bool:
    """Measure kernels whose names contain one of the parts, and print a table; says whether all goals hold."""
    print(
        f"{'kernel':32} {'trn1':>8} {'trn2':>8} {'trn3':>8} us {'least':>8} {'ratio':>6} {'asked':>6}   {'compiled':>8}"
    )
    good, slow = True, []
    for entry in entries():
        if parts and not any(part in entry.name for part in parts):
            continue
        found = measured(entry)
        times = " ".join(f"{'-' if each is None else format(each, '.1f'):>8}" for each in found.us.values())
        over = found.ratio > entry.asked
        print(
            f"{found.name:32} {times}    {found.roofline_us:8.1f} {found.ratio:6.2f} {entry.asked:6.2f} "
            f"{'!' if over else ' '} {found.compiled_us:8.1f}",
            flush=True,
        )
        good = good and (not over or bool(entry.size))
        if found.compiler_is_slow:
            slow.append(f"{found.name} ({found.compiled_us / (found.us['trn2'] or np.inf):.1f} times)")
    print(f"the compiler takes longer than {COMPILER} times the kernel: {', '.join(slow) or 'nowhere'}")
    return good
