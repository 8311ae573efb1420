"""Where shared tensors may be created: in the kernel's own function, outside of its loops and conditions."""

from __future__ import annotations

import sys

from tilewright.errors import is_internal
from tilewright.nki.legacy.faults import fault
from tilewright.nki.legacy.session import LegacySession


def require_top_level(session: LegacySession) -> None:
    """err_shared_hbm_must_in_kernel_level."""
    frame = sys._getframe(1)
    while is_internal(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    elsewhere = session.entry is not None and frame.f_code is not session.entry
    if not elsewhere and session.scope.parent is None:
        return
    where = "in a function that the kernel calls" if elsewhere else "in a loop or under a condition"
    fault(
        "err_shared_hbm_must_in_kernel_level",
        f"shared_hbm buffer can only be created top level kernel scope, not {where}",
        hint="create it at the beginning of the kernel and pass it on",
    )
