"""Diagnosis of kernels: what ranges of inputs can do, where two runs part, what a failure depends on."""
