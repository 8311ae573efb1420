"""tilewright: NumPy programs to verified Trainium kernels; run, check and time NKI kernels anywhere."""

from tilewright.activate import activate
from tilewright.api import profile, simulate, verify
from tilewright.errors import Diagnostic, TileError
from tilewright.report.resources import Report
from tilewright.spec import spec
from tilewright.target import get_target

__version__ = "0.1.0"

__all__ = [
    "Diagnostic",
    "Report",
    "TileError",
    "__version__",
    "activate",
    "get_target",
    "profile",
    "simulate",
    "spec",
    "verify",
]
