"""Products of matrices, convolutions and attention."""
