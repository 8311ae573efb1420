"""Kernels grow as their programs do: instructions and bytes with the work, the text not at all."""

from __future__ import annotations

import pytest

from bench import document
from bench.scaling import SERIES, compiled, measure, tile_ops

# The cheap sizes of each series, and the most that instructions and bytes may grow beyond flops or needed bytes.
GROWTH = {
    "attention": (1024, 2048, 1.1),
    "matmul-f32": (1024, 2048, 1.1),
    "matmul-bf16": (1024, 2048, 1.1),
}


@pytest.mark.parametrize("name", GROWTH)
def test_instructions_and_bytes_grow_with_the_work(name: str):
    small, large, most = GROWTH[name]
    before, after = (measure(SERIES[name], size) for size in (small, large))
    work = max(after.gflop / before.gflop, after.needed_mb / before.needed_mb)
    assert after.instructions / before.instructions <= most * work
    assert after.hbm_mb / before.hbm_mb <= most * work


@pytest.mark.parametrize(
    ("name", "small", "large"),
    [
        ("matmul-f32", 4096, 8192),
        ("matmul-bf16", 4096, 8192),
        ("decoder-bf16", 2048, 4096),
        ("attention", 16384, 32768),
    ],
)
def test_text_does_not_grow(name: str, small: int, large: int):
    before, after = (tile_ops(compiled(SERIES[name], size)[0]) for size in (small, large))
    # A few statements more where a loop comes into being or a part is left over.
    assert after <= 1.2 * before


def test_the_document_has_every_section():
    text = document.DOCUMENT.read_text(encoding="utf-8")
    for name in document.SECTIONS:
        begin, end = text.index(f"<!-- {name} -->"), text.index(f"<!-- end of {name} -->")
        assert "|---" in text[begin:end], f"{name}: python -m bench.document --write {name}"
    for name, series in SERIES.items():
        section = text[text.index(f"<!-- {name} -->") : text.index(f"<!-- end of {name} -->")]
        assert all(f"| {size} | " in section for size in series.sizes)
