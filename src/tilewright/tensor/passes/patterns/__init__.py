"""Softmax, norms and attention in a simplified graph, as descriptions: the ops stay, lowering may use what it is told.

Each `..._of(value)` says what a value is, each `find_...(graph)` lists all of a graph. `ops` of a pattern are the ops
from its inputs to its result; `inner` those of their values that nothing outside of the pattern reads.
"""

from __future__ import annotations

from tilewright.tensor.passes.patterns.attention import Attention, Mask, attention_of, find_attentions
from tilewright.tensor.passes.patterns.extent import between, inner
from tilewright.tensor.passes.patterns.norm import Norm, find_norms, mean_of, norm_of
from tilewright.tensor.passes.patterns.softmax import Softmax, find_softmaxes, softmax_of

__all__ = [
    "Attention",
    "Mask",
    "Norm",
    "Softmax",
    "attention_of",
    "between",
    "find_attentions",
    "find_norms",
    "find_softmaxes",
    "inner",
    "mean_of",
    "norm_of",
    "softmax_of",
]
