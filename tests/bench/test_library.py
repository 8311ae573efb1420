"""The kernels of the library beside their rooflines: a few here, all by `make bench`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from bench.library import CHOSEN, EXPERTS, TOKENS, entries, measured, moe, predicted_us
from tilewright.kernels import references

ENTRIES = {entry.name: entry for entry in entries() if not entry.size}
SIZES = {f"{entry.name} ({entry.size})": entry for entry in entries() if entry.size}


def test_every_kernel_is_measured() -> None:
    """`deltanet` is its chunk many times over."""
    assert set(ENTRIES) == set(tw.kernels.__all__) - {"deltanet"}


def test_experts_on_known_blocks_are_the_reference() -> None:
    """The program that `moe` is measured beside has the tokens of each expert from outside."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((TOKENS, 64)).astype(np.float32)
    # Scores that choose these experts.
    x[:, :EXPERTS] = 0
    x[np.arange(TOKENS)[:, None], CHOSEN] = [4, 3]
    gate, up, down = (rng.standard_normal((EXPERTS, 64, 64)).astype(np.float32) / 8 for _ in range(3))
    arrays = x, np.eye(64, EXPERTS, dtype=np.float32), gate, up, down
    np.testing.assert_allclose(moe(*arrays), references.moe(*arrays, 2), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["rmsnorm", "rope", "einsum", "screened_spmm"])
def test_near_the_roofline(name: str) -> None:
    found = measured(ENTRIES[name])
    assert 1.0 <= found.ratio <= found.entry.asked


@pytest.mark.parametrize("name", ["deltanet_chunk", "ao_to_mo", "topk", "df_mp2", "df_mp2 (32 occupied)"])
def test_documents_say_what_is_predicted(name: str) -> None:
    """The row of the table in docs/kernels.md: its time on trn2, and its ratio to the least."""
    text = (Path(__file__).parents[2] / "docs" / "kernels.md").read_text()
    (row,) = [line.split("|") for line in text.splitlines() if line.startswith(f"| {name} |")]
    us, least, ratio = float(row[3]), float(row[5]), float(row[6].split()[0])
    entry = (ENTRIES | SIZES)[name]
    found = predicted_us(getattr(tw.kernels, entry.name), entry.arguments, "trn2")
    assert found is not None and found == pytest.approx(us, rel=0.01)
    assert found / least == pytest.approx(ratio, abs=0.02)
    assert ("over" in row[6]) == (ratio > entry.asked)
