"""Error bars: how far a measured latency may lie from the predicted one, by what the prediction rests on.

Each regime has a share of the latency, set so that about four in five measured kernels of its kind lie within
(`make calibrate` prints how many do), and so many microseconds on top, which matter to short kernels alone.
"""

from __future__ import annotations

from tilewright.target import Target
from tilewright.timing.compilers import LEGACY

MATTERS = 0.05
"""Work that may be left out widens the bar from this share of the latency on."""


def regime(compiler: str, spilled: bool, removable: float, shared: bool) -> str:
    """What a prediction rests on, the least certain first.

    removable: which share of the time as written the work takes that compilers may leave out. shared: the kernel has
    several cores, or software writes descriptors of its transfers.
    """
    if spilled:
        return "spilled"
    if removable > MATTERS:
        return "removable"
    if shared:
        return "shared"
    return "legacy" if compiler == LEGACY else "plain"


def error_bar(target: Target, latency_us: float, of: str) -> float:
    """The bar of a regime, relative to the predicted latency, either way."""
    return target[f"timing.error_bar.{of}"] + target["timing.error_us"] / latency_us
