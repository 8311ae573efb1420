"""How kernels grow with their programs: lengths of attention, sizes of products, positions of a decoder layer.

Nothing is simulated: kernels are compiled and timed. `python -m bench.document` prints the tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import tilewright as tw
from bench.corpus.attention import attention_causal
from bench.corpus.decoder import Sizes, decoder_layer, layer_shapes
from bench.corpus.products import matmul
from tilewright.compiler import Compiled
from tilewright.errors import TileError
from tilewright.ir.walk import walk

TARGET = "trn2"

Described = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Series:
    """One program at several sizes. gflop: what its mathematics needs, products only."""

    title: str
    sizes: tuple[int, ...]
    make: Callable[[int], Described]
    gflop: Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Point:
    """A program at one size."""

    size: int
    gflop: float
    instructions: int
    hbm_mb: float
    needed_mb: float
    tile_ops: int
    latency_us: float
    off_roofline: float
    compile_s: float
    timing_s: float


def _attention(length: int) -> Described:
    return attention_causal, (tw.spec((length, 128), "float32"),) * 3


def _matmul(dtype: str) -> Callable[[int], Described]:
    return lambda n: (matmul, (tw.spec((n, n), dtype),) * 2)


def _decoder(dtype: str) -> Callable[[int], Described]:
    def make(length: int) -> Described:
        sizes = Sizes(length=length)
        return decoder_layer(sizes), tuple(tw.spec(shape, kind) for shape, kind in layer_shapes(sizes, dtype))

    return make


def _decoder_gflop(length: int) -> float:
    s = Sizes(length=length)
    columns = (s.heads + 2 * s.shared_heads) * s.width
    per_row = s.hidden * columns + s.heads * s.width * s.hidden + 3 * s.hidden * s.inner
    return 2e-9 * length * (per_row + 2 * s.heads * s.width * length)


LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
SQUARES = (512, 1024, 2048, 4096, 8192)
POSITIONS = (128, 256, 512, 1024, 2048, 4096)

# The half of causal attention that is computed has 2 * length * (length + 1) / 2 * 128 multiplications.
SERIES = {
    "attention": Series(
        "Causal attention, one head of 128, float32", LENGTHS, _attention, lambda n: 2e-9 * n * (n + 1) * 128
    ),
    "matmul-f32": Series("n x n by n x n, float32", SQUARES, _matmul("float32"), lambda n: 2e-9 * n**3),
    "matmul-bf16": Series("n x n by n x n, bfloat16", SQUARES, _matmul("bfloat16"), lambda n: 2e-9 * n**3),
    "decoder-bf16": Series(
        "Decoder layer (Qwen3-Embedding-0.6B), bfloat16", POSITIONS, _decoder("bfloat16"), _decoder_gflop
    ),
    "decoder-f32": Series(
        "Decoder layer (Qwen3-Embedding-0.6B), float32", POSITIONS, _decoder("float32"), _decoder_gflop
    ),
}

HEAD = (
    "| size | GFlop | instructions | HBM MB | needed MB | tile IR | latency µs | over least |"
    " compile s | timing s |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def compiled(series: Series, size: int) -> tuple[Compiled, float]:
    """A program at one size, lowered, and the CPU seconds that took."""
    function, described = series.make(size)
    start = time.process_time()
    kernel = tw.compile(function, *described, target=TARGET)
    assert isinstance(kernel, Compiled)
    kernel.lowered  # noqa: B018  (what takes the time)
    return kernel, time.process_time() - start


def tile_ops(kernel: Compiled) -> int:
    """Statements of a kernel, loops counted once."""
    return sum(1 for _ in walk(kernel.tile_ir))


def measure(series: Series, size: int) -> Point:
    """Compile and time a program at one size."""
    kernel, compile_s = compiled(series, size)
    start = time.process_time()
    report = kernel.report
    latency = report.latency_us
    return Point(
        size,
        series.gflop(size),
        report.instructions,
        report.hbm_bytes / 1e6,
        report.compulsory_bytes / 1e6,
        tile_ops(kernel),
        latency,
        latency / report.roofline_us,
        compile_s,
        time.process_time() - start,
    )


def table(series: Series) -> Iterator[str]:
    """The lines of a series' table; growth against the size before stands in brackets."""
    yield f"{series.title}:"
    yield ""
    yield HEAD
    before: Point | None = None
    for size in series.sizes:
        try:
            point = measure(series, size)
        except TileError as error:
            yield f"| {size} | {str(error).splitlines()[0]} | | | | | | | | |"
            before = None
            continue
        yield row(point, before)
        before = point


def row(point: Point, before: Point | None) -> str:
    """One line of a table."""

    def grown(name: str) -> str:
        return "" if before is None else f" ({getattr(point, name) / getattr(before, name):.1f}x)"

    return (
        f"| {point.size} | {point.gflop:.2f}{grown('gflop')} | {point.instructions}{grown('instructions')} |"
        f" {point.hbm_mb:.1f}{grown('hbm_mb')} | {point.needed_mb:.1f}{grown('needed_mb')} | {point.tile_ops} |"
        f" {point.latency_us:.0f}{grown('latency_us')} | {point.off_roofline:.2f} |"
        f" {point.compile_s:.2f} | {point.timing_s:.2f} |"
    )
