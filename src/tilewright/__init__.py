"""tilewright: NumPy programs to verified Trainium kernels; run, check and time NKI kernels anywhere."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilewright.activate import activate
from tilewright.errors import Diagnostic, TileError
from tilewright.spec import spec
from tilewright.target import get_target

if TYPE_CHECKING:
    from tilewright import kernels
    from tilewright.api import compile, jit, parse, profile, simulate, verify
    from tilewright.diagnose.bisection.search import bisect
    from tilewright.diagnose.divergence import first_divergence
    from tilewright.diagnose.ranges import ranges
    from tilewright.front.functions import dist, linalg, nn, random
    from tilewright.front.functions.positions import nonzero, unique
    from tilewright.front.functions.sort import topk
    from tilewright.front.functions.window import avg_pool, conv, max_pool
    from tilewright.lower.schedule.data import Schedule
    from tilewright.programs.capture import barrier
    from tilewright.programs.program import program
    from tilewright.programs.saving import load_program
    from tilewright.report.resources import Report

__version__ = "0.1.0"

__all__ = [
    "Diagnostic",
    "Report",
    "Schedule",
    "TileError",
    "__version__",
    "activate",
    "avg_pool",
    "bisect",
    "barrier",
    "compile",
    "conv",
    "dist",
    "first_divergence",
    "get_target",
    "jit",
    "kernels",
    "linalg",
    "load_program",
    "max_pool",
    "nn",
    "nonzero",
    "parse",
    "profile",
    "program",
    "random",
    "ranges",
    "simulate",
    "spec",
    "topk",
    "unique",
    "verify",
]

# What needs the simulator is imported when it is first asked for: `import tilewright` stays quick.
_LATER = {
    "Report": "tilewright.report.resources",
    "Schedule": "tilewright.lower.schedule.data",
    "barrier": "tilewright.programs.capture",
    "avg_pool": "tilewright.front.functions.window",
    "bisect": "tilewright.diagnose.bisection.search",
    "compile": "tilewright.api",
    "conv": "tilewright.front.functions.window",
    "dist": "tilewright.front.functions",
    "first_divergence": "tilewright.diagnose.divergence",
    "jit": "tilewright.api",
    "kernels": "tilewright.kernels",
    "linalg": "tilewright.front.functions",
    "load_program": "tilewright.programs.saving",
    "max_pool": "tilewright.front.functions.window",
    "nn": "tilewright.front.functions",
    "nonzero": "tilewright.front.functions.positions",
    "parse": "tilewright.api",
    "profile": "tilewright.api",
    "program": "tilewright.programs.program",
    "random": "tilewright.front.functions",
    "ranges": "tilewright.diagnose.ranges",
    "simulate": "tilewright.api",
    "topk": "tilewright.front.functions.sort",
    "unique": "tilewright.front.functions.positions",
    "verify": "tilewright.api",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
    module = import_module(_LATER[name])
    value = module if name == "kernels" else getattr(module, name)
    globals()[name] = value
    return value
