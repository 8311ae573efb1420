"""What notebooks show of a kernel."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from html import escape
from typing import Any


def kernel_html(name: str, function: Callable[..., Any]) -> str:
    """Signature, docstring and source."""
    said = inspect.getdoc(function) or ""
    try:
        listed = inspect.getsource(function)
    except (OSError, TypeError):  # made by a program: there is no text of it
        listed = ""
    title = f"<b>nki kernel</b> <code>{escape(name + str(inspect.signature(function)))}</code>"
    folded = f"<details><summary>source</summary><pre>{escape(listed)}</pre></details>" if listed else ""
    return f"{title}<p>{escape(said)}</p>{folded}"
