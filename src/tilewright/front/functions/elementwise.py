"""Elementwise functions."""

from __future__ import annotations

import numpy as np

from tilewright.front.ufunc import elementwise

elementwise(np.add, "add")
elementwise(np.multiply, "multiply")
elementwise(np.exp, "exp")
