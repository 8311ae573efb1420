"""What a definition may tell the core, each thing looked up by attribute, so that any record can be a definition.

| attribute          | meaning                                                          | when it is absent     |
|--------------------|------------------------------------------------------------------|-----------------------|
| `name`             | how the text spells it                                           | required              |
| `has_side_effects` | the op must stay although nothing uses its results               | no results: it has    |
| `region_count`     | how many regions an op has; None: any number                     | 0                     |
| `terminator`       | name of the op that must end each region                         | no terminator         |
| `verify`           | `verify(op)` gives the diagnostics of one op                     | nothing to check      |
| `assembly`         | an `Assembly`: the special form in text                          | the generic form      |

`Definition` is a ready-made record with these fields; a level with more facets brings its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tilewright.errors import Diagnostic
from tilewright.ir.core import Op

if TYPE_CHECKING:
    from tilewright.ir.parse import Reader
    from tilewright.ir.text import Printer


class Assembly(Protocol):
    """A special form in text: everything between the op's name and its trailing location."""

    def write(self, printer: Printer, op: Op) -> str:
        """The text after the name; `printer.region` renders a region."""
        ...

    def read(self, reader: Reader, definition: Any, names: list[str | None]) -> Op:
        """Read what `write` wrote and make the op; its results take `names`, which stood before the `=`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A definition with the facets that the core knows and no others."""

    name: str
    has_side_effects: bool = False
    region_count: int | None = 0
    terminator: str | None = None
    verify: Callable[[Op], Iterable[Diagnostic]] | None = None
    assembly: Assembly | None = None


def is_terminator(op: Op) -> bool:
    """True for an op that the owner of its region names as the end of the region."""
    owner = op.parent.parent if op.parent is not None else None
    return owner is not None and getattr(owner.definition, "terminator", None) == op.name


def has_side_effects(op: Op) -> bool:
    """True when the op matters beyond its results: by itself or through an op in one of its regions."""
    own = getattr(op.definition, "has_side_effects", None)
    if own:
        return True
    if op.regions:
        return any(has_side_effects(inner) and not is_terminator(inner) for region in op.regions for inner in region)
    return own is None and not op.results
