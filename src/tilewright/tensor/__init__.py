"""Tensor IR: whole arrays with NumPy's meaning, no hardware.

`types` (shape and element type), `record` (one definition per op), `ops/` (the table), `build` (making ops),
`interpret` (running a graph on NumPy), `text` (the dialect), `passes/` (narrow, simplify, decompose).
"""
