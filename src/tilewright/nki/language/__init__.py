"""nki.language: tensors, loops, dtypes, and functions on tiles that are also the operators nki.isa takes.

As in NKI, `abs`, `all`, `bool`, `max`, `min`, `range` and `sum` of this module are not Python's.
"""

from __future__ import annotations

import builtins as _builtins
from types import FunctionType as _Function
from typing import TYPE_CHECKING as _TYPE_CHECKING

from tilewright.nki.binding import bound as _bound
from tilewright.nki.language import dtypes
from tilewright.nki.language.creation import (
    ds,
    empty_like,
    full,
    ndarray,
    ones,
    shared_constant,
    shared_identity_matrix,
    zeros,
    zeros_like,
)
from tilewright.nki.language.dtypes import *  # noqa: F403
from tilewright.nki.language.dtypes import bool_
from tilewright.nki.language.load_store import (
    load,
    load_transpose2d,
    store,
)
from tilewright.nki.language.loops import (
    affine_range,
    dynamic_range,
    fori_loop,
    sequential_range,
    static_range,
    while_loop,
)
from tilewright.nki.language.math import (
    abs,
    abs_max,
    abs_min,
    add,
    arctan,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    copy,
    divide,
    equal,
    erf,
    erf_dx,
    exp,
    gelu,
    gelu_apprx_sigmoid,
    gelu_apprx_sigmoid_dx,
    gelu_apprx_tanh,
    gelu_dx,
    greater,
    greater_equal,
    invert,
    left_shift,
    less,
    less_equal,
    log,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    mish,
    multiply,
    negative,
    not_equal,
    power,
    reciprocal,
    relu,
    right_shift,
    rsqrt,
    sigmoid,
    sign,
    silu,
    silu_dx,
    softplus,
    sqrt,
    square,
    subtract,
    tanh,
)
from tilewright.nki.language.matrix import (
    broadcast_to,
    expand_dims,
    gather_flattened,
    matmul,
    transpose,
    where,
)
from tilewright.nki.language.memory import (
    MemoryRegion,
    hbm,
    is_hbm,
    is_on_chip,
    is_psum,
    is_sbuf,
    private_hbm,
    psum,
    sbuf,
    shared_hbm,
    tile_size,
)
from tilewright.nki.language.operators import (
    average,
    bypass,
    prelu,
)
from tilewright.nki.language.program import (
    device_print,
    no_reorder,
    num_programs,
    program_id,
    program_ndim,
)
from tilewright.nki.language.random import (
    dropout,
    rand,
    random_seed,
)
from tilewright.nki.language.reductions import (
    all,
    max,
    mean,
    min,
    prod,
    rms_norm,
    softmax,
    sum,
    var,
)
from tilewright.nki.language.rounding import (
    ceil,
    floor,
    fmod,
    mod,
    trunc,
)
from tilewright.nki.language.trig import (
    cos,
    sin,
    tan,
)
from tilewright.nki.missing import missing_in_language as _missing
from tilewright.nki.tensor import (
    NKIObject,
    NkiTensor,
)

# Names that published kernels use and the documentation does not list.
bool = bool_
range = _builtins.range

# A call that does not fit its function gets a diagnostic; operators see to that themselves.
globals().update(
    {
        name: _bound(each, f"nl.{name}")
        for name, each in [*globals().items()]
        if isinstance(each, _Function) and not name.startswith("_")
    }
)

__all__ = [
    "MemoryRegion",
    "NKIObject",
    "NkiTensor",
    "abs",
    "abs_max",
    "abs_min",
    "add",
    "affine_range",
    "all",
    "arctan",
    "average",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bool",
    "broadcast_to",
    "bypass",
    "ceil",
    "copy",
    "cos",
    "device_print",
    "divide",
    "dropout",
    "ds",
    "dtypes",
    "dynamic_range",
    "empty_like",
    "equal",
    "erf",
    "erf_dx",
    "exp",
    "expand_dims",
    "floor",
    "fmod",
    "fori_loop",
    "full",
    "gather_flattened",
    "gelu",
    "gelu_apprx_sigmoid",
    "gelu_apprx_sigmoid_dx",
    "gelu_apprx_tanh",
    "gelu_dx",
    "greater",
    "greater_equal",
    "hbm",
    "invert",
    "is_hbm",
    "is_on_chip",
    "is_psum",
    "is_sbuf",
    "left_shift",
    "less",
    "less_equal",
    "load",
    "load_transpose2d",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mish",
    "mod",
    "multiply",
    "ndarray",
    "negative",
    "no_reorder",
    "not_equal",
    "num_programs",
    "ones",
    "power",
    "prelu",
    "private_hbm",
    "prod",
    "program_id",
    "program_ndim",
    "psum",
    "rand",
    "random_seed",
    "range",
    "reciprocal",
    "relu",
    "right_shift",
    "rms_norm",
    "rsqrt",
    "sbuf",
    "sequential_range",
    "shared_constant",
    "shared_hbm",
    "shared_identity_matrix",
    "sigmoid",
    "sign",
    "silu",
    "silu_dx",
    "sin",
    "softmax",
    "softplus",
    "sqrt",
    "square",
    "static_range",
    "store",
    "subtract",
    "sum",
    "tan",
    "tanh",
    "tile_size",
    "transpose",
    "trunc",
    "var",
    "where",
    "while_loop",
    "zeros",
    "zeros_like",
]
__all__ += dtypes.__all__


# Hidden from type checkers, which would take every name for one of the module's.
if not _TYPE_CHECKING:

    def __getattr__(name):
        """Names that the module does not have."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise _missing(name, __all__)
