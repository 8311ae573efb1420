"""Programs: kernels and NumPy ops in one graph, planned into executables that a target can load."""
