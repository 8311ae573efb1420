"""What a kernel's function must be as a whole: pure, with shared tensors at its top level, not decorated twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kit import accepts, full_run, nisa, nki, nl, rejects, run, tile

rule = pytest.mark.rule
COUNT = 0


def shared() -> Any:
    y = nl.ndarray((4, 4), nl.float32, nl.shared_hbm)
    nisa.dma_copy(y, tile((4, 4), value=1))
    return y


def in_a_loop(x: Any, times: int) -> Any:
    made = []
    for _ in range(times):
        y = nl.ndarray((4, 4), nl.float32, nl.shared_hbm)
        nisa.dma_copy(y, tile((4, 4), value=1))
        made.append(y)
    return made[-1]


X = np.zeros((1, 1), np.float32)


@rule("R-tensor-19", "reject")
def test_shared_tensors_are_not_created_in_loops() -> None:
    run(in_a_loop, X, 1)
    rejects("R-tensor-19", in_a_loop, X, 2)
    done = full_run(in_a_loop, X, 2, profile="lenient")
    assert [d.rule for d in done.diagnostics] == ["R-tensor-19"] and (done.result == 1).all()


@rule("R-tensor-19", "reject")
def test_shared_tensors_are_not_created_in_loops_on_the_device() -> None:
    def kernel(x: Any) -> None:
        nl.fori_loop(0, 2, lambda i: shared() and None)

    rejects("R-tensor-19", kernel)


@rule("R-tensor-19", "accept")
def test_shared_tensors_that_functions_create() -> None:
    def kernel(x: Any) -> Any:
        first, second = nl.ndarray((4, 4), nl.float32, nl.shared_hbm), nl.ndarray((4, 4), nl.float32, nl.shared_hbm)
        for each in (first, second):
            nisa.dma_copy(each, tile((4, 4)))
        return first, second, *[shared() for _ in range(2)]

    accepts(kernel)


@rule("R-tensor-19", "accept")
def test_a_flag_leaves_the_check_out() -> None:
    run(nki.jit(experimental_flags="skip-non-top-level-shared-hbm-check")(in_a_loop), X, 3)


@rule("R-jit-09", "reject")
def test_kernels_assign_no_variables_outside() -> None:
    count = 0

    def counts_globally(x: Any) -> None:
        global COUNT
        COUNT += 1

    def counts_around(x: Any) -> None:
        nonlocal count
        count += 1

    def counts_deep_inside(x: Any) -> None:
        def step() -> None:
            nonlocal count
            count += 1

        step()

    for kernel, line in ((counts_globally, 2), (counts_around, 2), (counts_deep_inside, 3)):
        found = rejects("R-jit-09", kernel)
        assert found.location is not None and found.location.line == kernel.__code__.co_firstlineno + line
        done = full_run(kernel, profile="lenient")
        assert [(d.rule, d.severity) for d in done.diagnostics] == [("R-jit-09", "warning")]


@rule("R-jit-09", "accept")
def test_variables_of_the_kernel_itself() -> None:
    width = 4

    def kernel(x: Any) -> None:
        steps = COUNT

        def step(i: int) -> None:
            nonlocal steps
            steps += i

        for i in range(3):
            step(i)
        tile((4, width + steps))

    accepts(kernel)


@rule("R-jit-08", "accept")
@rule("R-jit-08", "reject")
def test_kernels_call_functions_that_are_not_decorated() -> None:
    decorated = nki.jit(lambda x: shared())
    assert full_run(lambda x: shared()).diagnostics == []
    done = full_run(lambda x: decorated(x))
    assert [(d.rule, d.severity) for d in done.diagnostics] == [("R-jit-08", "warning")] and (done.result == 1).all()
