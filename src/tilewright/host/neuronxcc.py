"""neuronxcc: the package whose `nki` is the legacy dialect."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """`from neuronxcc import nki`, which finds no package path here."""
    if name != "nki":
        raise AttributeError(name)
    return importlib.import_module("neuronxcc.nki")
