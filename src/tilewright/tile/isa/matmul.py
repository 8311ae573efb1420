"""The Tensor engine: nc_matmul."""

from __future__ import annotations

import numpy as np

from tilewright.tile.attrs import enum, flag, integers, matmul_perf_mode
from tilewright.tile.cost import matmul_cost
from tilewright.tile.memory import PSUM, SBUF
from tilewright.tile.record import Call, Verdict, check, f32, instr, result, source


@check("R-nc_matmul-06")
def equal_contraction(call: Call) -> Verdict:
    k, other = call.stationary.partitions, call.moving.partitions
    return None if k == other else f"stationary has {k} partitions, but moving has {other}"


@instr(
    nki="dst stationary moving is_stationary_onezero is_moving_onezero is_transpose accumulate tile_position tile_size "
    "perf_mode name",
    operands={
        "dst": result("R-nc_matmul-01", (PSUM,)),
        "stationary": source("R-nc_matmul-01", (SBUF,), layout="full", defined=True),
        "moving": source("R-nc_matmul-01", (SBUF,), layout="full", defined=True),
    },
    attrs={
        "is_stationary_onezero": flag(),
        "is_moving_onezero": flag(),
        "is_transpose": flag(),
        "accumulate": flag(None),
        "tile_position": integers(()),
        "tile_size": integers(()),
        "perf_mode": enum(matmul_perf_mode, "none"),
    },
    engines=("tensor",),
    engine=lambda call: "tensor",
    since=2,
    rules=(equal_contraction,),
    flow="refuse",
    cost=matmul_cost,
    accumulates=True,
    dynamic_rules=("R-nc_matmul-20", "R-nc_matmul-21"),
)
def nc_matmul(stationary: np.ndarray, moving: np.ndarray, perf_mode: str) -> np.ndarray:
    """dst[m, n] (+)= sum over k of stationary[k, m] * moving[k, n], in float32"""
    if perf_mode == "double_row":
        # K is split over partitions and the first free dim.
        stationary = np.concatenate([stationary[:, 0], stationary[:, 1]])
        moving = np.concatenate([moving[:, 0], moving[:, 1]])
    k = stationary.shape[0]
    return f32(stationary).reshape(k, -1).T @ f32(moving).reshape(k, -1)
