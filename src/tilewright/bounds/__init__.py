"""The least that any kernel needs for a program: bytes, the engines' work, and the longest chain of dependent ops.

The bound is computed on tensor IR after simplification and before decomposition, without looking at any plan. Whatever
is not known for certain is left out, so that no kernel can be faster (docs/timing.md, "The roofline").
"""
