"""Reads, writes and sums by run-time indices."""
