"""Random numbers: rng, rand2, dropout, and the states of the generators."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.target import Target
from tilewright.tile.attrs import engine, enum
from tilewright.tile.common import column, dtype_in, same_dtype, same_layout, same_partitions
from tilewright.tile.cost import elements, gpsimd, vector_rate
from tilewright.tile.memory import PSUM, SBUF
from tilewright.tile.record import Call, Cost, Verdict, check, f32, instr, result, source
from tilewright.tile.view import View
from tilewright.tile.xorwow import WORDS, draw, seed, states, uniform

INTEGERS = ("int8", "int16", "int32", "uint8", "uint16", "uint32")
UNIFORM = ("float8_e4m3", "float8_e5m2", "float16", "bfloat16", "float32", "tfloat32", *INTEGERS)


def on_vector(call: Call) -> str:
    return "vector"


def random_cost(call: Call) -> Cost:
    """N numbers on either engine."""
    return gpsimd(call, "random", elements(call)) if call.engine == "gpsimd" else vector_rate("random")(call)


# rng.


@check("R-rng-02")
def rng_engine(call: Call) -> Verdict:
    if call.engine not in ("vector", "gpsimd"):
        return f"cannot run on the {call.engine} engine, only vector or gpsimd"
    if call.engine == "gpsimd" and not call.target["features.rng_gpsimd"]:
        return f"GpSimd of {call.target.name} has no generator", "leave the engine out"
    if call.engine == "gpsimd" and call.dst.memory is PSUM:
        return "dst is in psum, which GpSimd cannot access", "leave the engine out, or write to sbuf"
    return None


@check("R-rng-03")
def rng_partitions(call: Call) -> Verdict:
    most = call.target["limits.partitions"]
    return None if call.dst.partitions <= most else f"dst has {call.dst.partitions} partitions; the maximum is {most}"


@instr(
    nki="dst engine name",
    operands={"dst": result("R-err-unsupported_memory-01")},
    attrs={"engine": enum(engine, "vector")},
    engines=("vector", "gpsimd"),
    engine=lambda call: call.target["engines.rng"],
    since=2,
    rules=(dtype_in("R-rng-01", "dst", INTEGERS), rng_engine, rng_partitions),
    flow="elementwise",
    cost=random_cost,
    coincides={"dst": ()},
)
def rng(
    shape: tuple[int, ...], dtype: DType, lane: int, target: Target, state: dict[str, Any], resolved_engine: str
) -> np.ndarray:
    """dst[p, f] = the lowest bits of the next 32 random ones of lane p"""
    held = states(state, resolved_engine, target)[lane : lane + shape[0]]
    return draw(held, prod(shape[1:])).astype(f"u{dtype.itemsize}").view(dtype.np)


# rand2.


@instr(
    nki="dst min max name",
    operands={
        "dst": result("R-err-unsupported_memory-01"),
        "min": source("R-err-unsupported_memory-01", number=True, layout="column", defined=True),
        "max": source("R-err-unsupported_memory-01", number=True, layout="column", defined=True),
    },
    attrs={},
    engines=("vector",),
    engine=on_vector,
    since=4,
    since_rule="R-rand2-01",
    rules=(
        dtype_in("R-rand2-03", "dst", UNIFORM),
        dtype_in("R-rand2-03", "min", ("float32",)),
        dtype_in("R-rand2-03", "max", ("float32",)),
        column("R-rand2-02", "min", "dst"),
        column("R-rand2-02", "max", "dst"),
    ),
    flow="elementwise",
    cost=vector_rate("random"),
    coincides={"dst": ("min", "max")},
    dynamic_rules=("R-rand2-02",),
)
def rand2(
    min: Any,
    max: Any,
    shape: tuple[int, ...],
    lane: int,
    target: Target,
    state: dict[str, Any],
    resolved_engine: str,
    report: Any,
) -> np.ndarray:
    """dst[p, f] = min[p] + (max[p] - min[p]) * u, where u is uniform in [0, 1)"""
    low, high = f32(min), f32(max)
    if not np.all(low < high):
        report("R-rand2-02", "rand2: min is not below max", hint="numbers are drawn from the range [min, max]")
    held = states(state, resolved_engine, target)[lane : lane + shape[0]]
    return low + (high - low) * uniform(draw(held, prod(shape[1:])))


# dropout.


@check("R-dropout-02")
def probability_type(call: Call) -> Verdict:
    prob = call.prob
    if not isinstance(prob, View):
        return None
    if call.data.dtype.is_float and not prob.dtype.is_float:
        return f"prob is {prob.dtype}; with {call.data.dtype} data it must be a float"
    if not call.data.dtype.is_float and prob.dtype != "float32":
        return f"prob is {prob.dtype}; with {call.data.dtype} data it must be float32"
    return None


@instr(
    nki="dst data prob name",
    operands={
        "dst": result("R-err-unsupported_memory-01"),
        "data": source("R-err-unsupported_memory-01"),
        "prob": source("R-err-unsupported_memory-01", number=True, layout="column", defined=True),
    },
    attrs={},
    engines=("vector",),
    engine=on_vector,
    since=2,
    rules=(
        same_partitions("R-engine-05", "data", "dst"),
        same_layout("R-dropout-03", "data", "dst"),
        same_dtype("R-dropout-01", "data", "dst"),
        column("R-dropout-03", "prob", "data"),
        probability_type,
    ),
    flow="elementwise",
    cost=vector_rate("dropout"),
    coincides={"dst": ("data", "prob")},
)
def dropout(
    data: np.ndarray, prob: Any, lane: int, target: Target, state: dict[str, Any], resolved_engine: str
) -> np.ndarray:
    """dst[p, f] = 0 with probability prob[p], else data[p, f]"""
    held = states(state, resolved_engine, target)[lane : lane + len(data)]
    kept = uniform(draw(held, data.shape[1])) >= f32(prob)
    return np.where(kept, data, np.zeros((), data.dtype))


# Seeds and states.


@check("R-set_rng_seed-01")
def one_seed(call: Call) -> Verdict:
    seeds = call.src_seeds
    if seeds.sizes != (1, 1) or seeds.dtype.itemsize != 4:
        return f"src_seeds is {seeds.dtype}{list(seeds.sizes)}; it must be a 32-bit tile of shape [1, 1]"
    return None


@instr(
    nki="src_seeds name",
    operands={"src_seeds": source("R-set_rng_seed-01", defined=True)},
    attrs={},
    engines=("vector",),
    engine=on_vector,
    since=2,
    rules=(one_seed,),
    flow="elementwise",
    cost=vector_rate("random"),
    coincides={},
)
def set_rng_seed(src_seeds: np.ndarray, target: Target, state: dict[str, Any], resolved_engine: str) -> tuple[()]:
    """generators of all lanes of the Vector engine = what the seed says"""
    seed(state, resolved_engine, int(np.ascontiguousarray(src_seeds).view(np.uint32)[0, 0]), target)
    return ()


@check("R-rand_state-01")
def state_engine(call: Call) -> Verdict:
    if call.engine not in ("vector", "gpsimd"):
        return f"cannot run on the {call.engine} engine, only gpsimd or vector"
    if call.engine == "vector" and not call.target["features.rand_state_vector"]:
        return f"the Vector engine of {call.target.name} keeps its state to itself", "choose nisa.engine.gpsimd"
    return None


@check("R-rand_state-02")
def state_type(call: Call) -> Verdict:
    ((name, view),) = call.tensors()
    if view.dtype != "uint32" or view.ndim != 2:
        return f"{name} is {view.dtype}{list(view.sizes)}; it must be uint32 with two dims"
    return None


@check("R-rand_state-03")
def state_size(call: Call) -> Verdict:
    ((name, view),) = call.tensors()
    key = f"limits.rand_state_{call.engine}"
    if call.engine in ("vector", "gpsimd") and view.free != call.target[key]:
        return f"{name} has {view.free} elements per partition; a state of {call.engine} has {call.target[key]}"
    return None


@check("R-rand_state-04")
def state_in_sbuf(call: Call) -> Verdict:
    if call.dst.memory is PSUM and (call.engine == "gpsimd" or not call.target["features.rand_get_state_psum"]):
        return f"dst is in psum, where {call.engine} of {call.target.name} cannot store its state", "use a tile in sbuf"
    return None


@instr(
    nki="src_seeds engine name",
    operands={"src_seeds": source("R-rand_state-04", (SBUF,), defined=True)},
    attrs={"engine": enum(engine, "gpsimd")},
    engines=("gpsimd", "vector"),
    engine=lambda call: call.target["engines.rand_set_state"],
    since=3,
    since_rule="R-rand_state-01",
    rules=(state_engine, state_type, state_size),
    flow="elementwise",
    cost=random_cost,
    coincides={},
)
def rand_set_state(
    src_seeds: np.ndarray, lane: int, target: Target, state: dict[str, Any], resolved_engine: str
) -> tuple[()]:
    """generators of lane p = src_seeds[p, :]"""
    held = states(state, resolved_engine, target)[lane : lane + len(src_seeds)]
    held[...] = src_seeds.reshape(len(src_seeds), -1, WORDS)
    return ()


@instr(
    nki="dst engine name",
    operands={"dst": result("R-rand_state-04")},
    attrs={"engine": enum(engine, "gpsimd")},
    engines=("gpsimd", "vector"),
    engine=lambda call: call.target["engines.rand_get_state"],
    since=3,
    since_rule="R-rand_state-01",
    rules=(state_engine, state_type, state_size, state_in_sbuf),
    flow="elementwise",
    cost=random_cost,
    coincides={"dst": ()},
)
def rand_get_state(
    shape: tuple[int, ...], lane: int, target: Target, state: dict[str, Any], resolved_engine: str
) -> np.ndarray:
    """dst[p, :] = generators of lane p"""
    return states(state, resolved_engine, target)[lane : lane + shape[0]].reshape(shape[0], -1)
