"""A number that is known when the kernel runs (tile[0, 0]) as an index beside numbers and slices, as published kernels
that choose experts use it."""

# pyright: reportOperatorIssue=false, reportAssignmentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import numpy as np
import pytest

from tests.legacy.kit import nki, nl, refused, run

RNG = np.random.default_rng(8)
WEIGHTS = RNG.random((8, 64, 32)).astype(np.float32)
CHOSEN = np.array([[5]], np.int32)


@nki.jit
def weights_of_one(w, chosen):
    out = nl.ndarray((64, 16), dtype=w.dtype, buffer=nl.shared_hbm)
    at = nl.load(chosen)
    nl.store(out, nl.load(w[at[0, 0], :, 8:24]))
    return out


@nki.jit
def row_of_one(w, chosen):
    out = nl.ndarray((64, 1), dtype=w.dtype, buffer=nl.shared_hbm)
    at = nl.load(chosen)
    row = nl.load(w[at[0, 0], :, 3])
    assert row.shape == (64, 1)
    nl.store(out, row)
    return out


@nki.jit
def columns_of_one(w, chosen):
    out = nl.ndarray((8, 1), dtype=w.dtype, buffer=nl.shared_hbm)
    at = nl.load(chosen)
    nl.store(out, nl.load(w[:, 7, at[0, 0]]))
    return out


@nki.jit
def stored_at_one(w, chosen):
    out = nl.ndarray((8, 64, 32), dtype=w.dtype, buffer=nl.shared_hbm)
    at = nl.load(chosen)
    for i in nl.affine_range(8):
        nl.store(out[i], nl.load(w[i]))
    nl.store(out[at[0, 0], :, 0:4], nl.load(w[0, :, 0:4]))
    nl.store(out[at[0, 0], :, 30:32], 7.0)
    nl.store(out[at[0, 0], 9, :], 3.0)
    return out


def test_slices_beside_a_run_time_number() -> None:
    np.testing.assert_array_equal(run(weights_of_one, WEIGHTS, CHOSEN).result, WEIGHTS[5, :, 8:24])
    np.testing.assert_array_equal(run(row_of_one, WEIGHTS, CHOSEN).result[:, 0], WEIGHTS[5, :, 3])


def test_tiles_and_numbers_are_stored_there() -> None:
    expected = WEIGHTS.copy()
    expected[5, :, 0:4], expected[5, :, 30:32], expected[5, 9, :] = WEIGHTS[0, :, 0:4], 7, 3
    np.testing.assert_array_equal(run(stored_at_one, WEIGHTS, CHOSEN).result, expected)


@pytest.mark.rule("R-err-indirect_indices_free_dim-01", "reject")
def test_on_a_free_dim_it_is_refused_and_lenient_takes_it() -> None:
    assert refused(columns_of_one, WEIGHTS, CHOSEN).code == "err_indirect_indices_free_dim"
    made = run(columns_of_one, WEIGHTS, CHOSEN, profile="lenient")
    np.testing.assert_array_equal(made.result[:, 0], WEIGHTS[:, 7, 5])
    assert [each.code for each in made.diagnostics] == ["err_indirect_indices_free_dim"]


def test_a_wrong_number_is_found_with_its_value() -> None:
    found = refused(weights_of_one, WEIGHTS, CHOSEN + 4)
    assert "9" in found.message and found.location is not None


def test_index_tensors_beside_slices_stay_refused() -> None:
    @nki.jit
    def mixed(w):
        out = nl.ndarray((64, 32), dtype=w.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(w[2, nl.arange(64)[:, None], :]))
        return out

    assert refused(mixed, WEIGHTS).code == "err_unsupported_mixing_basic_advanced_tensor_indexing"
