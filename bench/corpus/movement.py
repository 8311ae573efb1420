"""Programs that move, gather, search and convolve."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

import tilewright as tw
from bench.corpus.program import Arrays, Program, normal


def shuffle(a, b):
    """Joined, cut into four, and stacked in another order."""
    quarters = np.split(np.concatenate([a, b], axis=1), 4, axis=1)
    return np.concatenate([quarters[i] for i in (3, 1, 2, 0)], axis=0)


def best_by_sorting(k: int):
    """The k largest of every row and where they are, by a stable sort."""

    def best(x):
        order = np.argsort(-x, axis=-1, kind="stable")[:, :k]
        return np.take_along_axis(x, order, axis=-1), order.astype(np.uint32)

    return best


def conv_by_patches(x, weight):
    """A 3x3 convolution with one element of padding, by the product of all patches with all weights."""
    patches = sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), weight.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", patches, weight, optimize=True)


def _table() -> Arrays:
    return normal(32000, 1024), np.random.default_rng(1).integers(0, 32000, 512).astype(np.int32)


PROGRAMS = [
    Program("transpose_2048x2048", lambda x: np.transpose(x), lambda: (normal(2048, 2048),)),
    Program("transpose4d_2x100x8x64_0132", lambda x: np.transpose(x, (0, 1, 3, 2)), lambda: (normal(2, 100, 8, 64),)),
    Program("reduce_sum_axis0_4096x1024", lambda x: np.sum(x, axis=0), lambda: (normal(4096, 1024),)),
    Program("concat_split_512x1024", shuffle, lambda: (normal(512, 1024), normal(512, 1024, seed=1))),
    Program("cumsum_256x1024", lambda x: np.cumsum(x, axis=-1), lambda: (normal(256, 1024),)),
    Program("argmax_512x4096", lambda x: np.argmax(x, axis=-1), lambda: (normal(512, 4096),)),
    Program("topk8_256x4096", lambda x: tw.topk(x, 8), lambda: (normal(256, 4096),), best_by_sorting(8)),
    Program("topk32_256x4096", lambda x: tw.topk(x, 32), lambda: (normal(256, 4096),), best_by_sorting(32)),
    Program("embedding_take_32000x1024_512", lambda table, rows: np.take(table, rows, axis=0), _table),
    Program("embedding_index_32000x1024_512", lambda table, rows: table[rows], _table),
    Program(
        "conv2d_1x64x56x56_64x3x3",
        lambda x, weight: tw.conv(x, weight, padding=1),
        lambda: (normal(1, 64, 56, 56), normal(64, 64, 3, 3, scale=1 / 24, seed=1)),
        conv_by_patches,
    ),
]
