"""VirtualRegister: a number that exists on the device only.

Kernels run eagerly here, so that the number is known; a register still refuses what a compiled kernel could not do with
it. Its number lives in the machine (`machine.values`), and it may index tensors, bound loops and steer them.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Sequence
from functools import cache
from typing import Any

from tilewright.errors import Location, TileError, TileTypeError, fail, user_location
from tilewright.ir.core import Op, Value
from tilewright.nki.context import require_session
from tilewright.nki.objects import NKIObject
from tilewright.rules import violate
from tilewright.tile.ops import REGISTER

UNKNOWN: Any = object()
"""As the state of a new register: it holds a number that nobody knows (shape mode)."""


class VirtualRegister(NKIObject, Value):
    """A 32-bit register of the engines' sequencers.

    state: the number it starts with; None leaves it unwritten. A frozen register, such as the index of a loop, cannot
    be written. `writes` counts what nki.isa.register_* wrote to it. `loops` are those on the device it was made in.
    """

    __slots__ = ("_entered", "_passed", "frozen", "loops", "writes")

    def __init__(self, state: Any = None, frozen: bool = False) -> None:
        self._start(frozen)
        self._define((), None if state is UNKNOWN else state)
        if state is UNKNOWN:
            require_session("VirtualRegister").machine.values[self] = None

    def _start(self, frozen: bool) -> None:
        Value.__init__(self, "register")
        self.frozen = frozen
        self.loops = require_session("VirtualRegister").loops
        self.writes = 0
        self._passed: tuple[Location | None, int] | None = None
        self._entered = False

    def _define(self, terms: Sequence[tuple[Value, int]], offset: int | None) -> None:
        """Record and compute: this register = offset + sum of factor * register."""
        session = require_session("VirtualRegister")
        attrs = {"factors": tuple(factor for _, factor in terms), "offset": offset}
        op = Op(REGISTER, [register for register, _ in terms], (self,), attrs, (), user_location())
        if session.options.record:
            session.graph.append(op)
        session.machine.define_register(op)

    def fresh(self) -> VirtualRegister:
        """A register of a copy of the kernel (ir.core): it belongs to no session, and nothing is written to it."""
        made = VirtualRegister.__new__(VirtualRegister)
        Value.__init__(made, self.type, self.name)
        made.frozen, made.loops, made.writes, made._passed, made._entered = True, self.loops, 0, None, False
        return made

    # Index arithmetic: i * 128 + 5 is a register of its own.

    def _affine(self, terms: Sequence[tuple[Value, int]], offset: int) -> VirtualRegister:
        violate(
            "R-dynamic_range-03",
            "Python arithmetic on a register: the NKI compiler may refuse it",
            hint="let .ap(..., scalar_offset=i) scale the index, or step the loop by the tile size",
        )
        made = VirtualRegister.__new__(VirtualRegister)
        made._start(frozen=True)
        made._define(terms, offset)
        return made

    def _sum(self, other: object, factor: int, sign: int) -> VirtualRegister:
        """factor * other + sign * self."""
        if isinstance(other, VirtualRegister):
            return self._affine([(self, sign), (other, factor)], 0)
        if isinstance(other, int):
            return self._affine([(self, sign)], factor * other)
        raise self._refuse(f"arithmetic with {type(other).__name__}")

    def __add__(self, other: object) -> VirtualRegister:
        return self._sum(other, 1, 1)

    __radd__ = __add__

    def __sub__(self, other: object) -> VirtualRegister:
        return self._sum(other, -1, 1)

    def __rsub__(self, other: object) -> VirtualRegister:
        return self._sum(other, 1, -1)

    def __neg__(self) -> VirtualRegister:
        return self._affine([(self, -1)], 0)

    def __mul__(self, other: object) -> VirtualRegister:
        if isinstance(other, int):
            return self._affine([(self, other)], 0)
        raise self._refuse(f"a product with {type(other).__name__}")

    __rmul__ = __mul__

    # What Python would do with a number, but a compiled kernel cannot.

    def _refuse(self, what: str) -> TileError:
        return fail(
            "E110",
            f"a register in {what}: its number exists only on the device",
            rule="R-dynamic_range-03" if self.frozen else "R-language-10",
            hint="index with it (t[i], nl.ds(i, n), .ap(scalar_offset=i)), or loop with nl.fori_loop or nl.while_loop",
            error=TileTypeError,
        )

    def __bool__(self) -> bool:
        """True while it is not zero: the condition of `while register:` and of nothing else."""
        location = user_location()
        if location is not None and not _is_while_register(location):
            raise self._refuse("a condition")
        session = require_session("while register")
        violate(
            "R-dynamic_range-06",
            "`while register:` is deprecated",
            hint="write nl.while_loop(register, body); the body returns the next condition",
        )
        if session.no_reorder:
            violate("R-dynamic_range-04", "`while register:` inside nl.no_reorder", hint="put no_reorder into the loop")
        held = session.machine.number(self, location)
        if held is None:
            # Without numbers every loop runs once.
            self._entered = not self._entered
            return self._entered
        if not held:
            return False
        if self._passed == (location, self.writes):
            raise fail(
                "E110",
                "`while register:` never ends: its body does not write the register",
                hint="write to the register in the body, with nisa.register_load or nisa.register_move",
            )
        self._passed = (location, self.writes)
        return True

    def __int__(self) -> int:
        raise self._refuse("int()")

    def __index__(self) -> int:
        raise self._refuse("range() or as a Python integer")

    def __float__(self) -> float:
        raise self._refuse("float()")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float)):
            raise self._refuse("a comparison")
        return self is other

    __hash__ = Value.__hash__


def _refusing(symbol: str) -> Any:
    def refuse(self: VirtualRegister, other: object) -> Any:
        raise self._refuse(f"the Python operator {symbol}")

    return refuse


for _symbol, _method in (
    ("<", "lt"),
    ("<=", "le"),
    (">", "gt"),
    (">=", "ge"),
    ("//", "floordiv"),
    ("/", "truediv"),
    ("%", "mod"),
    ("**", "pow"),
    ("<<", "lshift"),
    (">>", "rshift"),
    ("&", "and"),
    ("|", "or"),
    ("^", "xor"),
):
    setattr(VirtualRegister, f"__{_method}__", _refusing(_symbol))
    if _method not in ("lt", "le", "gt", "ge"):
        setattr(VirtualRegister, f"__r{_method}__", _refusing(_symbol))


@cache
def _while_tests(file: str) -> tuple[ast.expr, ...] | None:
    """The conditions of all while statements; None where the source is not to be had."""
    source = "".join(linecache.getlines(file))
    if not source:
        return None
    try:
        tree = ast.parse(source)
    except SyntaxError:
        # Text of a notebook or template; what runs was compiled from something else.
        return None
    return tuple(node.test for node in ast.walk(tree) if isinstance(node, ast.While))


def steers_while(location: Location) -> bool | None:
    """Whether the line belongs to the condition of a while statement; None when its source is not known."""
    return _on_line(location, _while_tests(location.file))


def _is_while_register(location: Location) -> bool:
    """True when the line is a plain name that a while statement tests, or its source is not known."""
    tests = _while_tests(location.file)
    plain = (ast.Name, ast.Attribute, ast.Subscript)
    found = _on_line(location, tests and tuple(test for test in tests if isinstance(test, plain)))
    return found is None or found


def _on_line(location: Location, tests: tuple[ast.expr, ...] | None) -> bool | None:
    if tests is None:
        return None
    return any(test.lineno <= location.line <= (test.end_lineno or test.lineno) for test in tests)
