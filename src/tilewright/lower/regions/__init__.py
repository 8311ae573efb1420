"""What shares a loop nest, which dims are rows, and what stays on chip: decided before any instruction is written."""
