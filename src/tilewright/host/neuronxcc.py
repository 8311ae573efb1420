"""neuronxcc: the package whose `nki` is the legacy dialect."""

from __future__ import annotations

import importlib
import logging
from typing import Any

# A level above all others, which the package adds: scripts silence its compiler with logging.disable(logging.OFF).
logging.OFF = logging.CRITICAL + 10  # type: ignore[attr-defined]
logging.addLevelName(logging.CRITICAL + 10, "OFF")


def __getattr__(name: str) -> Any:
    """`from neuronxcc import nki`, which finds no package path here."""
    if name != "nki":
        raise AttributeError(name)
    return importlib.import_module("neuronxcc.nki")
