"""Whole kernels of older forms: rewritten, run, and compared with what they computed before, bit for bit."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.cli.kit import CommandLine
from tilewright.migrate import Migration, migrate
from tilewright.migrate.proof import Proof, prove

RANDOM = np.random.default_rng(0)
WIDE = RANDOM.standard_normal((128, 512)).astype(np.float32)
SQUARE = RANDOM.standard_normal((128, 128)).astype(np.float32)
LEGACY = """\
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
from neuronxcc.nki.language import par_dim


@nki.jit(mode="simulation")
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)  # what it returns
"""
# The forms of NKI 0.2: instructions return results, tiles have operators, reductions drop their dim, loads give 1-D
# tiles, and matmuls read what a transpose left in PSUM.
BEFORE_0_3 = '''\
import nki
import nki.isa as nisa
import nki.language as nl

ROWS = 128


@nki.jit
def kernel(q, k, shift):
    """Largest score of every row, and the sum of the others' powers beside it."""
    M, N, D = k.shape
    highest = nl.ndarray((M, ROWS), dtype=q.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((M, ROWS), dtype=q.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(M):
        shift_m = nl.load(shift[m, :])  # one number per row
        scores = nl.zeros((ROWS, N), dtype=nl.float32, buffer=nl.psum)
        if D <= 64:
            left = nl.load_transpose2d(q[m, :, :])
            right = nl.transpose(nl.load(k[m, :, :]))
            scores[...] += nisa.nc_matmul(left, right)
        else:
            for d in nl.affine_range(D // 64):
                left = nl.load_transpose2d(q[m, :, d * 64 : (d + 1) * 64])
                right = nl.transpose(nl.load(k[m, :, d * 64 : (d + 1) * 64]))
                scores[...] += nisa.nc_matmul(left, right)
        score = nl.copy(scores, dtype=q.dtype) - shift_m.reshape((ROWS, 1))
        top = nl.max(score, axis=1)
        stable = score - top.reshape((ROWS, 1))
        power = nl.sum(nl.exp(stable) * 2.0, axis=1)
        nl.store(highest[m, :], value=top)
        nl.store(total[m, :], value=power)
    return highest, total
'''


def ported(source: str, *arrays: np.ndarray) -> tuple[Migration, Proof]:
    tw.activate(force=True)
    done = migrate(source, "k.py")
    return done, prove(source, done.text, "kernel", arrays, {}, "trn2")


@pytest.mark.req("S3-02")
@pytest.mark.req("S3-03")
@pytest.mark.parametrize("depth", [64, 128])
def test_the_forms_of_0_2(depth: int) -> None:
    q, k = (RANDOM.standard_normal((2, 128, depth)).astype(np.float32) for _ in range(2))
    done, proof = ported(BEFORE_0_3, q, k, RANDOM.standard_normal((2, 128)).astype(np.float32))
    assert done.unresolved == () and proof.equal
    assert [site.line for site in done.sites] == [20, 25]
    assert "shift[m, :].reshape((shift.shape[1], 1)))  # one number per row" in done.text
    assert "nisa.nc_matmul(scores, left, nl.copy(right))" in done.text
    assert migrate(done.text, "k.py").text == done.text, "a ported file is left alone"


@pytest.mark.parametrize(
    "body",
    [
        "nl.store(out, nisa.activation(op=nl.exp, data=nl.load(a), scale=2.0))",
        "tile = nl.load(a)\nnl.store(out, value=(1.0 - tile) * tile + -tile)",
        "tile = nl.load(a)\ntile += 2.0\ntile[...] *= tile\nnl.store(out, tile)",
        "tile = nl.load(a)\nnl.store(out, tile - nl.max(tile, axis=1))",
        "tile = nl.load(a)\nscaled = nisa.tensor_scalar(tile, np.multiply, 3.0, op1=np.add, operand1=tile[:, 0:1])\n"
        "nl.store(out, scaled)",
        "tile = nl.ndarray((par_dim(128), 512), dtype=a.dtype)\ntile[...] = nl.load(a)\n"
        "nl.store(out, tile.astype(nl.float32))",
        "p = nl.arange(128)[:, None]\nf = nl.arange(256)[None, :]\nfor i in nl.affine_range(2):\n"
        "    tile = nl.load(a[p, i * 256 + f])\n    nl.store(out[p, i * 256 + f], nl.exp(tile))",
        "ip, iq = nl.mgrid[0:128, 0:256]\ntile = nl.load(a)\nnl.store(out, tile)\n"
        "nl.store(out[ip, 2 * iq + 1], nisa.reciprocal(tile[ip, 2 * iq]))",
        "p = nl.arange(128)[:, None]\nf = nl.arange(300)[None, :]\nfor i in nl.affine_range(2):\n"
        "    tile = nl.load(a[p, i * 300 + f], mask=i * 300 + f < 512)\n"
        "    nl.store(out[p, i * 300 + f], tile + 1.0, mask=i * 300 + f < 512)",
        "ones = nisa.memset((128, 1), 1.5, dtype=nl.float32)\n"
        "nl.store(out, nisa.activation(nl.square, nl.load(a), bias=ones))",
        "tile = nl.load(a)\ntotal = nisa.tensor_reduce(np.add, tile, axis=[1])\nnl.store(out, tile)\n"
        "nl.store(out[:, 0:1], total)",
        "tile: nki.tensor = nl.load(a)\nturned = nisa.nc_transpose(tile[:, 0:128])\nnl.store(out, tile)\n"
        "nl.store(out[:, 0:128], turned)",
        "tile = nl.load(a)\nstats = nisa.bn_aggr(nisa.bn_stats(tile))\nnl.store(out, tile)\n"
        "nl.store(out[:, 0:2], stats)",
        "tile = nl.load(a)\nproduct = nisa.nc_matmul(tile[:, 0:128], tile)\nnl.store(out, product)",
        "nl.store(out, nl.add(nl.load(a), nl.load(a[0:1, 0:512])))",
        "nl.store(out, nl.multiply(nl.load(a[0:128, 0:1]), nl.load(a[0:1, 0:512])))",
        "tile = nl.load(a)\ntop = nisa.tensor_partition_reduce(np.add, tile)\nnl.store(out, tile)\n"
        "nl.store(out[0:1, 0:512], top)",
        # The identity is in SBUF now.
        "tile = nl.load(a)\none = nl.load(nl.shared_identity_matrix(128), dtype=a.dtype)\n"
        "nl.store(out, nisa.nc_matmul(one, tile))",
        # A call that casts to another type than its destination's rounds twice.
        "tile = nl.load(a)\nwide = nl.ndarray((128, 512), dtype=nl.float32)\n"
        "wide[...] = nisa.activation(nl.exp, tile, dtype=nl.bfloat16)\nnl.store(out, wide)",
    ],
)
def test_legacy_kernels(body: str) -> None:
    source = LEGACY + textwrap.indent(body, "    ") + "\n    return out\n"
    done, proof = ported(source, WIDE)
    assert done.unresolved == (), "\n".join(map(str, done.unresolved))
    assert proof.equal, done.text
    assert "neuronxcc" not in done.text and "  # what it returns\n" in done.text


PQ = "p = nl.arange(128)[:, None]\nf = nl.arange(512)[None, :]\n"


ROWS = "p = nl.arange(96)[:, None]\nf = nl.arange(512)[None, :]\nfor i in nl.sequential_range(2):\n"


@pytest.mark.req("S3-03")
@pytest.mark.parametrize(
    ("body", "made"),
    [
        (
            "t = nl.load(a[i * 96 + p, f], mask=i * 96 + p < 128)\ng = nl.load(a[0:96])\n"
            "t[...] = nl.multiply(t, g, mask=i * 96 + p < 128)\nnl.store(out[i * 96 + p, f], t, mask=i * 96 + p < 128)",
            "t[0:min(96, 128 - i * 96)] = nl.multiply(t[0:min(96, 128 - i * 96)], g[0:min(96, 128 - i * 96)])",
        ),
        (
            "t = nl.ndarray((96, 512), dtype=a.dtype)\n"
            "t[p, f] = nl.load(a[i * 96 + p, f], mask=i * 96 + p < 128)\n"
            "e = nisa.activation(nl.exp, t[p, f], mask=(i * 96 + p < 128) & (f < 500))\n"
            "nl.store(out[i * 96 + p, f], t[p, f], mask=i * 96 + p < 128)\n"
            "nl.store(out[i * 96 + p, f], e, mask=(i * 96 + p < 128) & (f < 500))",
            "t[0:min(96, 128 - i * 96), 0:512] = nl.load(",
        ),
        (
            "t = nl.ndarray((96, 512), dtype=a.dtype)\nt[...] = nl.load(a[i * 96 + p, f], mask=i * 96 + p < 128)\n"
            "s = nisa.tensor_reduce(np.add, t, axis=[1], mask=i * 96 + p < 128)\n"
            "t[p, f] = nisa.tensor_scalar(t[p, f], np.subtract, s, mask=i * 96 + p < 128)\n"
            "nl.store(out[i * 96 + p, f], value=t, mask=i * 96 + p < 128)",
            "value=t[0:min(96, 128 - i * 96)])",
        ),
        # A mask with a name; transposed, its axes change places. A condition on numbers is that of the statement.
        (
            "g = nl.arange(96)[None, :]\nkeep = (i * 96 + p < 128) & (g < 90)\n"
            "t = nl.ndarray((96, 96), dtype=a.dtype)\nu = nl.ndarray((96, 96), dtype=a.dtype)\n"
            "t[p, g] = nl.load(a[i * 96 + p, g], mask=keep)\n"
            "u[p, g] = nisa.nc_transpose(t[p, g], mask=keep)\n"
            "nl.store(out[i * 96 + p, f], nl.load(a[i * 96 + p, f], mask=i * 96 + p < 128), mask=i * 96 + p < 128)\n"
            "back = (g < 128 - i * 96) & (p < 90)\nnl.store(out[p, i * 96 + g], u[p, g], mask=back)",
            "u[0:min(96, 90), 0:min(96, 128 - i * 96)] = nl.copy(",
        ),
        (
            "first = i < 1\nt = nl.load(a[0:96])\nt[...] = nl.exp(t, mask=first)\n"
            "t[...] = nisa.activation(nl.square, t, mask=first & (f < 300))\n"
            "nl.store(out, nl.load(a), mask=first)\nnl.store(out[p, f], t, mask=i >= 1)",
            "if first:\n            nisa.activation(t[:, 0:min(512, 300)], nl.square, t[:, 0:min(512, 300)])",
        ),
        (
            "upper = f >= i * 96 + p\nt = nl.load(a[i * 64 + nl.arange(64)[:, None], f])\n"
            "u = nl.zeros((64, 512), dtype=nl.float32, buffer=nl.psum)\n"
            "u[...] += nl.matmul(t[:, 0:64], t, transpose_x=True, mask=i > 5)\n"
            "t[...] = nl.add(t, t, mask=(nl.arange(64)[:, None] < 60) & (f < 500))\nk = nl.load(a[0:96])\n"
            "k[p, f] = nisa.affine_select(pred=upper, on_true_tile=k[p, f], on_false_value=0.0, mask=i < 1)\n"
            "nl.store(out[i * 32:i * 32 + 96], k)\nnl.store(out[i * 64 + nl.arange(64)[:, None], f], t)",
            "t[0:min(64, 60), 0:min(512, 500)] = nl.add(t[0:min(64, 60), 0:min(512, 500)], t[0:",
        ),
        # The mask of a product ends the columns of what moves.
        (
            "keep = i * 300 + f < 512\nt = nl.load(a[p, i * 300 + f], mask=keep)\nw = nl.load(a[0:96, 0:96])\n"
            "u = nl.zeros((96, 512), dtype=nl.float32, buffer=nl.psum)\n"
            "u[p, f] += nisa.nc_matmul(w, t, mask=keep)\nu[p, f] += nisa.nc_matmul(w, t[p, f], mask=keep & (i < 9))\n"
            "nl.store(out, nl.load(a))\nnl.store(out[p, i * 300 + f], u[p, f], mask=keep)",
            "nisa.nc_matmul(u[0:96, 0:min(512, 512 - i * 300)], w, t[:, 0:min(512, 512 - i * 300)])",
        ),
    ],
)
def test_masks_of_calls_that_compute(body: str, made: str) -> None:
    source = LEGACY + textwrap.indent(ROWS + textwrap.indent(body, "    "), "    ") + "\n    return out\n"
    done, proof = ported(source, WIDE)
    assert done.unresolved == (), "\n".join(map(str, done.unresolved))
    assert proof.equal and made in done.text, done.text
    assert "arange" not in done.text and "mask" not in done.text


@pytest.mark.req("S3-03")
@pytest.mark.parametrize(
    ("body", "made"),
    [
        # Index tensors as values: a pattern, an offset, a factor per partition.
        ("row = nisa.iota(f, dtype=nl.float32)\nnl.store(out, nl.add(nl.load(a), row))", "pattern=[[1, 512]]"),
        (
            "e = 3 * f - 2 * p + 7\nt = nisa.iota(e, dtype=nl.int32)\n"
            "nl.store(out, nl.load(a) + nl.copy(t, dtype=nl.float32))",
            "pattern=[[3, 512]], offset=7, channel_multiplier=-2",
        ),
        ("nl.store(out, nl.load(a) * nisa.iota(5 - p * 2, dtype=nl.float32))", "[[0, 1]], offset=5, channel_mul"),
        (
            "t = nl.load(a)\nnl.store(out[p, f], nisa.affine_select(pred=(f < p), on_true_tile=t[p, f], "
            "on_false_value=nl.fp32.min))",
            "channel_multiplier=-1, on_true_tile=t[0:128, 0:512], on_false_value=-3.4028234663852886e+38, "
            "cmp_op=nl.less)",
        ),
        (
            "t = nl.load(a)\nr = nl.ndarray((128, 512), dtype=a.dtype)\nh = nl.arange(256)[None, :]\n"
            "for i in nl.affine_range(2):\n    r[p, i * 256 + h] = nisa.affine_select(2 * p + 3 >= i * 256 + h, "
            "t[p, i * 256 + h], 0.5, dtype=nl.bfloat16)\nnl.store(out, r)",
            "pattern=[[-1, 256]], offset=3 - i * 256, channel_multiplier=2",
        ),
        ("t = nl.load(a)\nnl.store(out, nisa.affine_select(p != 64, t, 0.0))", "pattern=[[0, t.shape[1]]]"),
        # Rows that a tile names.
        (
            "at = nisa.iota(127 - p, dtype=np.int32)\nt = nl.load(a[at, f])\nnl.store(out[p, f], t)",
            "a.ap(pattern=[[a.shape[1], at.shape[0]], [1, 512]], vector_offset=at, indirect_dim=0)",
        ),
        (
            "q = nl.arange(64)[:, None]\ng = nl.arange(100)[None, :]\nat = nisa.iota(2 * q + 1, dtype=np.int32)\n"
            "t = nl.load(a[at[q, 0], 7 + 3 * g])\nnl.store(out, nl.load(a))\n"
            "nl.store(out[at[q, 0], 7 + 3 * g], nl.exp(t))",
            "a.ap(pattern=[[a.shape[1], 64], [3, 100]], offset=7, vector_offset=at[0:64, 0:1], indirect_dim=0)",
        ),
        # The partition dim comes first, whatever stood before it.
        (
            "t = nl.ndarray((4, par_dim(128), 128), dtype=a.dtype)\nfor i in nl.affine_range(4):\n"
            "    t[i] = nl.load(a[:, nl.ds(i * 128, 128)])\nfor i in nl.affine_range(4):\n"
            "    nl.store(out[:, nl.ds(i * 128, 128)], nl.exp(t[i]))",
            "nl.ndarray((128, 4, 128), dtype=a.dtype)",
        ),
        (
            "g = nl.arange(128)[None, :]\nt = nl.ndarray((2, 2, par_dim(128), 128), dtype=a.dtype, buffer=nl.sbuf)\n"
            "q = nl.zeros((2, par_dim(128), 128), dtype=nl.float32, buffer=nl.psum)\nfor i in nl.affine_range(2):\n"
            "    for j in nl.affine_range(2):\n        t[i, j, p, g] = nl.load(a[p, (2 * i + j) * 128 + g])\n"
            "for i in nl.affine_range(2):\n    for j in nl.affine_range(2):\n"
            "        q[i] += nisa.nc_matmul(t[i, j, p, g], t[i, j])\nnl.store(out, nl.load(a))\n"
            "for i in nl.affine_range(2):\n    nl.store(out[p, i * 128 + g], q[i, p, g])",
            "nisa.nc_matmul(q[:, i], t[0:128, i, j, 0:128], t[:, i, j])",
        ),
    ],
)
def test_index_tensors_indirect_rows_and_blocks(body: str, made: str) -> None:
    source = LEGACY + textwrap.indent(PQ + body, "    ") + "\n    return out\n"
    done, proof = ported(source, WIDE)
    assert done.unresolved == (), "\n".join(map(str, done.unresolved))
    assert proof.equal and made in done.text, done.text
    assert "arange" not in done.text


@pytest.mark.parametrize(
    ("body", "made"),
    [
        # One index tensor, along the free axis or along the partitions, of a tensor with one dim or beside a number.
        ("nl.store(out, nl.load(a) + nl.load(v[f]).broadcast_to((128, 128)))", "v[0:128].reshape((1, 128))"),
        ("nl.store(out, nl.load(a) * nl.load(v[p]))", "v[0:128].reshape((128, 1))"),
        ("nl.store(out, nl.load(a) + nl.load(a[3, f]).broadcast_to((128, 128)))", "a[3, 0:128].reshape((1, 128))"),
        ("nl.store(out, nl.load(a) * nl.load(a[3, p]))", "a[3, 0:128].reshape((128, 1))"),
        (
            "row = nl.load(v[f], mask=f < 100)\nnl.store(out, nl.load(a))\nnl.store(out[7, f], row, mask=f < 100)",
            "v[0:min(128, 100)].reshape((1, min(128, 100)))",
        ),
    ],
)
def test_parts_of_one_dim_are_rows_or_columns(body: str, made: str) -> None:
    source = LEGACY.replace("kernel(a)", "kernel(a, v)")
    axes = "p = nl.arange(128)[:, None]\nf = nl.arange(128)[None, :]\n"
    done, proof = ported(source + textwrap.indent(axes + body, "    ") + "\n    return out\n", SQUARE, SQUARE[5].copy())
    assert done.unresolved == (), "\n".join(map(str, done.unresolved))
    assert proof.equal and made in done.text, done.text


def test_statements_that_share_a_line() -> None:
    body = (
        "p = nl.arange(128)[:, None]; f = nl.arange(512)[None, :]\ng = nl.arange(512)[None, :]; t = nl.load(a[p, f])\n"
    )
    source = LEGACY + textwrap.indent(f"{body}nl.store(out[p, g], t)\n", "    ") + "    return out\n"
    done, proof = ported(source, WIDE)
    assert proof.equal and "pass; pass" not in done.text and "arange" not in done.text
    assert "pass; t = nl.load(a[0:128, 0:512])" in done.text


PQR = "p = nl.arange(128)[:, None, None]\ni = nl.arange(16)[None, :, None]\nj = nl.arange(32)[None, None, :]\n"


@pytest.mark.req("S3-03")
@pytest.mark.parametrize(
    ("body", "made"),
    [
        # Windows and other orders of elements.
        (
            "t = nl.load(a)\no = nl.ndarray((128, 512), dtype=a.dtype)\no[p, j * 16 + i] = nl.copy(t[p, i * 32 + j])\n"
            "nl.store(out, o)",
            "o.ap(pattern=[[o.strides[0], 128], [o.strides[1], 16], [16 * o.strides[1], 32]])[...] = "
            "nl.copy(t.ap(pattern=[[t.strides[0], 128], [32 * t.strides[1], 16], [t.strides[1], 32]]))",
        ),
        (
            "t = nl.load(a[p, 1 + 30 * i + j])\nnl.store(out[p, 32 * i + j], nisa.activation(nl.square, t))",
            "a.ap(pattern=[[a.strides[0], 128], [30 * a.strides[1], 16], [a.strides[1], 32]], offset=a.strides[1])",
        ),
        # The result of an instruction, and a view of a tile.
        (
            "t = nl.load(a)\no = nl.ndarray((128, 512), dtype=a.dtype)\nh = t[:, 0:512]\n"
            "o[p, j * 16 + i] = nisa.reciprocal(h[p, i * 32 + j])\nnl.store(out, o)",
            "nisa.reciprocal(o.ap(",
        ),
        # Axes in another order than the dims: what is loaded is turned.
        (
            "q = nl.arange(100)[:, None]\nr = nl.arange(128)[None, :]\nnl.store(out, nl.load(a))\n"
            "t = nl.load(a[r, q + 3])\nnl.store(out[q, r], t)",
            "a.ap(pattern=[[a.strides[1], 100], [a.strides[0], 128]], offset=3 * a.strides[1])",
        ),
    ],
)
def test_index_tensors_that_are_no_slices(body: str, made: str) -> None:
    done, proof = ported(LEGACY + textwrap.indent(PQR + body, "    ") + "\n    return out\n", WIDE)
    assert done.unresolved == (), "\n".join(map(str, done.unresolved))
    assert proof.equal and made in done.text, done.text
    assert "arange" not in done.text


def test_places_of_tensors_are_left_to_the_compiler() -> None:
    body = (
        "tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))\n"
        "bank = nl.ndarray((128, 512), dtype=nl.float32, buffer=ncc.psum.mod_alloc(base_bank=0))\n"
        "tile[...] = nl.load(a)\nbank[...] = nisa.nc_matmul(tile[:, 0:128], tile)\n"
        "tile[...] = nl.copy(bank)\nnl.store(out, tile)"
    )
    placed = (
        "@enable_stack_allocator(\n    log_level=3\n)\n@nki.compiler.skip_middle_end_transformations\n@nki.jit(mode"
    )
    source = (
        LEGACY.replace("@nki.jit(mode", placed).replace(
            "import neuronxcc.nki.isa",
            "import neuronxcc.nki.compiler as ncc\nfrom neuronxcc.nki.compiler import enable_stack_allocator\n"
            "import neuronxcc.nki.isa",
        )
        + textwrap.indent(body, "    ")
        + "\n    return out\n"
    )
    done, proof = ported(source, WIDE)
    assert done.unresolved == (), "\n".join(map(str, done.unresolved))
    assert proof.equal and "alloc" not in done.text and "\n\n@nki.jit\ndef kernel" in done.text
    assert (
        "dtype=nl.float32, buffer=nl.psum)" in done.text and "nisa.nc_matmul(bank, tile[:, 0:128], tile, " in done.text
    )


def test_calls_with_a_destination_get_operators_of_nki() -> None:
    body = (
        "tile = nl.load(a)\nkept = nl.ndarray((128, 512), dtype=a.dtype)\n"
        "nisa.tensor_scalar_cumulative(dst=kept, src=tile, op0=np.multiply, op1=np.add, imm0=2.0)\nnl.store(out, kept)"
    )
    done, proof = ported(LEGACY + textwrap.indent(body, "    ") + "\n    return out\n", WIDE)
    assert done.unresolved == () and proof.equal and "op0=nl.multiply, op1=nl.add" in done.text


def test_a_masked_store_of_what_was_computed_of_less() -> None:
    body = (
        "p, f = nl.mgrid[0:128, 0:512]\ntile = nl.load(a)\nnl.store(out, tile)\n"
        "less = nl.square(tile, mask=(p < 64) & (f < 256))\n"
        "nl.store(out[p, f], less[p, f], mask=(p < 64) & (f < 256))"
    )
    done, proof = ported(LEGACY + textwrap.indent(body, "    ") + "\n    return out\n", WIDE)
    assert done.unresolved == () and proof.equal and "less[0:min(128, 64), 0:min(512, 256)]" in done.text


def test_host_code_runs_kernels_on_the_simulator() -> None:
    host = (
        "\n    return out\n\nrun = nki.simulate_kernel\n\ndef main(a):\n    low = nl.fp32.min\n"
        "    return run(kernel, a), nki.simulate_kernel(kernel[2], a, low)\n"
    )
    done = migrate(LEGACY + "    nl.store(out, nl.load(a))" + host, "k.py")
    assert done.unresolved == (), "\n".join(map(str, done.unresolved))
    assert "run = lambda kernel, *arrays: nki.simulate(kernel)(*arrays)" in done.text
    assert "nki.simulate(kernel)[2](a, low)" in done.text and "low = -3.4028234663852886e+38" in done.text


def test_tensors_in_hbm_keep_their_dims() -> None:
    """par_dim says nothing there."""
    source = LEGACY.replace("a.shape, dtype", "(4, par_dim(32), 512), dtype") + (
        "    for i in nl.affine_range(4):\n        nl.store(out[i], nl.load(a[nl.ds(i * 32, 32), :]))\n    return out\n"
    )
    done, proof = ported(source, WIDE)
    assert done.unresolved == () and proof.equal and "nl.ndarray((4, 32, 512)" in done.text


def test_what_is_returned_is_shared() -> None:
    source = LEGACY.replace("nl.shared_hbm", "nl.hbm") + "    nl.store(out, nl.load(a))\n    return out\n"
    done, proof = ported(source, WIDE)
    assert proof.equal and "buffer=nl.shared_hbm" in done.text


def test_quotients_are_products_with_reciprocals() -> None:
    """NKI has no quotient of tiles any more: the results differ in the last bit, and the proof says by how much."""
    _, proof = ported(LEGACY + "    tile = nl.load(a)\n    nl.store(out, tile / nl.exp(tile))\n    return out\n", WIDE)
    assert not proof.equal and 0 < proof.difference < 1e-6


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("tile = nl.ndarray((4, par_dim(32), 512), dtype=a.dtype)\nother = nl.exp(tile)", 12),
        ("tile = nl.ndarray((4, par_dim(32), 512), dtype=a.dtype)\nother = nl.exp(tile[0:2])", 12),
        ("p = nl.arange(128)[:, None]\ntile = nl.load(a)\ntile = nl.exp(tile, mask=p > 64)", 13),
        ("p = nl.arange(128)[:, None]\nm = p < 64\nprint(m)", 13),
        ("p = nl.arange(128)[:, None]\ntile = nl.load(a)\ntile = nl.exp(tile, mask=2 * p < 64)", 13),
        ("p = nl.arange(128)[:, None]\ntile = nl.load(a)\nx = nisa.nc_matmul(tile, tile, mask=p < 64)", 13),
        ("p = nl.arange(128)[:, None]\ntile = nl.load(a)\ntile = nl.exp(tile[0], mask=p < 64)", 13),
        ("i = nl.arange(4)[None, :]\nx = nisa.iota(i * i, dtype=nl.int32)", 12),
        ("p = nl.arange(128)[:, None]\nx = nisa.affine_select(p != 64, nl.load(a), 0.0)", 12),
        ("p, f = nl.mgrid[0:128, 0:512]\nx = nisa.affine_select((p < f) & (p > 3), nl.load(a), 0.0)", 12),
        ("p = nl.arange(4)[:, None]\nf = nl.arange(4)[None, :]\ntile = nl.load(a)\nx = nl.exp(tile[f, p])", 14),
        ("tile = nl.load(a)\nx = nisa.dma_copy(dst=out, src=tile, dst_rmw_op=np.add)", 12),
        ("p = nl.arange(4)[:, None]\nat = nl.load(a[p])\ntile = nl.load(a[at[p, 0], 0:512])", 13),
        ("p = nl.arange(4)[:, None]\nat = nl.load(a[p, 0:1])\ntile = nl.load(a[at[p, 0], at[p, 0]])", 13),
        ("tile = nl.load(a)\nx = nisa.local_gather(tile, nl.load(a), 1, 16)", 12),
        ("tile = nl.load(a)\nx = nisa.nc_matmul(tile, tile, perf_mode='double_row_gen3')", 12),
        ("i = nl.program_id(1)", 11),
        ("tile = nl.load(a)\nif nl.max(tile, axis=1) > 0:\n    tile[...] = nl.exp(tile)", 12),
        ("x = nl.shared_constant(np.eye(4), dtype=nl.float32)", 11),
    ],
)
def test_what_needs_its_author_is_reported(body: str, line: int) -> None:
    done = migrate(LEGACY + textwrap.indent(body, "    ") + "\n    return out\n", "k.py")
    assert line in [found.location.line for found in done.unresolved if found.location is not None]
    assert {found.code for found in done.unresolved} == {"W201"}


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "k.py"
    script.write_text(LEGACY + "    nl.store(out, nl.load(a) + 1.0)\n    return out\n")
    tilewright = CommandLine(capsys)
    shown = tilewright("migrate --kernel kernel --shape a=128x64:float32", script)
    assert shown.code == 0 and "+    nl.store(out, nl.add(nl.load(a), 1.0))" in shown.out
    assert "kernel: results are unchanged, bit for bit" in shown.err
    document: Any = tilewright("migrate --json --kernel kernel --shape a=8x8:float32", script).json
    assert document[str(script)]["proof"] == {"kernel": "kernel", "equal": True, "difference": 0.0}


def test_what_the_rest_of_a_file_names_is_reported() -> None:
    """Host code is the author's, and so is a kernel without arguments; another name of a decorator is rewritten."""
    source = (
        "import neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\nfrom neuronxcc.nki import benchmark\n\n"
        "traced = nki.trace\n\n\n@traced\ndef kernel(a, out):\n    nl.store(out, nl.load(a))\n\n\n"
        "@nki.jit\ndef nothing():\n    return nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)\n\n\n"
        "def main(a):\n    nki.benchmark(kernel)(a, a)\n"
    )
    done = migrate(source, "k.py")
    assert sorted(found.location.line for found in done.unresolved if found.location is not None) == [3, 14, 19]
    assert "traced = nki.jit" in done.text


ENDED = """
    rows = nl.load(b)
    wide = rows.broadcast_to((128, 512))
    ix, iy = nl.mgrid[0:128, 0:512]
    for i in nl.affine_range(2):
        inside = i * 128 + ix < a.shape[0]
        tile = nl.load(a[i * 128 + ix, iy], mask=inside)
        scaled = tile * nl.rsqrt(nl.mean(nl.square(tile), axis=1) + 1e-6)
        nl.store(out[i * 128 + ix, iy], wide + scaled * wide, mask=inside)
    return out
"""
SUMS = """
    for m in nl.affine_range(2):
        psum = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
        for k in nl.affine_range(1):
            psum[...] += nl.matmul(nl.load(b[0:128, 0:128], dtype=a.dtype), nl.load(a[m * 128:(m + 1) * 128, :]))
        nl.store(out[m * 128:(m + 1) * 128, :], nl.copy(psum))
    return out
"""
CHOSEN = """
    ip, ix = nl.arange(128)[:, None], nl.arange(512)[None, :]
    for m in nl.affine_range(2):
        tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf, name="tile")
        tile[...] = nl.load(a[m * 128:(m + 1) * 128, :])
        psum = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        psum[...] = nisa.nc_matmul(nl.load(b[0:128, 0:128]), tile)
        tile[...] = nisa.affine_select(pred=(ip >= ix), on_true_tile=psum[ip, ix], on_false_value=-1.0)
        nl.store(out[m * 128:(m + 1) * 128, :], tile)
    return out
"""


@pytest.mark.parametrize(
    ("body", "rows", "second"),
    [(ENDED, 150, RANDOM.random((1, 512))), (SUMS, 256, SQUARE), (CHOSEN, 256, SQUARE)],
    ids=["tiles that a mask ends", "products that are added up", "operands in PSUM, names in loops"],
)
def test_kernels_as_others_publish_them(body: str, rows: int, second: np.ndarray) -> None:
    """Layer norms with a last tile of fewer rows, sums of nl.matmul, causal attention."""
    source = LEGACY.replace("def kernel(a)", "def kernel(a, b)") + body
    done = migrate(source)
    data = RANDOM.standard_normal((rows, 512)).astype(np.float32)
    assert not done.unresolved
    proof = prove(source, done.text, "kernel", [data, second.astype(np.float32)], {}, "trn2")
    assert proof.equal, proof


def test_index_tensors_that_a_helper_makes_are_reported() -> None:
    helper = "\n\ndef index(n):\n    return nl.arange(n)[:, None]\n"
    done = migrate(LEGACY + "    nl.store(out[index(128), 0], nl.load(a[index(128), 0]))\n    return out\n" + helper)
    assert [(found.code, found.message) for found in done.unresolved] == [("W201", "an index tensor stays")]
    assert done.unresolved[0].location is not None and done.unresolved[0].location.line == done.source.count("\n")
