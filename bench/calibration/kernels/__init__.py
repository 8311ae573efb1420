"""The measured kernels, written again. Each file is an NKI script as users write one: it imports `nki`.

`load("matmul_blocked.blocked")` gives a kernel; `import nki` in its file then means tilewright, whatever is installed.
"""

from __future__ import annotations

import importlib

import tilewright
from tilewright.nki.kernel import Kernel


def load(name: str) -> Kernel:
    """The kernel `file.function` of this folder."""
    tilewright.activate(force=True)
    file, _, function = name.partition(".")
    kernel = getattr(importlib.import_module(f"{__name__}.{file}"), function)
    assert isinstance(kernel, Kernel), f"{name} is not a kernel"
    return kernel
