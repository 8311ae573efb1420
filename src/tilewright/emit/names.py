"""Names of a kernel's variables: what the IR calls them, made unique where they are in scope at the same time."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from tilewright.ir.core import Region, Value
from tilewright.tile.memory import PSUM, SBUF, Buffer

MODULES = ("nki", "nisa", "nl")
_RESERVED = frozenset({*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *MODULES})


def identifier(name: str | None, default: str) -> str:
    """The name as Python can have it; it may still be a keyword."""
    made = re.sub(r"\W+", "_", name or "", flags=re.ASCII).strip("_")
    made = made or default
    return made if not made[0].isdigit() else f"{default}{made}"


def kernel_name(name: str) -> str:
    """The name of a kernel's function."""
    made = identifier(name, "kernel")
    return f"{made}_" if made in _RESERVED else made


class Names(dict[Value, str]):
    """The names of values. One that is not needed any more may pass its name on to a value of another region."""

    def __init__(self, taken: Iterable[str], over: Mapping[Value, int]) -> None:
        """taken: names that no value gets. over: from where on each value that is used is not needed."""
        super().__init__()
        self._given = {value.name for value in over}
        # Names of parameters and results, and Python's own: they never pass to others.
        self._general = _RESERVED | {*taken}
        self._over = over
        self._holders: dict[str, Value] = {}
        # Tensors in HBM carry theirs for the whole kernel (R-tensor-20).
        self._of_tensors: set[str] = set()
        self._next: dict[tuple[str, Region | None], int] = {}

    def add_general(self, value: Value, default: str) -> str:
        """Name a parameter or a result."""
        name = self.add(value, default)
        self._general |= {name}
        return name

    def add(self, value: Value, default: str, at: int = 0, better: str | None = None) -> str:
        """Name a value that is defined at a position: as it is called, by where it lives besides, or by a number.

        better: what to call it instead.
        """
        wanted = better or identifier(self._unnumbered(value.name), default)
        name = next(name for name in self._choices(wanted, value) if self._is_free(name, value, at))
        self._holders[name] = value
        if _is_tensor(value):
            self._of_tensors.add(name)
        self[value] = name
        return name

    def _unnumbered(self, name: str | None) -> str | None:
        """The name without the number that the text of IR gives to the second value of a name, and so on."""
        found = re.fullmatch(r"(.*\D)_\d+", name or "")
        return found.group(1) if found and found.group(1) in self._given else name

    def _choices(self, wanted: str, value: Value) -> Iterator[str]:
        yield wanted
        if isinstance(value, Buffer) and wanted in self._general:
            wanted += {SBUF: "_tile", PSUM: "_psum"}.get(value.memory, "_hbm")
            yield wanted
        # Within a region, numbers are not searched again from the start: it may have hundreds of tiles of one name.
        key = (wanted, _region(value))
        for number in count(self._next.get(key, 2)):
            self._next[key] = number
            yield f"{wanted}_{number}"

    def _is_free(self, name: str, value: Value, at: int) -> bool:
        if name in self._general or (_is_tensor(value) and name in self._of_tensors):
            return False
        holder = self._holders.get(name)
        return holder is None or (self._over.get(holder, 0) <= at and _are_apart(holder, value))


def _is_tensor(value: Value) -> bool:
    """True for a tensor in HBM."""
    return isinstance(value, Buffer) and not value.on_chip


def _are_apart(one: Value, two: Value) -> bool:
    """Whether two values are defined in different regions; indices of loops are, of loops that do not nest."""
    return one.producer is None or two.producer is None or _region(one) is not _region(two)


def _region(value: Value) -> Region | None:
    return None if value.producer is None else value.producer.parent
