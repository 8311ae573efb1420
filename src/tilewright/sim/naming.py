"""Names for tensors that were given none: what the source line assigns them to, so that diagnostics speak the kernel's
own language."""

from __future__ import annotations

import linecache
import re
from functools import cache

from tilewright.errors import Location

_ASSIGNMENT = re.compile(r"\s*([A-Za-z_]\w*)\s*(?::[^=]+)?=(?!=)")


@cache
def assigned_name(location: Location | None) -> str | None:
    """The variable that a line assigns to, such as `keys` in `keys = nl.ndarray(...)`; None where it is not one."""
    if location is None:
        return None
    found = _ASSIGNMENT.match(linecache.getline(location.file, location.line))
    return found.group(1) if found else None
