"""What is asked of the compiled corpus on trn2. Counts and model times are exact; seconds are those of this machine."""

from __future__ import annotations

from fnmatch import fnmatch
from math import exp, log

TARGET = "trn2"

# Latency over roofline; the first pattern that fits. The roofline is a bound of any kernel since tilewright.bounds
# computes it; where that made it less, what is asked changed by as much. Before, with whole tiles of 128 rows and
# float32 times bfloat16 at the rate of float32: mha_* 1.5 (measured 1.41, now 1.60), qwen3_* 1.3 (1.24 and 1.20, now
# 1.85 in bfloat16 and 1.39 in float32).
LATENCY = {
    "matmul_2048_*": 1.08,
    "gelu_*": 1.12,
    "softmax_4096x2048": 1.12,
    "rmsnorm_*": 1.2,
    "layernorm_*": 1.2,
    "attention_causal_*s4096_*": 1.5,
    "mha_*": 1.7,
    "qwen3_*_bf16": 1.94,
    "qwen3_*_f32": 1.46,
}
LATENCY_MEAN = 1.3
MEAN_ABOVE_US = 30.0
"""Programs with a lower roofline are mostly launch, and are left out of the mean."""

# Fewer instructions than the reference has; the first pattern that fits. gate * sigmoid(gate) of -inf is NaN as NumPy's
# is, which takes a product beside the function: 319 instructions instead of 301, in no more time.
FEWER_INSTRUCTIONS = {"swiglu_ffn_*_bf16": 1.4, "*": 1.5}
FEWER_INSTRUCTIONS_MEAN = 4.0
TRAFFIC = 1.25
TRAFFIC_MEAN = 1.05

ERROR = {"float32": 1e-5, "bfloat16": 2.0**-7}
"""Of the greatest value of a result; narrow floats against the result of float32."""
COMPILE_SECONDS = 1.0
COMPILE_MIB = 1024.0


def latency_goal(name: str) -> float | None:
    """The most that a program's latency may be, in rooflines; None when nothing is asked of it alone."""
    return next((goal for pattern, goal in LATENCY.items() if fnmatch(name, pattern)), None)


def instructions_goal(name: str) -> float:
    """How many times fewer instructions than the reference's a program has at least."""
    return next(goal for pattern, goal in FEWER_INSTRUCTIONS.items() if fnmatch(name, pattern))


def geometric_mean(ratios: list[float]) -> float:
    """exp(mean(log r)); 1 of nothing."""
    return exp(sum(log(r) for r in ratios) / len(ratios)) if ratios else 1.0
