"""The corpus on trn2: counts and model times of the kernels, which are exact, against what is asked of them."""

from __future__ import annotations

from bench import goals
from bench.compiler import judge, means
from bench.corpus import PROGRAMS
from bench.measure import measure, peer


def test_the_peer_is_measured_on_the_same_programs():
    assert set(peer()) == {program.name for program in PROGRAMS}


def test_counts_and_model_times():
    # One test: the means need all programs, and each is compiled once.
    found = [measure(program, goals.TARGET, check=False) for program in PROGRAMS]
    verdicts = [v for figures in found for v in judge(figures) if "compile" not in v.what] + means(found)
    missed = [f"{v.what} {v.value:.3f}, asked {v.goal}" for v in verdicts if not v.holds]
    assert not missed, "\n".join(missed)
