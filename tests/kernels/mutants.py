"""Are faults in the kernels of the library found? Four for each, put into its source one at a time.

`python -m tests.kernels.mutants` tries all of them, or those of the kernels that are named;
tests/kernels/test_mutants.py tries one of each kernel. A mutant is found when results differ from float64 by more than
the tests allow, or when the simulator refuses it.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import tilewright as tw
from tests.kernels.near import error, normal


@dataclass(frozen=True)
class Case:
    """A kernel with arguments that show its faults, the most that results may be off, and its faults: (text, other).

    modules: where it is, after those that it is made of and that may have the fault.
    """

    kernel: str
    modules: str
    arguments: Callable[[], tuple[Any, ...]]
    most: float
    faults: tuple[tuple[str, str], ...]


def _heads(queries: int, keys: int, d: int) -> tuple[np.ndarray, ...]:
    return normal(1, queries, d), normal(1, keys, d, seed=1, scale=2.0), normal(1, keys, d, seed=2)


def _gradients(mask: np.ndarray | None = None, d: int = 16) -> tuple[Any, ...]:
    q, k, v = _heads(200, 200, d)
    more = (mask, 64) if mask is not None else (True,)
    forward = tw.kernels.block_sparse_attention if mask is not None else tw.kernels.attention
    out, lse = (each.astype(np.float32) for each in forward.exact(q, k, v, *more))
    return q, k, v, out, lse, normal(*out.shape, seed=3), *more


def _mask() -> np.ndarray:
    return np.array([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0], [1, 1, 0, 1]], bool)


def _delta() -> tuple[np.ndarray, ...]:
    """Keys that resemble each other: the last power of the triangular system still counts."""
    rng = np.random.default_rng(0)
    q, k = (normal(2, 150, 64, seed=i) for i in range(2))
    k = k / np.linalg.norm(k, axis=-1, keepdims=True) * np.float32(0.85)
    k[..., 0] = 0.53
    gates = -rng.uniform(0.0, 0.001, (2, 150))
    gates[0, 140] = -100.0
    return q, k, normal(2, 150, 12, seed=2), np.full((2, 150), 0.9, np.float32), gates.astype(np.float32)


def _molecule() -> tuple[np.ndarray, ...]:
    shapes = (9, 140, 140), (140, 5), (140, 7)
    integrals, occupied, virtual = (normal(*shape, seed=i, scale=0.3) for i, shape in enumerate(shapes))
    return (
        integrals,
        occupied,
        virtual,
        np.linspace(-2, -1, 5, dtype=np.float32),
        np.linspace(1, 3, 7, dtype=np.float32),
    )


def _experts() -> tuple[np.ndarray, ...]:
    shapes = (140, 128), (128, 4), (4, 128, 128), (4, 128, 128), (4, 128, 128)
    return tuple(normal(*shape, seed=i, scale=0.2) for i, shape in enumerate(shapes))


BLOCKS = np.array([1, 0, 2, 1], np.int32), np.array([0, 2, 2, 4], np.int32)
CASES = (
    Case(
        "rmsnorm",
        "rows",
        lambda: (normal(130, 40, scale=0.01), normal(40, seed=1), 1e-4),
        1e-6,
        (
            ("operand0=1.0 / columns", "operand0=1.0 / (columns + 1)"),
            ("op1=nl.add, operand1=eps)", "op1=nl.add, operand1=0.0)"),
            ("operand0=-0.5)\n        nisa.scalar", "operand0=-1.0)\n        nisa.scalar"),
            ("op1=nl.multiply, operand1=scale[0 : stop - start]", "op1=nl.add, operand1=scale[0 : stop - start]"),
        ),
    ),
    Case(
        "layernorm",
        "rows",
        lambda: (normal(130, 600) + np.float32(3), normal(600, seed=1), normal(600, seed=2)),
        1e-5,
        (
            ("min((piece + 1) * most, columns)", "min((piece + 1) * most, most)"),
            ("operand0=-1.0)\n        centred", "operand0=1.0)\n        centred"),
            ("mean_variance[:, 1:2]", "mean_variance[:, 0:1]"),
            ("data2=shift[0:count], op=nl.add", "data2=scale[0:count], op=nl.add"),
        ),
    ),
    Case(
        "swiglu",
        "rows",
        lambda: (normal(130, 20), normal(130, 20, seed=1)),
        1e-6,
        (
            ("op=nl.silu", "op=nl.gelu"),
            ("op=nl.silu, data=gates", "op=nl.silu, data=tile"),
            ("data2=opened, op=nl.multiply", "data2=opened, op=nl.add"),
            ("load(gate[start:stop]), load(x[start:stop])", "load(gate[0 : stop - start]), load(x[start:stop])"),
        ),
    ),
    Case(
        "rope",
        "rows",
        lambda: (normal(3, 300, 8), normal(300, 4, seed=1), normal(300, 4, seed=2)),
        1e-6,
        (
            ("(a, b, nl.subtract)", "(a, b, nl.add)"),
            ("(b, a, nl.add)", "(a, b, nl.add)"),
            ("load(sin[start:stop]", "load(cos[start:stop]"),
            ("run = max(1, min((length - start) // part", "run = max(2, min((length - start) // part"),
        ),
    ),
    Case(
        "topk",
        "rows",
        lambda: (np.round(normal(1152, 514)), 8),
        0.0,
        (
            ("op=nl.maximum, engine=engine", "op=nl.minimum, engine=engine"),
            ("scale=-1.0)", "scale=1.0)"),
            ("operand0=-4.0", "operand0=-3.0"),
            ("data=taken[:, row, :], indices=slots", "data=taken[:, 0, :], indices=slots"),
        ),
    ),
    Case(
        "topk",
        "rows",
        lambda: (normal(130, 40), 20),
        0.0,
        (
            ("if turn + 1 < rounds:", "if turn + 2 < rounds:"),
            ("imm=LOWEST", "imm=0.0"),
            ("src=where[:, 0:k]", "src=where[:, 1 : k + 1]"),
            ("data=tile, vals=best[:, at : at + eight])\n", "data=tile, vals=best[:, 0:eight])\n"),
        ),
    ),
    Case(
        "matmul",
        "products",
        lambda: (normal(2, 130, 200), normal(2, 200, 520, seed=1)),
        1e-6,
        (
            ("for block in range(0, summed, part):", "for block in range(0, summed - part, part):"),
            ("kept[0:high, block // part, start:stop]", "kept[0:high, 0, start:stop]"),
            ("load(left[b, start:stop])", "load(left[0, start:stop])"),
            ("min(part, summed - block)", "min(part, summed - block) // 2"),
        ),
    ),
    Case(
        "einsum",
        "products",
        lambda: ("bihd,bhjd->bhij", normal(2, 20, 3, 40), normal(2, 3, 30, 40, seed=1)),
        1e-6,
        (
            ("stack + summed + columns]", "stack + columns + summed]"),
            ("order = stack + rows + columns", "order = stack + columns + rows"),
            ("load_by_rows(left[b, :, start:stop])", "load_by_rows(left[0, :, start:stop])"),
            ("kept = load_by_rows(right[b, :, first:last])", "kept = load_by_rows(right[0, :, first:last])"),
        ),
    ),
    Case(
        "attention",
        "attention",
        lambda: (*_heads(530, 530, 16), True),
        3e-6,
        (
            ("keep_where(weights, first - at, 1, -1, 0.0)", "keep_where(weights, first - at - 1, 1, -1, 0.0)"),
            ("keep_where(scores, start - at, -1, 1, HIDDEN)", "keep_where(scores, start - at, -1, 1, 1e30)"),
            ("moving=values[0:high, at // part]", "moving=values[0:high, 0]"),
            ("op1=nl.add, operand1=logarithm", "op1=nl.subtract, operand1=logarithm"),
        ),
    ),
    Case(
        "attention_backward",
        "attention_backward",
        _gradients,
        5e-6,
        (
            ("keep_where(p, ahead, -1, 1, 0.0)", "keep_where(p, ahead - 1, -1, 1, 0.0)"),
            ("store_blocks(dk[head, first:last], dk_sum, scale)", "store_blocks(dk[head, first:last], dk_sum, 1.0)"),
            ("moving=keys_by_row[0:high, (first + at) // part]", "moving=keys_by_row[0:high, 0]"),
            ("op0=nl.subtract, operand0=terms[1]", "op0=nl.add, operand0=terms[1]"),
        ),
    ),
    Case(
        "bsr_spmm",
        "sparse",
        lambda: (normal(4, 32, 32), *BLOCKS, normal(96, 40, seed=1)),
        1e-6,
        (
            ("moving=kept[:, places[block], start:stop]", "moving=kept[:, block, start:stop]"),
            ("for block in range(len(places)):", "for block in range(len(places) - 1):"),
            ("blocks[first : first + len(places)]", "blocks[0 : len(places)]"),
            ("if len(places) == 0:", "if len(places) < 0:"),
        ),
    ),
    Case(
        "csr_spmm",
        "sparse",
        lambda: (normal(6), np.array([3, 0, 2, 1, 4, 4]), np.array([0, 3, 3, 4, 6]), normal(5, 30, seed=1)),
        1e-6,
        (
            ("for turn in range(count):", "for turn in range(count - 1):"),
            ("data[first : first + len(columns)]", "data[: len(columns)]"),
            ("vector_offset=index[:, turn : turn + 1]", "vector_offset=index[:, 0:1]"),
            ("operand0=weights[:, turn : turn + 1]", "operand0=weights[:, 0:1]"),
        ),
    ),
    Case(
        "screened_spmm",
        "sparse",
        lambda: (normal(150, 150), np.round(np.abs(normal(150, seed=1)) * 4) / 4, normal(150, 20, seed=2), 0.5),
        1e-6,
        (
            ("op1=nl.greater,", "op1=nl.greater_equal,"),
            ("operand0=down[0 : stop - start, start // part]", "operand0=down[0 : stop - start, 0]"),
            ("op1=nl.greater,", "op1=nl.less,"),
            ("data2=seen, op=nl.multiply", "data2=seen, op=nl.add"),
        ),
    ),
    Case(
        "block_sparse_attention",
        "block_plan block_attention",
        lambda: (*(each * np.float32(6) for each in _heads(200, 200, 16)), _mask(), 64),
        1e-4,
        (
            ("left_t, right_t[:, :, first:last], width)", "left_t, right_t[:, :, 0 : last - first], width)"),
            ("moving=values[0:high, blocks[i]]", "moving=values[0:high, i]"),
            ("op=nl.maximum, data=bank, axis=1)", "op=nl.minimum, data=bank, axis=1)"),
            ("if spans and spans[-1][1] == first", "if spans and spans[-1][1] <= first"),
        ),
    ),
    Case(
        "block_sparse_attention_backward",
        "block_plan block_attention block_attention_backward",
        lambda: _gradients(_mask(), 512),
        5e-6,
        (
            ("moving=keys[0:high, block]", "moving=keys[0:high, 0]"),
            ("parts_of(k[head], size, plan), scale)", "parts_of(k[head], size, plan), 1.0)"),
            ("steps[done + i], p[:, columns]", "steps[done + i], ds[:, columns]"),
            ("data1=part, data2=whole, op=nl.add", "data1=part, data2=part, op=nl.add"),
        ),
    ),
    Case(
        "deltanet",
        "triangular deltanet_steps deltanet",
        _delta,
        2e-6,
        (
            ("while size < rows:", "while 2 * size < rows:"),
            ("keep_where(strict, -1, -1, 1, 0.0)", "keep_where(strict, 0, -1, 1, 0.0)"),
            ("operand0=shrunk[:, n : n + 1]", "operand0=shrunk[:, 0:1]"),
            ("scaled(k, ends[1])", "scaled(k, ends[0])"),
        ),
    ),
    Case(
        "deltanet_chunk",
        "triangular deltanet_steps deltanet",
        lambda: (*(each[:, :100] for each in _delta()), normal(2, 64, 12, seed=4)),
        2e-6,
        (
            ("data=from_state[:, n], scale=grown[:, n : n + 1]", "data=from_state[:, n]"),
            ("channel_multiplier=-1,", "channel_multiplier=-2,"),
            ("for j in range(size - 1):", "for j in range(size - 2):"),
            ("moving=half[:, n, pair])", "moving=half[:, 0, pair])"),
        ),
    ),
    Case(
        "ao_to_mo",
        "chemistry",
        lambda: _molecule()[:3],
        2e-6,
        (
            ("half_transformed(integrals[first:last], left)", "half_transformed(integrals[0 : last - first], left)"),
            ("stationary=pages[p][0:rows, t, columns]", "stationary=pages[0][0:rows, t, columns]"),
            ("for tile in range(tiles):", "for tile in range(tiles - 1):"),
            ("if rows % tiles > 0:", "if rows % tiles == 0 and columns < 100:"),
        ),
    ),
    Case(
        "df_mp2",
        "chemistry",
        _molecule,
        2e-6,
        (
            ("operand0=2.0, op1=nl.add, operand1=sums[:, 0:1]", "operand0=1.0, op1=nl.add, operand1=sums[:, 0:1]"),
            ("exchange(exchanged[:, n], u[:, n], unit)", "exchange(exchanged[:, n], u[:, 0], unit)"),
            ("range(i + 1, nocc, together)", "range(i + 2, nocc, together)"),
            ("op0=nl.add,\n            operand0=own,", "op0=nl.subtract,\n            operand0=own,"),
        ),
    ),
    Case(
        "moe",
        "moe",
        _experts,
        3e-6,
        (
            ("expert = number[:, block : block + 1]", "expert = number[:, 0:1]"),
            ("vector_offset=index[:, j : j + 1]", "vector_offset=index[:, 0:1]"),
            ("bias=peak, reduce_op=nl.add", "bias=total, reduce_op=nl.add"),
            ("data1=silu, data2=passing", "data1=silu, data2=opening"),
        ),
    ),
)


def mutant(case: Case, fault: tuple[str, str]) -> ModuleType:
    """The module of a kernel with a fault in it, or in one of those that it is made of."""
    names = [f"tilewright.kernels.{name}" for name in case.modules.split()]
    true = {name: importlib.import_module(name) for name in names}
    texts = {name: Path(str(module.__file__)).read_text(encoding="utf-8") for name, module in true.items()}
    assert any(fault[0] in text for text in texts.values()), f"{case.modules}: there is no {fault[0]!r}"
    made = ModuleType("none")
    try:
        for name, text in texts.items():
            made = sys.modules[name] = ModuleType(name)
            made.__dict__.update(__file__=true[name].__file__, __package__=true[name].__package__)
            exec(compile(text.replace(fault[0], fault[1]), str(true[name].__file__), "exec"), made.__dict__)
    finally:
        sys.modules.update(true)
    return made


def off(kernel: Any, arguments: tuple[Any, ...]) -> float:
    """How far a kernel's results are off; infinite where it is refused or fails."""
    try:
        with np.errstate(all="ignore"):
            return error(kernel(*arguments), kernel.exact(*arguments))
    except (tw.TileError, ValueError, IndexError, TypeError):
        return np.inf


def main() -> int:
    """Try mutants and print those that nothing finds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = sorted({case.kernel for case in CASES})
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"{', '.join(names)}; all by default")
    asked = parser.parse_args().kernels
    if unknown := set(asked) - set(names):
        parser.error(f"no mutants of {', '.join(sorted(unknown))}")
    cases = [case for case in CASES if not asked or case.kernel in asked]
    survivors = 0
    for case in cases:
        arguments = case.arguments()
        true = off(getattr(tw.kernels, case.kernel), arguments)
        assert true <= case.most, f"{case.kernel} itself is off by {true}"
        for fault in case.faults:
            found = off(getattr(mutant(case, fault), case.kernel), arguments) > case.most
            survivors += not found
            print(
                f"{'found   ' if found else 'SURVIVED'} {case.kernel}: {fault[0].strip()} -> {fault[1].strip()}",
                flush=True,
            )
    print(f"{sum(len(case.faults) for case in cases)} mutants, {survivors} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
