"""nki.collectives: groups of ranks.

A kernel runs on one device: collectives between kernels are units of a program (`tw.dist`), which runs all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors import fail
from tilewright.nki.tensor import NKIObject
from tilewright.rules import violate


class ReplicaGroup(NKIObject):
    """Sets of ranks that communicate with each other; the sets do not overlap."""

    def __init__(self, groups: Sequence[Sequence[int]] | int) -> None:
        self.groups = groups
        if isinstance(groups, int):
            return
        ranks = [rank for group in groups for rank in group]
        if len(ranks) != len(set(ranks)):
            violate("R-collectives-09", f"groups {groups} overlap", hint="give each rank to one group", final=True)


def _unsupported(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise fail(
            "E501",
            f"nki.collectives.{name} needs several devices, and a kernel is simulated on one",
            rule="R-collectives-01",
            hint="end the kernel there, and call a collective of tw.dist between the two parts, in tw.program",
        )

    refuse.__name__ = name
    return refuse


NAMES = (
    "all_gather",
    "all_gather_v",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
)
globals().update({name: _unsupported(name) for name in NAMES})
