"""Tensors without a name are called what the kernel calls them."""

from __future__ import annotations

from tests.kit import full_run, nisa, nl, np, rejects


def test_a_tensor_is_called_what_its_line_assigns_it_to() -> None:
    def kernel(x):
        keys = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf)
        queries: object = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf, name="chosen")
        several = [nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2)]
        for tile in (keys, queries, *several):
            nisa.memset(tile, value=0)

    text = str(full_run(kernel).session.graph)
    assert "%keys = alloc" in text and "%chosen = alloc" in text
    assert "%several = alloc" in text and "%several_1 = alloc" in text


def test_diagnostics_speak_the_names_of_the_kernel() -> None:
    def kernel(x):
        weights = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(total, nl.add, weights, axis=1)

    assert "of weights are used" in rejects("R-tensor-08", kernel, np.zeros((1, 1), np.float32)).message
