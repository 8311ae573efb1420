"""nki.language has every documented function with its parameters, and nothing that is not meant to be seen."""

from __future__ import annotations

import inspect
import pickle
import types

import pytest

from tests.kit import nl

PARAMETERS = {
    "x y dtype": "add subtract multiply divide maximum minimum abs_max abs_min power equal not_equal less less_equal "
    "greater greater_equal bitwise_and bitwise_or bitwise_xor left_shift right_shift logical_and logical_or "
    "logical_xor fmod mod",
    "x dtype": "abs square invert logical_not exp log sqrt rsqrt tanh sigmoid relu gelu gelu_apprx_sigmoid "
    "gelu_apprx_tanh gelu_dx gelu_apprx_sigmoid_dx silu silu_dx softplus mish erf erf_dx reciprocal copy sin cos tan "
    "arctan ceil floor trunc negative sign transpose",
    "x axis dtype keepdims": "sum max min mean prod var",
    "x axis dtype": "all softmax",
    "x w axis n epsilon dtype compute_dtype": "rms_norm",
    "condition x y dtype": "where",
    "x rate dtype": "dropout",
    "shape dtype buffer name": "ones zeros rand",
    "shape fill_value dtype buffer name": "full",
    "shape dtype buffer name address": "ndarray",
    "x dtype buffer name": "zeros_like empty_like",
    "seed": "random_seed",
    "x axis": "expand_dims",
    "x shape dtype": "broadcast_to",
    "x y transpose_x": "matmul",
    "": "no_reorder program_ndim",
    "src dtype": "load load_transpose2d",
    "dst value": "store",
    "data indices axis dtype": "gather_flattened",
    "start size": "ds",
    "start stop step": "affine_range sequential_range static_range dynamic_range",
    "lower upper body_fun step": "fori_loop",
    "init body_fun": "while_loop",
    "axis": "program_id",
    "axes": "num_programs",
    "constant": "shared_constant",
    "n dtype dst": "shared_identity_matrix",
    "print_prefix tensor": "device_print",
    "buffer": "is_hbm is_on_chip is_psum is_sbuf",
}
FUNCTIONS = {name: tuple(parameters.split()) for parameters, names in PARAMETERS.items() for name in names.split()}
DEFAULTS = {
    "softmax": {"axis": -1},
    "rms_norm": {"epsilon": 1e-06, "dtype": None, "compute_dtype": None},
    "matmul": {"transpose_x": False},
    "gather_flattened": {"axis": 0, "dtype": None},
    "sum": {"dtype": None, "keepdims": False},
    "ndarray": {"buffer": nl.sbuf, "name": "", "address": None},
    "zeros": {"buffer": nl.sbuf, "name": ""},
    "zeros_like": {"dtype": None, "buffer": None, "name": ""},
    "program_id": {"axis": 0},
    "num_programs": {"axes": 0},
    "shared_identity_matrix": {"dtype": nl.uint8, "dst": None},
    "static_range": {"stop": None, "step": 1},
    "load": {"dtype": None},
    "add": {"dtype": None},
}
VALUES = {
    "operators": "average prelu bypass",
    "memories": "sbuf psum hbm private_hbm shared_hbm tile_size",
    "classes": "MemoryRegion NKIObject NkiTensor DType",
    "integers": "bool_ int8 int16 int32 uint8 uint16 uint32",
    "floats": "float16 float32 bfloat16 tfloat32 float8_e4m3 float8_e4m3fn float8_e5m2 float8_e8m0fnu",
    "packed": "float8_e5m2_x4 float8_e4m3fn_x4 float4_e2m1fn_x4",
    "published kernels use": "bool dtypes range",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parameters(name):
    signature = inspect.signature(getattr(nl, name))
    assert tuple(signature.parameters) == FUNCTIONS[name]
    for parameter, default in DEFAULTS.get(name, {}).items():
        assert signature.parameters[parameter].default == default
    assert getattr(nl, name).__doc__


def test_names():
    assert sorted(nl.__all__) == sorted({*FUNCTIONS, *" ".join(VALUES.values()).split()})
    for name in nl.__all__:
        assert hasattr(nl, name)


def test_no_private_names_leak():
    extra = {name for name in vars(nl) if not name.startswith("_")} - set(nl.__all__)
    assert all(isinstance(vars(nl)[name], types.ModuleType) or name == "annotations" for name in extra), extra


def test_every_operator_pickles():
    from tilewright.nki.language.operators import OPERATORS

    for name, operator in OPERATORS.items():
        assert getattr(nl, name) is operator and pickle.loads(pickle.dumps(operator)) is operator
