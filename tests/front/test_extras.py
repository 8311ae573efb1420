"""Functions that NumPy lacks on arrays that the traced function makes: with traced data in them, or before that."""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tests.front.kit import check

X = np.array([[1, -2], [3, 4]], np.float32)


def test_functions_of_networks():
    def call(x):
        b = np.zeros((2, 4), np.float32)
        b[:, :2] = x
        c = tw.nn.softmax(np.ones((2, 4), np.float32))
        c[0, 0] = x[0, 0]
        d = tw.nn.relu(np.ones(3, np.float32))
        d[0] = x[0, 0]
        norms = tw.nn.layer_norm(b, b[0], b[1]), tw.nn.rms_norm(b, b[0])
        return tw.nn.softmax(b), tw.nn.relu(b), tw.nn.gelu(b), norms, c, d

    check(call, X, rtol=1e-5, atol=1e-6)


def test_windows_systems_and_order():
    def call(x):
        b = np.zeros((1, 2, 4), np.float32)
        b[:, :, :2] = x
        w = np.ones((3, 2, 2), np.float32)
        plain = tw.conv(b, w)
        w[0, 0] = x[0]
        m = np.eye(2, dtype=np.float32) * 2
        m[1] = x[1]
        best = tw.topk(np.arange(5.0), 2)[0]
        best[0] = x[0, 0]
        pools = tw.max_pool(b, 2), tw.avg_pool(b, 2)
        return plain, tw.conv(b, w), pools, tw.linalg.solve_triangular(m, x, lower=True), np.linalg.inv(m), best

    check(call, X, rtol=1e-4, atol=1e-6)
