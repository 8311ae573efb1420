"""What NKI's compiler does not take of Python, and dependencies between instructions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import pytest

from tests.kit import accepts, full_run, nisa, nki, nl, np, rejects, run, tile

X = np.ones((4, 4), np.float32)


class Mode(Enum):
    fast = 1
    exact = 2


class Config(nl.NKIObject):
    width: int = 4


class Plain:
    width = 4


class Pair(NamedTuple):
    first: int
    second: int


def warned(kernel: Callable[..., Any], *arguments: Any) -> list[str | None]:
    """The rules that a kernel is warned of when it is checked, in both profiles alike."""
    accepts(kernel, *(arguments or (X,)))
    strict, lenient = (
        full_run(kernel, *(arguments or (X,)), profile=profile, collect=True).diagnostics
        for profile in ("strict", "lenient")
    )
    assert [each.severity for each in strict] == ["warning"] * len(strict)
    assert strict == lenient
    return [each.rule for each in strict]


def refused(rule: str, kernel: Callable[..., Any], *arguments: Any) -> None:
    """An error, which lenient lets pass."""
    given = arguments or (X,)
    found = rejects(rule, kernel, *given)
    assert found.hint is not None or found.rule == "R-language-07"
    leniently = full_run(kernel, *given, profile="lenient", collect=True).diagnostics
    assert [(each.rule, each.severity) for each in leniently] == [(rule, "warning")]


def in_order(x: Any, scale: float = 1.0, *sizes: int, **options: Any) -> None:
    tile((4, 4))


def separated(x: Any, *, scale: float = 1.0) -> None:
    tile((4, 4))


@pytest.mark.rule("R-language-01", "accept")
@pytest.mark.rule("R-language-01", "reject")
def test_signatures_have_no_separator() -> None:
    accepts(in_order, X)
    refused("R-language-01", separated)
    accepts(lambda x: separated(x, scale=2.0), X)


def compared(x: Any, bias: Any = None) -> None:
    if bias == None or bias != 1:  # noqa: E711
        tile((4, 4))


def identified(x: Any, bias: Any = None) -> None:
    if bias is None:
        tile((4, 4))


@pytest.mark.rule("R-language-02", "accept")
@pytest.mark.rule("R-language-02", "reject")
def test_identity_is_warned_of_once_for_each_function() -> None:
    def calling(x: Any) -> None:
        identified(x)
        identified(x)

    assert warned(compared) == []
    assert warned(identified) == ["R-language-02"]
    assert warned(calling) == ["R-language-02"]


def given(x: Any, value: Any) -> None:
    tile((4, 4))


@pytest.mark.rule("R-language-03", "accept")
@pytest.mark.rule("R-language-03", "reject")
def test_arguments_are_no_lists() -> None:
    accepts(given, X, (1, 2))
    refused("R-language-03", given, X, [1, 2])


def keyed(x: Any) -> None:
    table = {"a": 1, "b": 2}
    tile((4, table["b"]))


def numbered(x: Any) -> None:
    table = {0: 1, 1: 2}
    tile((4, table[1]))


@pytest.mark.rule("R-language-04", "accept")
@pytest.mark.rule("R-language-04", "reject")
def test_keys_are_strings() -> None:
    accepts(keyed, X)
    accepts(given, X, {"a": 1})
    refused("R-language-04", numbered)
    refused("R-language-04", given, X, {1: "a"})


def making(x: Any, kind: Any = None) -> None:
    tile((4, Config(width=3).width))


def making_plain(x: Any) -> None:
    tile((4, Plain().width))


@pytest.mark.rule("R-language-05", "accept")
@pytest.mark.rule("R-language-05", "reject")
def test_classes_derive_from_nki_object_alone() -> None:
    accepts(making, X)
    for fine in (Config(), Mode.fast, Pair(1, 2), np.float32(2), nl.float32, in_order):
        accepts(given, X, fine)
    refused("R-language-05", making_plain)
    refused("R-language-05", given, X, Plain())


def choosing(x: Any, mode: Any = Mode.fast) -> None:
    if mode == Mode.fast and mode != Mode.exact:
        tile((4, Mode.exact.value + 1))


def ordering(x: Any) -> None:
    with contextlib.suppress(TypeError):
        assert Mode.fast < Mode.exact  # type: ignore[operator]


@pytest.mark.rule("R-language-06", "accept")
@pytest.mark.rule("R-language-06", "reject")
def test_enum_values_are_equal_or_not() -> None:
    accepts(choosing, X)
    assert rejects("R-language-06", ordering, X).message.startswith("Mode.fast")


@pytest.mark.rule("R-language-07", "accept")
@pytest.mark.rule("R-language-07", "reject")
@pytest.mark.parametrize("value", [2**32, -(2**31) - 1, b"text", 1j, {1, 2}])
def test_values_of_other_kinds(value: Any) -> None:
    for fine in (None, True, 2**31, -5, 0.5, "text", (1, "a"), {"a": (2.0, None)}):
        accepts(given, X, fine)
    refused("R-language-07", given, X, value)


def ordered(x: Any) -> None:
    with nl.no_reorder():
        tile((4, 4))


def importing(x: Any) -> None:
    import math

    tile((4, math.gcd(4, 8)))


def trying(x: Any) -> None:
    try:
        tile((4, 4))
    finally:
        pass


def summing(x: Any) -> None:
    tile((4, sum(i for i in range(3))))


@pytest.mark.rule("R-language-08", "accept")
@pytest.mark.rule("R-language-08", "reject")
@pytest.mark.parametrize("kernel", [importing, trying, summing])
def test_other_constructs_are_warned_of(kernel: Callable[..., Any]) -> None:
    assert warned(ordered) == []
    assert warned(kernel) == ["R-language-08"]


# Dependencies.


def loaded(value: int) -> Any:
    register = nisa.register_alloc()
    nisa.register_load(register, tile((1, 1), nl.int32, value=value))
    return register


@pytest.mark.rule("R-NkiInstruction-01", "accept")
@pytest.mark.rule("R-NkiInstruction-01", "reject")
def test_instructions_wait_for_those_around_them() -> None:
    def kernel(x: Any, into: bool) -> None:
        t = tile((4, 4))
        before = nisa.memset(t, value=1)
        made: list[Any] = []

        def body(i: Any) -> None:
            first = nisa.memset(t, value=2)
            nisa.memset(t, value=3).depends_on(first, before)
            made.append(first)

        nl.fori_loop(0, 2, body)
        after = nisa.memset(t, value=4).depends_on(before)
        if into:
            after.depends_on(made[0])

    accepts(kernel, X, False)
    found = rejects("R-NkiInstruction-01", kernel, X, True)
    assert "memset is at" in found.notes[0]
    with pytest.raises(TypeError, match="not NkiTensor"):
        run(lambda x: nisa.memset(tile((4, 4)), value=0).depends_on(tile((4, 4))))


@pytest.mark.rule("R-NkiInstruction-02", "accept")
@pytest.mark.rule("R-NkiInstruction-02", "reject")
def test_schedules_name_instructions() -> None:
    @nki.jit
    def kernel(x: Any) -> None:
        t = tile((4, 4))
        nisa.reciprocal(dst=t, data=t, name="inverse")
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1, name="more")

    accepts(kernel.with_schedule([("more", "inverse")]), X)
    accepts(kernel.with_schedule([("more", ["inverse"])]), X)
    found = rejects("R-NkiInstruction-02", kernel.with_schedule([("more", "less")]), X)
    assert found.hint is not None and "inverse, more" in found.hint
    rejects("R-NkiInstruction-02", kernel.with_schedule([("more", "inverse"), ("inverse", "more")]), X)
    with pytest.raises(TypeError, match="no edge"):
        kernel.with_schedule(["more"])


@pytest.mark.rule("R-dynamic_range-05", "accept")
@pytest.mark.rule("R-dynamic_range-05", "reject")
def test_nested_loops_carry_no_registers() -> None:
    def kernel(x: Any, depth: int) -> None:
        count = nisa.register_alloc(0)
        for _ in nl.dynamic_range(2):
            own = nisa.register_alloc(0)
            if depth == 1:
                nisa.register_move(count, 1)
            for _ in nl.dynamic_range(2):
                nisa.register_move(own, 2)
                if depth == 2:
                    nisa.register_move(count, 1)

    accepts(kernel, X, 1, warns="R-dynamic_range-06")
    rejects("R-dynamic_range-05", kernel, X, 2)


def rows_of(x: Any, early: bool) -> Any:
    """Copies rows, and returns behind the loop, or in it where a condition holds."""
    out = nl.ndarray(x.shape, nl.float32, nl.shared_hbm)
    for row in range(x.shape[0]):
        nisa.dma_copy(out[row : row + 1], x[row : row + 1])
        if early and row == x.shape[0] - 1:
            return out
    return out


def first_row_of(x: Any) -> Any:
    out = nl.ndarray(x.shape, nl.float32, nl.shared_hbm)
    for row in range(x.shape[0]):
        nisa.dma_copy(out[row : row + 1], x[row : row + 1])
        return out
    return None


def test_a_return_that_ends_a_loop_is_noticed() -> None:
    for early in (False, True):
        assert full_run(nki.jit(rows_of), X, early).diagnostics == []
    (found,) = full_run(nki.jit(first_row_of), X[:1]).diagnostics
    assert (found.code, found.severity) == ("W106", "warning") and "returns inside of a loop" in found.message
    assert found.location is not None and found.location.line == first_row_of.__code__.co_firstlineno + 4
