"""Bisection: what a failure needs of a kernel, of its inputs and of what surrounds it."""
