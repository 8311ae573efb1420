"""tilewright migrate: old nc_matmul forms become current ones, everything else keeps its bytes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import nisa, nki, nl, np, run
from tilewright.errors import TileSyntaxError
from tilewright.migrate import migrate

OLD = '''\
def kernel(a, b):
    """Uses nc_matmul(a, b): this text stays. Größe."""
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    psum = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
    for k in nl.affine_range(2):
        s = nl.load(a[k * 128 : (k + 1) * 128, :])  # ü
        m = nl.load(b[k * 128 : (k + 1) * 128, :])
        psum[...] += nisa.nc_matmul(s, m)  # accumulate: nc_matmul(s, m)
    nl.store(out, value=nl.copy(psum))
    return out
'''


@pytest.mark.req("S3-03")
def test_the_old_form_is_rewritten_and_the_result_runs() -> None:
    done = migrate(OLD, "k.py")
    assert [site.line for site in done.sites] == [8] and done.unresolved == ()
    expected = OLD.replace("psum[...] += nisa.nc_matmul(s, m)  #", "nisa.nc_matmul(psum, s, m)  #")
    assert done.text == expected
    scope: dict[str, Any] = {"nl": nl, "nisa": nisa, "nki": nki}
    exec(done.text, scope)  # the kernel of this test
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((256, n)).astype(np.float32) for n in (128, 512))
    np.testing.assert_allclose(run(scope["kernel"], a, b), a.T.astype(np.float64) @ b, rtol=1e-4, atol=1e-3)


@pytest.mark.req("S3-03")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("acc += nisa.nc_matmul(a, b)", "nisa.nc_matmul(acc, a, b)"),
        ("acc[i, :] += isa.nc_matmul(a[0], b)", "isa.nc_matmul(acc[i, :], a[0], b)"),
        ("acc[...] += nc_matmul(stationary=a, moving=b)", "nc_matmul(dst=acc, stationary=a, moving=b)"),
        ("acc[...] += nc_matmul(a, moving=b)", "nc_matmul(acc, a, moving=b)"),
        ("t[i] = nisa.nc_matmul(a, b)", "nisa.nc_matmul(t[i], a, b, accumulate=False)"),
        ("acc[...] += nisa.nc_matmul(\n    a,\n    b,\n)", "nisa.nc_matmul(\n    acc,\n    a,\n    b,\n)"),
        ("acc[...] += nisa.nc_matmul(a, b, is_transpose=True)", "nisa.nc_matmul(acc, a, b, is_transpose=True)"),
    ],
)
def test_forms(old: str, new: str) -> None:
    done = migrate(old + "\n")
    assert done.text == new + "\n" and len(done.sites) == 1
    assert migrate(done.text).text == done.text, "a rewritten file is left alone"


def test_current_code_is_left_alone() -> None:
    current = "nisa.nc_matmul(p, a, b)\nnisa.nc_matmul(dst=p, stationary=a, moving=b)\nx += nl.add(a, b)\n"
    done = migrate(current)
    assert (done.text, done.sites, done.unresolved, done.diff("k.py")) == (current, (), (), "")


def test_a_value_without_a_place_gets_a_new_tile() -> None:
    done = migrate("y = nl.copy(nisa.nc_matmul(a, b))\nz = nisa.nc_matmul(a, moving=b)\n", "k.py")
    new = "nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)"
    assert done.text == (
        f"nc_matmul = {new}\nnisa.nc_matmul(nc_matmul, a, b)\ny = nl.copy(nc_matmul)\n"
        f"z = {new}\nnisa.nc_matmul(z, a, moving=b)\n"
    )
    assert [site.line for site in done.sites] == [1, 2] and done.unresolved == ()


def test_a_value_that_nobody_takes_is_reported() -> None:
    done = migrate("nisa.nc_matmul(a, b)\n", "k.py")
    assert done.text == done.source
    assert [(d.code, d.location.line) for d in done.unresolved if d.location] == [("W201", 1)]


def test_the_change_is_shown_as_a_diff() -> None:
    diff = migrate(OLD).diff("k.py")
    assert "-        psum[...] += nisa.nc_matmul(s, m)" in diff and "+        nisa.nc_matmul(psum, s, m)" in diff


def test_a_file_that_does_not_parse_is_refused_with_its_line() -> None:
    with pytest.raises(TileSyntaxError) as caught:
        migrate("def k(:\n", "k.py")
    assert str(caught.value.diagnostic.location) == "k.py:1"
