"""Repetitions become loops; what is executed stays the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emit.kit import same
from tilewright.emit.roll import roll
from tilewright.ir.verify import verify
from tilewright.tile.text import parse_tile

RNG = np.random.default_rng(0)
INPUT = RNG.standard_normal((128, 512)).astype(np.float32)


def kernel(body: str) -> str:
    return f"""kernel k(%x: f32[128, 512]@hbm) -> (%out: f32[128, 512]@shared_hbm) {{
  %t = alloc f32[128, 512]@sbuf
  %s = alloc f32[128, 8, 64]@sbuf
  dma_copy %t, %x
  dma_copy %s@(0; [512, 128], [1, 512]), %x
{body}
  dma_copy %out, %t
}}
"""


def rolled(body: str) -> list[str]:
    """The loop's part of the emitted kernel."""
    graph = parse_tile(kernel(body))
    changed = roll(graph.clone())
    assert verify(changed) == []
    lines = [line.removeprefix("    ") for line in same(graph, [INPUT]).splitlines()]
    first = next(i for i, line in enumerate(lines) if "reshape((128, 512))" in line)
    return [line for line in lines[first + 1 : lines.index("nisa.dma_copy(dst=out, src=t)")] if line]


def scalar(start: int, size: int = 64, value: float = 2.0, name: str = "t") -> str:
    view = f"%{name}[:, {start} : +{size}]"
    return f"  tensor_scalar {view}, {view}, {value} {{op0 = add}}"


def test_ops_that_move_evenly_are_one_loop() -> None:
    assert rolled("\n".join(scalar(start) for start in (0, 128, 256, 384))) == [
        "for j in range(4):",
        "    nisa.tensor_scalar(dst=t[:, nl.ds(j * 128, 64)], data=t[:, nl.ds(j * 128, 64)], op0=nl.add, operand0=2.0)",
    ]


@pytest.mark.parametrize(
    "body",
    [
        # Two are too few; steps, sizes, numbers that differ.
        "\n".join(scalar(start) for start in (0, 128)),
        "\n".join(scalar(start) for start in (0, 128, 192)),
        "\n".join(scalar(start, size) for start, size in ((0, 64), (128, 32), (256, 64))),
        "\n".join(scalar(start, value=value) for start, value in ((0, 1.0), (128, 2.0), (256, 3.0))),
        # Transfers have their own queues.
        "\n".join(f"  dma_copy %t[:, {start} : +64], %x[:, {start} : +64]" for start in (0, 64, 128, 192)),
    ],
)
def test_what_is_not_a_repetition_stays(body: str) -> None:
    assert not any(line.startswith("for ") for line in rolled(body))


def test_several_ops_repeat_together() -> None:
    body = "\n".join(
        f"{scalar(start)}\n  tensor_tensor %t[:, {start} : +64], %t[:, {start} : +64], "
        f"%s@({start}; [512, 128], [1, 64]) {{op = add}}"
        for start in (0, 64, 128, 192)
    )
    lines = rolled(body)
    assert lines[0] == "for j in range(4):"
    assert any("data2=s[:, j, :]" in line for line in lines)
    assert sum("nisa." in line for line in lines) == 2


def test_loops_repeat_too() -> None:
    body = "\n".join(scalar(64 * outer + 16 * inner, 8) for outer in (0, 1, 2, 4) for inner in (0, 1, 2))
    lines = rolled(body)
    # Three of the outer steps are even, the last is not.
    assert lines[0] == "for j in range(3):" and lines[1] == "    for j_2 in range(3):"
    assert sum(line.strip().startswith("for ") for line in lines) == 3


STEP = """  %a{n} = alloc f32[128, 64]@sbuf{place}
  tensor_scalar %a{n}, %s@({start}; [512, 128], [1, 64]), 2.0 {{op0 = multiply}}
  tensor_tensor %t[:, {start} : +64], %t[:, {start} : +64], %a{n} {{op = add}}"""


def with_tiles(places: list[str], more: str = "") -> str:
    """The source of a kernel whose repetitions have a tile each."""
    steps = [STEP.format(n=n, start=64 * n, place=place) for n, place in enumerate(places)]
    graph = parse_tile(kernel("\n".join(steps) + more))
    for op in graph.ops:
        for value in op.results:
            value.name = value.name if value.name in ("t", "s") else "a"
    return same(graph, [INPUT])


def test_a_repetition_may_have_tiles_of_its_own() -> None:
    source = with_tiles([""] * 4)
    assert "for j in range(4):\n        a = nl.ndarray(" in source
    assert source.count("a = nl.ndarray") == 1


def test_addresses_move_with_the_repetition() -> None:
    source = with_tiles([f" address (0, {8192 + 256 * n})" for n in range(4)])
    assert source.count("a = nl.ndarray") == 1
    assert "buffer=nl.sbuf, address=(0, j * 256 + 8192))" in source
    assert "for j in range(4)" not in with_tiles([f" address (0, {256 * n * n})" for n in range(4)])


def test_transfers_keep_their_lines() -> None:
    step = "  %a{n} = alloc f32[128, 64]@sbuf\n  dma_copy %a{n}, %x[:, {start} : +64]"
    body = "\n".join(step.format(n=n, start=64 * n) for n in range(4))
    assert "for j in" not in same(parse_tile(kernel(body)), [INPUT])


def test_a_tile_that_is_used_later_keeps_its_repetition_out() -> None:
    more = "\n  tensor_tensor %t[:, 0 : +64], %t[:, 0 : +64], %a0 {op = add}"
    assert "for j in range(3):" in with_tiles([""] * 4, more)


def test_a_value_carried_from_one_repetition_to_the_next_is_no_repetition() -> None:
    lines = ["  %a0 = alloc f32[128, 64]@sbuf", "  dma_copy %a0, %x[:, 0 : +64]"]
    for n in range(1, 5):
        lines.append(f"  %a{n} = alloc f32[128, 64]@sbuf")
        lines.append(f"  tensor_scalar %a{n}, %a{n - 1}, 2.0 {{op0 = multiply}}")
        lines.append(f"  tensor_tensor %t[:, {64 * n} : +64], %t[:, {64 * n} : +64], %a{n} {{op = add}}")
    graph = parse_tile(kernel("\n".join(lines)))
    for op in graph.ops:
        for value in op.results:
            value.name = value.name if value.name in ("t", "s") else "a"
    assert "for j in" not in same(graph, [INPUT])
