"""Kernels that the simulator is measured with."""
