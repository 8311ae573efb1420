"""Ops that no group computes, each with the function that lowers it by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPECIAL: dict[str, Callable[[Any, Any], None]] = {}
"""Op name -> function(lowering, op)."""
