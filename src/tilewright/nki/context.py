"""Access to the running kernel from NKI calls."""

from __future__ import annotations

from tilewright.errors import fail
from tilewright.sim.session import Session, running_session


def require_session(api: str) -> Session:
    """The running session, or an error that says that the call is outside a kernel."""
    session = running_session()
    if session is None:
        raise fail(
            "E115",
            f"{api} is called outside a kernel",
            rule="R-err-nki_api_outside_of_nki_kernel-01",
            hint="call it inside a function decorated with @nki.jit, and run that on arrays",
        )
    return session
