"""Tracing of NumPy functions into tensor IR."""
