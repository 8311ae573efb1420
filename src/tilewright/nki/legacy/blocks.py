"""What rewritten kernels call (nki.legacy.rewrite): loops, conditions, annotations, and names that are bound anew."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tilewright.nki.legacy.faults import fault, shown
from tilewright.nki.legacy.index import Index
from tilewright.nki.legacy.loop_index import Condition
from tilewright.nki.legacy.loops import LoopRange
from tilewright.nki.legacy.mask import Mask
from tilewright.nki.legacy.operators import refuse_truth
from tilewright.nki.legacy.session import LegacySession, Scope
from tilewright.nki.legacy.tensor import LegacyTensor, require_shape
from tilewright.nki.legacy.typing import scalar
from tilewright.rules import reporter
from tilewright.sim.session import running_session


def loop(values: Any, once: Once | None = None) -> Any:
    """Python's range counts as nl.sequential_range; other things to loop over are as they are."""
    if once is not None:
        once.active = isinstance(values, LoopRange) and values.kind != "static"
    return LoopRange("sequential", values) if type(values) is range else values


class Once:
    """Names that the body of nl.affine_range or nl.sequential_range binds anew: it is traced once.

    So each iteration starts with what they stood for before the loop.
    """

    def __init__(self) -> None:
        self.active = False
        self.first = True
        self.values: dict[str, Any] = {}

    def turn(self) -> None:
        """An iteration begins, and the names are what they were."""
        self.first = False

    def counts(self, name: str, read: Callable[[], Any]) -> bool:
        """Whether a name had a value before the loop; a branch that was not taken may have left it without one."""
        if not self.active:
            return False
        if self.first:
            try:
                self.values[name] = read()
            except NameError:
                return False
        return name in self.values


def annotated(value: Any, annotation: Any, name: str) -> Any:
    """`name: nt.tensor[shape] = value`."""
    if isinstance(value, LegacyTensor) and annotation.shape is not None:
        require_shape(value, annotation.shape, name)
    return value


def condition(value: Any) -> Any:
    """The condition of an if statement."""
    if isinstance(value, LegacyTensor):
        return refuse_truth(value)
    if isinstance(value, (Index, Mask)):
        return bool(value)
    return value


class While:
    """The condition of a while loop, which must be entered unconditionally where data decide."""

    def __init__(self) -> None:
        self.first = True

    def test(self, value: Any) -> Any:
        """Whether to go on."""
        if isinstance(value, scalar) and self.first and not value.entered:
            fault(
                "err_while_loop_requires_unconditional_entry",
                "Traditional while loops are not supported - use do-while pattern instead",
                hint="enter the loop with cond = scalar(True), and compute the condition at its end",
            )
        self.first = False
        return condition(value)


class _Block:
    """A block under a condition that differs between iterations."""

    __slots__ = ("scope", "session")

    def __init__(self, session: LegacySession) -> None:
        self.session = session

    def __enter__(self) -> None:
        self.scope: Scope = self.session.enter()

    def __exit__(self, *_: object) -> None:
        self.session.leave(self.scope)


_PLAIN: AbstractContextManager[Any] = nullcontext()


def block(value: Any) -> AbstractContextManager[Any]:
    """The body of an if statement: a scope of its own when the condition depends on loop indices."""
    if isinstance(value, Condition):
        session = running_session()
        if isinstance(session, LegacySession):
            return _Block(session)  # type: ignore[return-value]
    return _PLAIN


def joined(*masks: Any) -> Any:
    """`a and b` in a mask."""
    result = masks[0]
    for each in masks[1:]:
        result = result & each
    return result


def inlined(function: Any) -> Any:
    """A function that a kernel calls, as the old compiler reads it."""
    from tilewright.nki.legacy.rewrite import rewritten

    return rewritten(function)


def rebound(value: Any, name: str, old: Callable[[], Any]) -> Any:
    """name = expression of name: in a block this makes a new object that ends with the block."""
    session = running_session()
    if not isinstance(value, LegacyTensor) or not isinstance(session, LegacySession):
        return value
    if session.scope.parent is None:
        return value
    try:
        before = old()
    except NameError:
        return value
    if isinstance(before, LegacyTensor) and before._scope is not session.scope and before is not value:
        reporter().warn(
            "W103",
            f"shadowing local tensor '{before.dtype} {name}{shown(before.shape)}' with a new object, use "
            f"'{name}[...] =' if you want to update the existing object",
        )
    return value
