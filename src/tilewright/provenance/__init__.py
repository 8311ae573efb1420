"""Provenance: where a bad value was born, found by running the kernel once more and walking back from the error."""
