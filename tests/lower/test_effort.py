"""How much work compiling takes, in counts: programs whose loops were unrolled have hundreds of similar groups."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, fits, floats
from tilewright.lower import forms, lowering
from tilewright.lower.choose import fit, patch_sizes
from tilewright.lower.regions.patches import Patches
from tilewright.lower.regions.stencils import find_stencils
from tilewright.lower.rewrite.by_rows import compute_by_rows
from tilewright.lower.rewrite.prepare import prepare
from tilewright.lower.rewrite.row_axis import find_regions
from tilewright.target import get_target


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Counter[str]:
    """How often a function is called, by its name."""
    calls, real = Counter[str](), getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        calls[name] += 1
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, call)
    return calls


# Steps that are similar.


def orthogonal(a: Any) -> Any:
    """State that shrinks: every step has one column less."""
    v = a.copy()
    q = np.zeros_like(a)
    for j in range(a.shape[1]):
        q[:, j] = v[:, j] / np.sqrt((v[:, j] * v[:, j]).sum())
        v[:, j + 1 :] -= np.outer(q[:, j], q[:, j] @ v[:, j + 1 :])
    return q


def chunks(q: Any, k: Any, v: Any) -> Any:
    """Slices that move on, with a running state."""
    state, out = np.zeros((k.shape[-1], v.shape[-1]), np.float32), []
    for s in range(0, len(q), 16):
        qc, kc, vc = q[s : s + 16], k[s : s + 16], v[s : s + 16]
        out.append((qc @ kc.T) @ vc + qc @ state)
        state = state + np.tanh(kc.T @ vc)
    return np.concatenate(out)


def searched(monkeypatch: pytest.MonkeyPatch, function: Any, *args: Any) -> int:
    with monkeypatch.context() as patch:
        calls = counted(patch, fit._Choice, "_search")
        fits(function, *args)
    return calls["_search"]


def test_steps_with_state_that_shrinks_are_written_alike(monkeypatch: pytest.MonkeyPatch):
    """Twice the steps are hardly more to search: the sizes between two powers of two are similar."""
    few, many = (searched(monkeypatch, orthogonal, floats(256, n)) for n in (7, 14))
    assert many <= 1.5 * few


def test_steps_that_read_other_slices_are_written_alike(monkeypatch: pytest.MonkeyPatch):
    few, many = (searched(monkeypatch, chunks, *(floats(n, 32, seed=i) for i in range(3))) for n in (16 * 16, 32 * 16))
    assert many <= 1.1 * few


def test_similar_steps_are_right():
    check(orthogonal, floats(256, 9), tolerance=1e-4)
    check(chunks, *(floats(10 * 16, 32, seed=i) for i in range(3)), tolerance=1e-4)


# Forms of a program.


def lorenz(y: Any) -> Any:
    """Columns of short rows, which are computed by rows in another form."""
    for _ in range(3):
        a, b, c = y[:, 0], y[:, 1], y[:, 2]
        y = y + np.float32(0.01) * np.stack([10 * (b - a), a * (28 - c) - b, a * b - c], axis=1)
    return y


def test_only_the_form_that_is_taken_is_finished(monkeypatch: pytest.MonkeyPatch):
    finished, entered = counted(monkeypatch, lowering, "finish"), counted(monkeypatch, forms._Contest, "enter")
    verified = counted(monkeypatch, lowering, "_verified")
    fits(lorenz, floats(4096, 3))
    assert entered["enter"] >= 1 and finished["finish"] == verified["_verified"] == 1


def test_each_form_is_timed_once(monkeypatch: pytest.MonkeyPatch):
    timed = Counter[int]()
    real = forms._Timer.__init__

    def remember(self: Any, target: Any, clock: Any) -> None:
        def count(ops: Any) -> float:
            timed[id(ops)] += 1
            return clock(ops)

        real(self, target, count)

    monkeypatch.setattr(forms._Timer, "__init__", remember)
    fits(lorenz, floats(4096, 3))
    assert timed and set(timed.values()) == {1}


def test_a_form_that_is_the_program_itself_is_not_lowered_again(monkeypatch: pytest.MonkeyPatch):
    """Dims are cut into digits, which simplifying puts together again: the same program."""
    made = counted(monkeypatch, lowering._Maker, "make")
    monkeypatch.setattr(forms, "_other_forms", lambda made, *_: iter([forms.Form(made.draft.program.clone())] * 2))
    monkeypatch.setattr(forms, "_wanting", lambda *_: [])
    fits(lorenz, floats(256, 3))
    assert made["make"] == 1


def test_what_is_computed_by_rows_is_not_rewritten_again():
    target = get_target("trn2")
    program = tw.compile(lorenz, floats(4096, 3), target=target).passes.graph.clone()
    prepare(program, target)
    region = find_regions(program, 32)[0]
    once = compute_by_rows(program, region, target)
    assert once is not None
    assert compute_by_rows(once, find_regions(once, 32)[0], target) is None


# Patches.


def rolled(u: Any) -> Any:
    for _ in range(2):
        u = u + np.float32(0.1) * (np.roll(u, 1, 0) + np.roll(u, -1, 1) + np.roll(u, 1, 2) - 3 * u)
    return u


def test_transfers_are_counted_as_far_as_patches_may_win(monkeypatch: pytest.MonkeyPatch):
    target = get_target("trn2")
    program = tw.compile(rolled, floats(64, 64, 64), target=target).passes.graph.clone()
    prepare(program, target)
    (stencil,) = find_stencils(program, target["limits.partitions"])
    # In which order patches follow each other is another matter.
    monkeypatch.setattr(Patches, "_set_order", lambda patches: None)
    calls, real = counted(monkeypatch, Patches, "_pieces"), patch_sizes._with_transfers
    found = patch_sizes.patch_sizes(stencil, target, is_roomy=False)
    some = calls["_pieces"]
    monkeypatch.setattr(
        patch_sizes, "_with_transfers", lambda time, patches, target, _: real(time, patches, target, np.inf)
    )
    every = patch_sizes.patch_sizes(stencil, target, is_roomy=False)
    assert [each.along for each in found] == [each.along for each in every]
    assert some < (calls["_pieces"] - some) / 2


# Rows of residents.


def test_rows_on_one_partition_leave_room_for_the_rest():
    """Two arrays whose rows are read one by one, beside steps that read them as a whole (was E501)."""

    def steps(k: Any, v: Any) -> Any:
        s = np.zeros(512, np.float32)
        for t in range(64):
            s = np.maximum(np.tanh(s + k[t]), v[t])
        return s, k.sum(axis=1), v.max(axis=1)

    check(steps, floats(64, 512), floats(64, 512, seed=1), targets=("trn2",), tolerance=1e-5)
