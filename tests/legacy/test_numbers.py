"""Loop indices and index tensors where tiles and numbers are expected: only the former are numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.legacy.kit import nisa, nki, nl, refused, run

TILE = np.random.default_rng(0).random((128, 512)).astype(np.float32)


def changed(expression: str):
    """A kernel that gives every quarter `part` of a tile, number `i`, the value of the expression."""

    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a)
        for i in nl.affine_range(4):
            part = tile[:, nl.ds(i * 128, 128)]
            tile[:, nl.ds(i * 128, 128)] = eval(expression, {"nl": nl, "nisa": nisa, "np": np}, {"i": i, "part": part})
        nl.store(out, tile)
        return out

    return kernel


@pytest.mark.parametrize(
    ("expression", "numpy"),
    [
        ("part + i", lambda x, i: x + i),
        ("i * nl.exp(part)", lambda x, i: i * np.exp(x)),
        ("part / (i + 1)", lambda x, i: x / (i + 1)),
        ("nl.maximum(part, i)", lambda x, i: np.maximum(x, i)),
        ("nl.full((128, 128), i, dtype=nl.float32)", lambda x, i: 0 * x + i),
        ("nisa.tensor_scalar(part, np.multiply, 2 * i - 1)", lambda x, i: x * (2 * i - 1)),
        ("nisa.activation(nl.exp, part, scale=i)", lambda x, i: np.exp(x * i)),
        ("part > i % 2", lambda x, i: x > i % 2),
    ],
)
def test_a_loop_index_is_a_number(expression: str, numpy):
    parts = [numpy(TILE[:, i * 128 : (i + 1) * 128], i) for i in range(4)]
    np.testing.assert_allclose(run(changed(expression), TILE).result, np.concatenate(parts, axis=1), rtol=1e-5)


@pytest.mark.parametrize(
    ("expression", "message", "hint"),
    [
        ("part * nl.arange(128)[None, :]", "must be a tile, not an index tensor", "nisa.iota"),
        ("nl.arange(128)[None, :] + 1", "is assigned an index tensor", "nisa.iota"),
        ("nl.where(nl.arange(128)[None, :] > 5, part, 0.0)", "not a comparison of indices", "nisa.affine_select"),
        ("part * (i == 2)", "not a comparison of indices", "mask="),
        ("[part]", "is assigned list", "nl.load"),
    ],
)
def test_an_index_tensor_is_no_tile(expression: str, message: str, hint: str):
    found = refused(changed(expression), TILE)
    assert found.code == "E108" and message in found.message and hint in str(found.hint)


@pytest.mark.parametrize(
    ("expression", "code", "message"),
    [
        ("nl.arange(None)", "E108", "None is not a whole number"),
        ("nl.arange(128 / 2)", "E108", "64.0 is not a whole number"),
        ("nl.arange(0, 8, 0)", "E108", "a step of 0"),
        ("nl.mgrid[128]", "E108", "nl.mgrid is indexed with 128"),
        ("nl.mgrid[0:128, 0:'x']", "E108", "'x' is not a whole number"),
        ("part[:, nl.ds(None, 3)]", "E108", "nl.ds: start None"),
        ("part[:, nl.ds(0, 2.5)]", "E108", "nl.ds: size 2.5"),
        ("part[:, nl.ds(2.5, 2)]", "E108", "nl.ds: start 2.5"),
        ("part[:, 0 : 128 / 2]", "E108", "a slice's bound 64.0"),
        ("part[np.zeros((3, 3))]", "E108", "indexed with ndarray"),
        ("part.reshape((128, 128 / 2))", "E103", "64.0 is not a whole number"),
        ("part.broadcast_to(None)", "E103", "None is not a whole number"),
        ("nisa.memset(None, 0.0, nl.float32)", "E103", "None is not a whole number"),
        ("nl.sum(part, axis=3)", "E108", "axis=3 of a tile of 2 dims"),
        ("nl.max(part, axis=[1, -3])", "E108", "axis=[1, -3] of a tile of 2 dims"),
        ("nisa.tensor_reduce(np.add, part, axis=1.5)", "E108", "1.5 is not a whole number"),
    ],
)
@pytest.mark.parametrize("profile", ["strict", "lenient"])
def test_what_is_no_whole_number_is_refused(expression: str, code: str, message: str, profile: str):
    """Sizes, places and axes are not rounded, nor counted past the last one, nor an error of Python in here."""
    found = refused(changed(expression), TILE, profile=profile)
    assert found.code == code and message in found.message and found.hint


@pytest.mark.parametrize(
    ("expression", "message", "hint"),
    [
        ("nisa.activation(nl.exp, part, bais=part[:, 0:1])", "nisa.activation() takes no argument 'bais'", "bias?"),
        ("nl.multiply(part, 2.0, maks=None)", "nl.multiply() takes no argument 'maks'", "mask?"),
        ("nl.zeros((128, 128), dtype=nl.float32, bufer=nl.psum)", "nl.zeros() takes no argument 'bufer'", "buffer?"),
    ],
)
@pytest.mark.parametrize("profile", ["strict", "lenient"])
def test_an_argument_that_is_ignored_is_warned_of(expression: str, message: str, hint: str, profile: str):
    """Legacy functions are documented with **kwargs."""
    (found,) = run(changed(expression), TILE, profile=profile).diagnostics
    assert (found.code, found.severity) == ("W107", "warning")
    assert message in found.message and f"did you mean {hint}" in str(found.hint)


@pytest.mark.parametrize(
    "expression",
    [
        "nisa.tensor_copy(dst=part, src=part)",
        "nisa.activation(dst=part, op=nl.exp, data=part)",
        "nisa.memset(dst=part, value=0.0)",
    ],
)
@pytest.mark.parametrize("profile", ["strict", "lenient"])
def test_destinations_are_for_the_current_dialect(expression: str, profile: str):
    """The result would be lost."""
    found = refused(changed(expression), TILE, profile=profile)
    assert found.code == "E114" and "takes no dst" in found.message and "tile[...] = " in str(found.hint)
