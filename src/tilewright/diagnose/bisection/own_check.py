"""Functions that find their results wrong by themselves, by an assertion: what of their kernels may be to blame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tilewright.diagnose.bisection.launches import FoundWrong
from tilewright.diagnose.bisection.oracles import is_number
from tilewright.diagnose.bisection.rounding import departs, exact_results
from tilewright.diagnose.blame import raised_at
from tilewright.diagnose.carried import carried
from tilewright.errors import fail
from tilewright.sim.unread import dead_lines

if TYPE_CHECKING:
    from tilewright.diagnose.bisection.case import Case

_WHAT_IS_RIGHT = (
    "say what is right: tw.bisect(kernel, *arrays, reference=numpy_function), or tilewright diff with a script that is "
    "right"
)
_MOST_TOLD = 4
"""Lines that a script is told of whose results nobody reads, and tiles that stay over turns of a loop: a kernel that is
wrong may mean to read them, or to make them anew."""


def inexact_cases(named: Sequence[tuple[str, Case]], raised: Exception) -> Iterator[Case]:
    """The kernels that lose digits, beside exact arithmetic; E710 with what else may be to blame."""
    for name, case in named:
        if departs(case.variant):
            case.reference = partial(exact_results, case.variant)
            case.blamed = f"{name} is the first whose results are not those of exact arithmetic"
            yield case
    every = [case for _, case in named]
    said = " ".join(str(raised).split())[:120]
    graphs = [graph for case in every for graph in case.variant.graphs[:1]]
    unread = [f"{each.message} ({each.location})" for graph in graphs for each in dead_lines(graph.ops)]
    left = [each for graph in graphs for each in carried(graph.ops)]
    given = next((bad for case in every for bad in _bad_arrays(case)), None)
    exact = "what they compute is what exact arithmetic gives"
    about = f"{given}; its kernels raise nothing" if given else "its kernels raise nothing, give finite numbers"
    by_script = f"{type(raised).__name__} is raised by the script itself{f' ({said})' if said else ''}"
    raise fail(
        "E710",
        f"{said if isinstance(raised, FoundWrong) else by_script}; {about}, and {exact}",
        hint="give its kernels numbers" if given else _WHAT_IS_RIGHT,
        location=raised_at(raised),
        notes=tuple(dict.fromkeys([*unread[:_MOST_TOLD], *left[:_MOST_TOLD]])),
    ) from raised


def _bad_arrays(case: Case) -> Iterator[str]:
    """The arrays that a kernel is given which are not finite, a phrase each."""
    origins = [*case.origins, *[None] * len(case.names)]
    for name, array, origin in zip(case.names, case.variant.arrays, origins, strict=False):
        numbers = is_number(array)
        if not numbers.all():
            where = "" if origin is None else f", put on the device at {origin}"
            count = f"{np.count_nonzero(~numbers)} of {numbers.size} elements"
            yield f"{case.variant.graph.name} is given what is not finite: {count} of {name}{where}"
