"""Where the inputs come from that a failure depends on: the kernel that made them, or the line of the script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tilewright.device import DeviceRun
from tilewright.diagnose.bisection.launches import Launches, Made
from tilewright.diagnose.divergence import to_run_again
from tilewright.nki.earlier import Earlier, found_in
from tilewright.provenance.lineage import lineage
from tilewright.provenance.script import Made as MadeByScript
from tilewright.target import Target


def brought(
    launches: Launches, number: int, name: str, array: np.ndarray, place: Sequence[int], target: Target
) -> Iterator[str]:
    """What is said of an element of an array that a kernel was given."""
    for earlier in reversed(launches.made[:number]):
        for each, result in enumerate(earlier.results):
            if result.size == array.size and result.dtype == array.dtype and result.tobytes() == array.tobytes():
                made = made_by(earlier, each, int(np.ravel_multi_index(tuple(place), array.shape)), target)
                by = f": it makes {list(place)} by {made}" if made else ""
                yield f"`{name}` is what kernel {earlier.name} returned{by}"
                for given, origin in earlier.origins.items():
                    if made is not None and f" {given}[" in made:
                        yield f"`{given}` of kernel {earlier.name} {_by_script(origin)}"
                return
    origin = launches.made[number].origins.get(name)
    if origin is not None:
        yield f"`{name}` {_by_script(origin)}"


def _by_script(origin: MadeByScript) -> str:
    return f"was made by the script: {origin.history} ({origin.location})"


def made_by(made: Made, number: int, element: int, target: Target) -> str | None:
    """By which instructions a kernel makes an element of its result; it runs once more, watched."""
    known = found_in(_again(made, target), number, np.array([element]), None)
    if known is None:
        return None
    tape, ((cells, _),) = known[0], known[1].cells
    return lineage(tape, cells, element)


def _again(made: Made, target: Target) -> Earlier:
    launch = made.launch
    if isinstance(launch, DeviceRun):
        return launch.as_earlier()
    return to_run_again(launch.kernel, launch.args, launch.kwargs, target)
