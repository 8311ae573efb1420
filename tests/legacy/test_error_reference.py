"""The error reference: every bad example is refused with its code on its line, every good one runs and is right."""

from __future__ import annotations

import numpy as np
import pytest

import tests.legacy.error_kernels  # noqa: F401  (fills the lists)
from tests.legacy.kit import GOOD, TARGETS, WRONG, Case, marked_line, nisa, nl, params, refused, run
from tilewright.errors import TileError


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", params(WRONG, "reject"))
def test_refused(case: Case, target: str) -> None:
    arrays = [array.copy() for array in case.arrays]
    found = refused(case.kernel, *arrays, target=target, profile=case.profile)
    assert found.code == case.code, str(found)
    if case.message is not None:
        assert case.message in found.message
    if found.location is not None and "# error" not in marked_line(found):
        assert "return" in marked_line(found) or "def " in marked_line(found), marked_line(found)
    assert found.hint


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", params(GOOD, "accept"))
def test_accepted(case: Case, target: str) -> None:
    arrays = [array.copy() for array in case.arrays]
    done = run(case.kernel, *arrays, target=target, profile=case.profile)
    assert case.expected is not None
    wanted = case.expected(*case.arrays)
    results = done.result if isinstance(done.result, tuple) else (done.result,)
    for result, want in zip(results, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(result, want, rtol=2e-2, atol=1e-5)
    errors = [found for found in done.diagnostics if found.severity == "error"]
    assert not errors, "\n".join(map(str, errors))


@pytest.mark.rule("R-err-nki_api_outside_of_nki_kernel-01", "reject")
@pytest.mark.req("S2-16")
@pytest.mark.parametrize(
    "call",
    [
        lambda: nl.zeros((128, 1), dtype=nl.float32),
        lambda: nisa.memset((1, 1), 0, nl.int32),
        lambda: nl.arange(4),
        lambda: nl.mgrid[0:4, 0:4],
    ],
)
def test_outside_of_a_kernel(call) -> None:
    with pytest.raises(TileError) as caught:
        call()
    assert caught.value.diagnostic.code == "err_nki_api_outside_of_nki_kernel"
