"""Arguments of a wrong kind: a diagnostic at the kernel's line, not an error of Python inside of the package."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import tilewright as tw
from tests.kit import nisa, nl, run

TILE = np.ones((4, 8), np.float32)


def evaluates(expression: str):
    def kernel(a):
        tile = nl.load(a)
        eval(expression, {"nl": nl, "nisa": nisa, "np": np, "operator": operator}, {"tile": tile})
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    return kernel


@pytest.mark.parametrize(
    ("expression", "message", "hint"),
    [
        ("nl.ndarray(None, dtype=nl.float32)", "shape None", "pass ints"),
        ("nl.shared_identity_matrix(None)", "n None is not a whole number", "pass an int"),
        ("nl.shared_identity_matrix(4 / 2)", "n 2.0 is not a whole number", "n // 128"),
        ("tile[:, nl.ds(0, None)]", "size None", "pass an int"),
        ("tile[:, nl.ds(None, 2)]", "start None", "pass an int"),
        ("tile[:, nl.ds(4 / 2, 2)]", "start 2.0", "n // 128"),
        ("tile.permute((0, 1.0))", "1.0 is not a whole number", "n // 128"),
        ("tile.rearrange(None, ('a', 'b'))", "None is not a pattern", "name every dim"),
        ("tile.rearrange(('a', 'b'), (0, 1))", "(0, 1) is not a pattern", "name every dim"),
        ("nl.fori_loop(0, 3, None)", "no function of one argument", "def body(register)"),
        ("nl.fori_loop(0, 3, lambda: None)", "no function of one argument", "def body(register)"),
        ("nl.while_loop(nisa.register_alloc(1), lambda: None)", "no function of one argument", "def body(register)"),
        ("nl.sqrt(128.0)", "x must be a tile, not float", "math.sqrt(n)"),
        ("tile @ tile", "no operator @", "nl.matmul"),
        ("tile // 2", "no operator //", "nl.floor(nl.multiply(a, 1 / b))"),
        ("tile / tile", "no operator /", "nl.multiply(a, nl.reciprocal(b))"),
        ("tile * 2.0", "no operator *", "nisa.tensor_scalar(dst, a, nl.multiply, b)"),
        ("operator.iadd(tile, tile)", "no operator +=", "write nisa.tensor_tensor(a, a, b, op=nl.add)"),
        ("operator.imul(tile, 2)", "no operator *=", "write nisa.tensor_scalar(a, a, nl.multiply, b)"),
        ("operator.iadd(tile, nl.matmul(tile, tile, transpose_x=True))", "no operator +=", "nisa.nc_matmul(psum, "),
        ("3 % tile", "no operator %", "nl.mod"),
        ("abs(tile)", "no operator abs()", "nl.abs(a)"),
    ],
)
@pytest.mark.parametrize("profile", ["strict", "lenient"])
def test_arguments_of_a_wrong_kind(expression: str, message: str, hint: str, profile: str):
    with pytest.raises(tw.TileError) as caught:
        run(evaluates(expression), TILE, profile=profile)
    found = caught.value.diagnostic
    assert message in found.message and hint in str(found.hint) and found.location is not None
