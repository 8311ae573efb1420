"""Lowering: tensor IR to tile IR, one decision per file."""
