# pyright: reportCallIssue=false, reportArgumentType=false
"""Products of matrices, dots, tensordot, einsum: shapes, types and errors as NumPy's; integers exact."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from .kit import check, check_error, ops, traced

RNG = np.random.default_rng(7)
BF16 = ml_dtypes.bfloat16


def data(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Small integers: every order of summing gives the same float. No zeros: the sign of 0 * x is left open.

    All of one sign, so that no sum is zero either.
    """
    return np.asarray(RNG.integers(1, 10, shape) * RNG.choice([-1, 1])).astype(dtype)


PAIRS = [
    ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)), ((5, 1, 2, 3), (6, 3, 4)), ((3,), (5, 3, 4)), ((5, 2, 3), (3,)), ((0, 3), (3, 4)),
    ((2, 0), (0, 4)), ((0,), (0,)), ((1, 1), (1, 1)), ((2, 3, 4, 5), (2, 3, 5, 1)), ((1, 7), (7, 300)),
]  # fmt: skip
TYPES = [
    (np.float32, np.float32), (np.float64, np.float32), (np.int8, np.int8), (np.uint8, np.int16), (np.bool_, np.bool_),
    (np.int64, np.float16), (np.float16, np.float16), (BF16, BF16), (np.int32, np.int64), (BF16, np.float32),
]  # fmt: skip


@pytest.mark.req("S4-70")
@pytest.mark.parametrize("shapes", PAIRS, ids=str)
def test_matmul_shapes(shapes: Any):
    x, y = data(*shapes[0]), data(*shapes[1])
    check(lambda x, y: x @ y, x, y)
    check(np.matmul, x, y)
    check(np.linalg.matmul, x, y)


@pytest.mark.req("S4-70")
@pytest.mark.parametrize("types", TYPES, ids=str)
def test_types_of_products(types: Any):
    x, y = data(2, 3, dtype=types[0]), data(3, 4, dtype=types[1])
    for function in (np.matmul, np.dot, lambda x, y: np.tensordot(x, y, 1), lambda x, y: np.inner(x, y.T)):
        check(function, x, y)
    check(lambda x, y: np.vdot(x, y[:, :2]), x, y)
    check(lambda x, y: np.vecdot(x, y.T[:2]), x, y)
    if BF16 not in types:
        check(lambda x, y: np.einsum("ij,jk", x, y), x, y)
        check(lambda x, y: np.einsum("ij,kl->ik", x, y), x, y)


@pytest.mark.req("S4-70")
def test_integers_are_exact_and_wrap():
    x = RNG.integers(-(2**31), 2**31, (3, 40)).astype(np.int32)
    check(lambda x: (x @ x.T, np.dot(x, x.T), np.einsum("ij,kj->ik", x, x), np.vecdot(x, x)), x)
    check(lambda x: x @ x.T, x.astype(np.int64) * 2**20)
    check(lambda x: x @ x.T, x.astype(np.uint8))


@pytest.mark.req("S4-70")
def test_matmul_in_place_and_out():
    def program(x: Any, y: Any, out: Any) -> Any:
        x @= y
        same = np.matmul(x, y, out=out[1])
        np.matmul(x, y[:, 0], out=out[0, :, 1])
        return same

    check(program, data(3, 3), data(3, 3), np.zeros((2, 3, 3), np.float64))
    check(lambda x, y: np.matmul(x, y, dtype=np.float64), data(2, 3), data(3, 4))
    check(lambda x, y: np.matmul(x, y, dtype=np.float32, casting="unsafe"), data(2, 3, dtype=np.int64), data(3, 4))
    check(lambda x, y: np.matmul(x, [[1], [2], [3]]), data(2, 3), data(1))
    check(lambda x, y: np.ones((2, 4)) @ x @ y, data(4, 2), data(2, 2))


AXES = [
    lambda x, y: np.matmul(x, y, axes=[(0, 1), (2, 1), (0, 2)]),
    lambda x, y: np.matmul(x, y[0, 0], axes=[(0, 2), (0,), (1,)]),
    lambda x, y: np.vecdot(x, y, axis=1),
    lambda x, y: np.vecdot(x, y, axis=0, keepdims=True),
    lambda x, y: np.vecdot(x, y, keepdims=True),
    lambda x, y: np.vecdot(x, y, axes=[1, 1]),
    lambda x, y: np.vecdot(x, y, axes=[(1,), (1,), ()]),
    lambda x, y: np.linalg.vecdot(x, y, axis=1),
    lambda x, y: np.matvec(x, y[:, 0]),
    lambda x, y: np.vecmat(x[:, 0], y),
    lambda x, y: np.matvec(x, y[0, 0]),
    lambda x, y: np.vecdot(x, y[0, 0]),
    lambda x, y: np.matvec(x, y[0, 0], axes=[(1, 2), 0, 0]),
]


@pytest.mark.req("S4-70")
@pytest.mark.parametrize("case", range(len(AXES)))
def test_axes_of_products(case: int):
    check(AXES[case], data(3, 3, 3), data(3, 3, 3))


DOTS = [
    ((), ()), ((), (2, 3)), ((4,), ()), ((3,), (3,)), ((2, 3), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3,)),
    ((2, 3), (5, 3, 4)), ((5, 2, 3), (6, 3, 4)), ((3,), (5, 3, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3)),
    ((2, 2, 2, 3), (3, 3)),
]  # fmt: skip


@pytest.mark.req("S4-71")
@pytest.mark.parametrize("shapes", DOTS, ids=str)
def test_dot(shapes: Any):
    x, y = data(*shapes[0]), data(*shapes[1], dtype=np.float64)
    found = check(np.dot, x, y)
    names = [name for name in ops(found.graph) if name not in ("cast", "reshape", "transpose")]
    assert names == ["matmul" if x.ndim and y.ndim else "multiply"]
    check(np.inner, data(*shapes[0]), data(*shapes[1][:1], *shapes[0][-1:]))


@pytest.mark.req("S4-71")
def test_dot_and_its_kin():
    x, y = data(2, 3), data(3, 4)
    check(lambda x: np.dot(x, 2.5), x)
    check(lambda x: np.dot(3, x), x)

    def into(x: Any, y: Any, out: Any) -> Any:
        return np.dot(x, y, out=out)

    check(into, x, y, np.zeros((2, 4), np.float32))
    check(np.outer, x, y)
    check(lambda x: np.outer(x, [1, 2.5]), x)
    check(lambda x, out: np.outer(x, x, out=out), data(3), np.zeros((3, 3)))
    check(lambda x: np.linalg.outer(x, x), data(3))
    check(np.inner, data(2, 3), data(5, 4, 3))
    check(np.vdot, data(2, 3), data(3, 2))
    check(np.vdot, data(3, 2).T, data(3, 2))
    check(np.inner, np.ones(()), data(3))


TENSORDOTS = [0, 1, 2, ((0,), (1,)), ((1, 0), (0, 1)), ([-1], [0]), (0, 1), [[0, 1], [1, 0]], ((), ())]


@pytest.mark.parametrize("axes", TENSORDOTS, ids=str)
def test_tensordot(axes: Any):
    check(lambda x, y: np.tensordot(x, y, axes), data(3, 3), data(3, 3))
    check(lambda x, y: np.tensordot(x, y, axes=axes), data(3, 3), data(3, 3, 2))
    check(lambda x, y: np.linalg.tensordot(x, y, axes=axes), data(3, 3), data(3, 3, 2))


CROSSES = [
    lambda x, y: np.cross(x[:, :3], y[:, :3]),
    lambda x, y: np.cross(x[:, :3], y[0, :3]),
    lambda x, y: np.cross(x[:3], y[:3], axis=0),
    lambda x, y: np.cross(x[:3], y[:3], axisa=0, axisb=0, axisc=0),
    lambda x, y: np.cross(x[:3, :3], y[:3, :3], axisa=0, axisb=1),
    lambda x, y: np.linalg.cross(x[:, :3], y[:, :3]),
    lambda x, y: np.linalg.cross(x[:3], y[:3], axis=0),
    lambda x, y: np.kron(x, y),
    lambda x, y: np.kron(x[0], y),
    lambda x, y: np.kron(x, y[0]),
    lambda x, y: np.kron(x, 2.5),
    lambda x, y: np.kron(x, y.astype(np.int8)),
]


@pytest.mark.parametrize("case", range(len(CROSSES)))
def test_cross_and_kron(case: int):
    normal = [RNG.normal(size=(4, 5)).astype(np.float32) for _ in range(2)]
    check(CROSSES[case], *normal)


@pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors:DeprecationWarning")
def test_cross_of_two_numbers():
    x, y = data(4, 2), data(4, 3)
    for function in (
        lambda x, y: np.cross(x, x[0]),
        np.cross,
        lambda x, y: np.cross(y, x),
        lambda x, y: np.cross(x[0], x[1]),
    ):
        check(function, x, y)


# Subscripts (a space is written _), then the shapes of the operands.
EINSUM_TABLE = """
ij,jk->ik : 2 3 | 3 4
ij,jk : 2 3 | 3 4
ij,jk->ki : 2 3 | 3 4
ji,jk : 3 2 | 3 4
hqd,hkd->hqk : 2 3 4 | 2 5 4
hqk,hkd->hqd : 2 3 5 | 2 5 4
bhqd,bhkd->bhqk : 2 2 3 4 | 2 2 5 4
bqhd,bkhd->bhqk : 2 3 2 4 | 2 5 2 4
bhqk,bkhd->bqhd : 2 2 3 5 | 2 5 2 4
i,i : 3 | 3
i,i-> : 3 | 3
i,j->ij : 3 | 4
i,j->ji : 3 | 4
i,i->i : 3 | 3
bi,bi->b : 5 3 | 5 3
bij,bj->bi : 5 2 3 | 5 3
ij,ij-> : 2 3 | 2 3
ij,ji-> : 2 3 | 3 2
ij-> : 2 3
ij->i : 2 3
ij->j : 2 3
ij->ji : 2 3
ji : 2 3
ii : 3 3
ii->i : 3 3
iji->j : 2 3 2
iij->ji : 2 2 3
iii->i : 2 2 2
iijj->ij : 2 2 3 3
iijj : 2 2 3 3
ii,ij->j : 3 3 | 3 4
...ij,...jk->...ik : 5 2 3 | 3 4
...ij,...jk : 2 5 2 3 | 5 3 4
i...,i...->... : 3 2 | 3 2
...i->... : 2 3
... : 2 3
i...->...i : 2 3 4
...,... : 2 3 | 3
ij...,jk->ik... : 2 3 5 | 3 4
...i,...i : 4 1 3 | 2 3
i...->... : 3 2
ij,jk,kl->il : 2 3 | 3 4 | 4 5
ij,jk,kl,lm : 2 3 | 3 4 | 4 2 | 2 3
i,j,k->kji : 2 | 3 | 4
ij,ij,ij->i : 2 3 | 2 3 | 2 3
abc,cd,de->abe : 2 3 4 | 4 2 | 2 3
i,i,i : 3 | 3 | 3
ij,kl->ik : 2 3 | 4 5
ij,k->k : 2 3 | 4
ij,jk->k : 2 3 | 3 4
ij,jk-> : 2 3 | 3 4
ij,jk->ik : 1 3 | 3 4
ij,jk->ik : 2 1 | 3 4
ij,ij->ij : 2 1 | 2 3
ij,ij->i : 2 1 | 2 3
ij,ij-> : 1 3 | 2 3
ab,ab,ab-> : 1 3 | 2 1 | 2 3
ij,jk->ik : 0 3 | 3 4
ij,jk->ik : 2 0 | 0 4
ij-> : 0 3
,-> : |
,ij->ij :  | 2 3
-> :
ab,cd->abcd : 2 3 | 4 5
_i_j_,_j_k_->_i_k_ : 2 3 | 3 4
aB,Bc->ac : 2 3 | 3 4
cab,dab->cd : 2 3 4 | 5 3 4
abc,cba-> : 2 3 4 | 4 3 2
abcd,bd->ac : 2 3 4 5 | 3 5
nchw,oc->nohw : 2 3 4 5 | 6 3
"""


def _einsum_case(line: str) -> tuple[Any, ...]:
    subscripts, shapes = line.split(" : ") if " : " in line else (line.removesuffix(" :"), "")
    return subscripts.replace("_", " "), *(tuple(map(int, shape.split())) for shape in shapes.split("|"))


EINSUMS = [_einsum_case(line) for line in EINSUM_TABLE.strip().splitlines()]


@pytest.mark.parametrize("case", EINSUMS, ids=lambda case: f"{case[0]}-{case[1]}")
def test_einsum(case: Any):
    subscripts, *shapes = case
    for dtype in (np.float32, np.int16, np.bool_):
        arrays = [data(*shape, dtype=dtype) for shape in shapes]
        check(lambda *x: np.einsum(subscripts, *x), *arrays)
    check(lambda *x: np.einsum(subscripts, *x, optimize=True), *(data(*shape) for shape in shapes))
    check(lambda *x: np.einsum(subscripts, *x), *(data(*shape[::-1]).T for shape in shapes))


@pytest.mark.parametrize("case", EINSUMS, ids=lambda case: f"{case[0]}-{case[1]}")
def test_einsum_writes_through_what_it_gives(case: Any):
    """A sum of nothing is a view of its operand, in NumPy and here."""
    subscripts, *shapes = case

    def program(x: Any, *others: Any) -> Any:
        found = np.einsum(subscripts, x, *others)
        if not found.ndim:
            return found
        found[...] = 3
        np.ravel(found)[:1] = 5
        return found

    check(program, *(data(*shape, dtype=np.float64) for shape in shapes))


def test_einsum_of_halves_rounds_once():
    x = [RNG.normal(size=(8, 8)).astype(np.float16) for _ in range(3)]
    check(lambda x, y, z: np.einsum("ij,jk,kl->il", x, y, z), *x, rtol=2e-2, atol=2e-2)
    check(lambda x, y, z: np.einsum("ij,ij->i", x, y), *x, rtol=1e-3, atol=1e-3)
    check(lambda x, y, z: np.einsum("ij->i", x), *x, rtol=1e-3, atol=1e-3)


def test_einsum_of_bfloat16():
    found = traced(lambda x, y: np.einsum("ij,kj->ik", x, y), data(2, 3, dtype=BF16), data(4, 3, dtype=BF16))
    assert str(found.graph.outputs[0].type) == "bf16[2, 4]"


def test_einsum_arguments():
    x, y = data(2, 3), data(3, 4)
    check(lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [0, 2]), x, y)
    check(lambda x, y: np.einsum(x, [0, 1], y, [1, 2]), x, y)
    check(lambda x, y: np.einsum(x, [5, Ellipsis], y, [Ellipsis, 7], [7, 5, Ellipsis]), x[:, :1], y[:1])
    check(lambda x, y: np.einsum("ij,jk", x, y, dtype=np.float64), x, y)
    check(lambda x, y: np.einsum("ij,jk", x, y, dtype=np.int32, casting="unsafe"), x, y)
    check(lambda x, y: np.einsum("ij,jk", x, y, order="F"), x, y)
    check(lambda x, y, out: np.einsum("ij,jk", x, y, out=out), x, y, np.zeros((2, 4)))
    check(lambda x, y: np.einsum("ij,jk", x, np.ones((3, 2))), x, y)
    check(lambda x, y: np.einsum("ij,", x, 2), x, y)
    check(lambda x, y: np.einsum_path("ij,jk", x, y)[0], x, y)


def test_einsum_becomes_plain_products():
    """What lowering sees of attention: one batched product, one transpose."""
    q, k = data(8, 64, 16), data(8, 32, 16)
    found = traced(lambda q, k: np.einsum("hqd,hkd->hqk", q, k), q, k)
    assert ops(found.graph) == ["transpose", "matmul"]
    found = traced(lambda p, v: np.einsum("hqk,hkd->hqd", p, v), data(8, 64, 32), data(8, 32, 16))
    assert ops(found.graph) == ["matmul"]
    found = traced(lambda x, w: np.einsum("bsd,df->bsf", x, w), data(2, 5, 8), data(8, 9))
    assert ops(found.graph) == ["reshape", "matmul", "reshape"]
    found = traced(lambda q, k: np.einsum("hqd,hkd->hkq", q, k), q, k)
    assert ops(found.graph) == ["transpose", "matmul"]


def test_many_factors_are_taken_in_a_cheap_order():
    found = traced(lambda a, b, c: np.einsum("ij,jk,k->i", a, b, c), data(64, 64), data(64, 64), data(64))
    shapes = [op.result.type.shape for op in found.graph.ops if op.name == "matmul"]
    assert shapes == [(64, 1), (64, 1)]


CHAINS = [((2, 3), (3, 4)), ((2, 9), (9, 3), (3, 8)), ((9, 2), (2, 8), (8, 3), (3, 7)), ((3,), (3, 4), (4, 2)),
          ((2, 3), (3, 4), (4,)), ((3,), (3, 4), (4,)), ((3,), (3, 4)), ((3,), (3, 2), (2, 5), (5,))]  # fmt: skip


@pytest.mark.parametrize("shapes", CHAINS, ids=str)
def test_multi_dot(shapes: Any):
    check(lambda *x: np.linalg.multi_dot(x), *(data(*shape) for shape in shapes))


def test_multi_dot_into_an_array():
    check(lambda x, out: np.linalg.multi_dot([x, x, x], out=out), data(3, 3), np.zeros((3, 3), np.float32))


ERRORS = [
    lambda x, y: x @ x,
    lambda x, y: x @ 2,
    lambda x, y: np.matmul(2.0, x),
    lambda x, y: x @ y[:2],
    lambda x, y: np.matmul(np.ones((2, 2, 3)), np.ones((3, 3, 2)) * y[0, 0]),
    lambda x, y: np.matmul(x, y, axis=0),
    lambda x, y: np.matmul(x, y, keepdims=True),
    lambda x, y: np.matmul(x, y, axes=[(0, 1), (0, 1)]),
    lambda x, y: np.matmul(x, y, axes=[(0, 1), (0, 5), (0, 1)]),
    lambda x, y: np.matmul(x, y, axes=5),
    lambda x, y: np.matmul(x, y, out=x),
    lambda x, y: np.matmul(x, y, dtype=np.int32),
    lambda x, y: np.vecdot(x, y),
    lambda x, y: np.matvec(x, y),
    lambda x, y: np.dot(x, x),
    lambda x, y: np.dot(x, y, out=x),
    lambda x, y: np.dot(x, y, out=np.ones((2, 4)) * x[0, 0].astype(np.float64)),
    lambda x, y: np.inner(x, y),
    lambda x, y: np.vdot(x, y),
    lambda x, y: np.linalg.outer(x, y),
    lambda x, y: np.tensordot(x, y, 2),
    lambda x, y: np.tensordot(x, y, 3),
    lambda x, y: np.tensordot(x, y, ([0, 0], [0, 0])),
    lambda x, y: np.tensordot(x, y, ([5], [0])),
    lambda x, y: np.cross(x, y),
    lambda x, y: np.cross(x, x, axis=4),
    lambda x, y: np.cross(x[:, :3], y[:, :3]),
    lambda x, y: np.cross(np.sum(x), y),
    lambda x, y: np.linalg.cross(y, y),
    lambda x, y: np.einsum("ij,jk", x),
    lambda x, y: np.einsum("ij", x, y),
    lambda x, y: np.einsum("ij,ij", x, y),
    lambda x, y: np.einsum("ijk->i", x),
    lambda x, y: np.einsum("i->i", x),
    lambda x, y: np.einsum("ij->ik", x),
    lambda x, y: np.einsum("ij->ii", x),
    lambda x, y: np.einsum("ii", x),
    lambda x, y: np.einsum("ij-ji", x),
    lambda x, y: np.einsum("i$", x),
    lambda x, y: np.einsum("i.j", x),
    lambda x, y: np.einsum("......", x),
    lambda x, y: np.einsum(x, [0, 1.5]),
    lambda x, y: np.einsum(x, [0, 99]),
    lambda x, y: np.einsum("ij,jk", x, y, dtype=np.int32),
    lambda x, y: np.einsum("ij,jk", x, y, out=x[0]),
    lambda x, y: np.einsum("ij,jk->ik", x, y, out=x),
    lambda x, y: np.linalg.multi_dot([x]),
    lambda x, y: np.linalg.multi_dot([x, x, y]),
    lambda x, y: np.linalg.multi_dot([x, y[None], x]),
]


@pytest.mark.req("S4-70", "S4-71")
@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors_are_numpys(case: int):
    check_error(ERRORS[case], data(2, 3), data(3, 4))
