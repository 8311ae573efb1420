"""Reductions over rows."""
