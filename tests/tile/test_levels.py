"""Profiles that stand for an older API level: what they refuse beyond the documentation."""

from __future__ import annotations

import itertools

import pytest

from tests.kit import accepts, nisa, nl, np, rejects, tile

A = np.zeros((1, 1), np.float32)


def tensor_tensor_on(first, second):
    def kernel(a):
        x, y = (tile((128, 16), buffer=memory) for memory in (first, second))
        dst = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst, x, y, op=nl.add)

    return kernel


@pytest.mark.req("S3-15")
@pytest.mark.rule("R-engine-15", "accept")
@pytest.mark.parametrize(("first", "second"), list(itertools.product([nl.sbuf, nl.psum], repeat=2)))
def test_the_documentation_lets_one_operand_be_in_psum(first, second) -> None:
    if first is nl.psum and second is nl.psum:
        rejects("R-tensor_tensor-02", tensor_tensor_on(first, second), A)
    else:
        accepts(tensor_tensor_on(first, second), A)


@pytest.mark.req("S3-15")
@pytest.mark.rule("R-engine-15", "reject")
@pytest.mark.parametrize(("first", "second"), list(itertools.product([nl.sbuf, nl.psum], repeat=2)))
def test_the_older_level_lets_none(first, second) -> None:
    kernel = tensor_tensor_on(first, second)
    if first is nl.sbuf and second is nl.sbuf:
        accepts(kernel, A, profile="nki-0.3")
    elif first is nl.psum and second is nl.psum:
        rejects("R-tensor_tensor-02", kernel, A, profile="nki-0.3")
    else:
        rejects("R-engine-15", kernel, A, profile="nki-0.3")


@pytest.mark.req("S3-12")
def test_the_older_level_drains_psum_by_copy_and_activation() -> None:
    def kernel(a):
        x = tile((128, 16), buffer=nl.psum, value=-1)
        dst = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst, x)
        nisa.activation(dst, op=nl.relu, data=x, scale=-1.0)

    accepts(kernel, A, profile="nki-0.3")


@pytest.mark.req("S3-16")
@pytest.mark.req("S3-17")
@pytest.mark.parametrize("profile", ["strict", "nki-0.3"])
def test_operators_and_divide_name_what_to_use(profile: str) -> None:
    def operator(a):
        return tile((128, 16)) - tile((128, 16))

    def divide(a):
        nl.divide(tile((128, 16)), tile((128, 16), value=1))

    assert "nl.subtract" in (rejects("R-nl-01", operator, A, profile=profile).hint or "")
    assert "reciprocal" in (rejects("R-nl-02", divide, A, profile=profile).hint or "")
