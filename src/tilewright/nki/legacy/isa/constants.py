"""neuronxcc.nki.isa.constants: the enums of nki.isa under the module that published kernels import them from."""

from tilewright.tile.attrs import dge_mode, engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd

__all__ = ["dge_mode", "engine", "matmul_perf_mode", "nc_version", "oob_mode", "reduce_cmd"]
