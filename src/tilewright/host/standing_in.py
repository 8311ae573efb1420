"""What stand-ins share: they need torch, and refuse by name what they do not pretend."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from tilewright.errors import TileAttributeError, TileImportError, fail


def with_torch(package: str) -> Any:
    """The module of tensors on a lazy device; an ImportError where torch is not installed."""
    if importlib.util.find_spec("torch") is None:
        raise fail("E501", f"{package} needs torch", hint="pip install 'tilewright[torch]'", error=TileImportError)
    return importlib.import_module("tilewright.host.torch_tensors")


def missing_name(package: str, name: str, has: str) -> Exception:
    """The error for a name of a package that its stand-in does not have."""
    if name.startswith("__"):
        # What Python asks modules for by itself.
        return AttributeError(name)
    hint = f"of {package} there is {has}"
    return fail(
        "E501", f"{package}.{name} is not part of the stand-in for {package}", hint=hint, error=TileAttributeError
    )
