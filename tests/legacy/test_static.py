"""What the source alone decides: found without running anything, on the line that a run would name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.kit import CommandLine
from tilewright.catalogue import catalogue
from tilewright.errors import Diagnostic
from tilewright.nki.static import examine_source

DECIDABLE = (
    "err_cannot_update_immutable_parameter",
    "err_control_flow_condition_depending_on_arange",
    "err_local_variable_used_out_of_scope",
    "err_nested_kernel_with_spmd_grid",
    "err_shared_hbm_must_in_kernel_level",
    "W103",
)
LEGACY = [code for code, entry in catalogue().items() if entry.bad.kind == "legacy"]
IMPORTS = """
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
"""


def findings(source: str) -> tuple[Diagnostic, ...]:
    return examine_source(source, "example.py").diagnostics


def lines(source: str) -> list[tuple[str, int]]:
    return [(each.code, each.location.line) for each in findings(source) if each.location is not None]


def marked(source: str, code: str) -> list[tuple[str, int]]:
    """The lines of a source that end with `# error`."""
    return [(code, at) for at, line in enumerate(source.splitlines(), 1) if line.endswith("# error")]


@pytest.mark.parametrize("code", DECIDABLE)
def test_found_in_the_source(code: str) -> None:
    found = findings(catalogue()[code].bad.source)
    assert [each.code for each in found] == [code], "\n".join(map(str, found))


@pytest.mark.req("S2-31")
@pytest.mark.parametrize("code", LEGACY)
def test_no_false_alarm(code: str) -> None:
    assert findings(catalogue()[code].good.source) == ()
    found = [each.code for each in findings(catalogue()[code].bad.source)]
    assert found == ([code] if code in DECIDABLE else [])


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (
            "err_shared_hbm_must_in_kernel_level",
            """
def make(shape):
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)  # error

def through(shape):
    return make(shape)

@nki.jit
def kernel(a):
    out = through(a.shape)
    nl.store(out, nl.load(a))
    return out
""",
        ),
        (
            "err_local_variable_used_out_of_scope",
            """
def kernel(a, out):
    for i in nl.affine_range(4):
        for j in range(2):
            tile = nl.load(a[i])
            other = tile
        nl.store(out[i], other)  # error

nki.baremetal(kernel)
""",
        ),
        (
            "err_control_flow_condition_depending_on_arange",
            """
def outer():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        grid = nl.mgrid[0:128, 0:512]
        columns = 2 * grid.x + 1
        while not columns > 5:  # error
            nl.store(out, nl.load(a))
        return out
    return kernel
""",
        ),
        (
            "err_nested_kernel_with_spmd_grid",
            """
@nki.trace
def inner(a, out):
    nl.store(out, nl.load(a))

@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(2):
        inner[i + 1](a, out)  # error
    return out
""",
        ),
        (
            "err_cannot_update_immutable_parameter",
            """
@nki.jit
def kernel(a, b: nki.tensor):
    nisa.dma_copy(src=a, dst=b[0:128])  # error
    return b
""",
        ),
        ("E114", "@nki.jit\ndef kernel(a):\n    return nl.does_not_exist(a)  # error\n"),
    ],
)
def test_variations(code: str, body: str) -> None:
    source = IMPORTS + body
    assert lines(source) == marked(source, code)


@pytest.mark.parametrize(
    "body",
    [
        # Another name for a tensor creates none; loops that are unrolled and static conditions open no block.
        "tile = nl.load(a)\n    for i in range(2):\n        last = tile\n    nl.store(out, last)",
        "for i in nl.static_range(2):\n        tile = nl.load(a)\n    nl.store(out, tile)",
        "if flag:\n        tile = nl.load(a)\n    else:\n        tile = nl.load(a)\n    nl.store(out, tile)",
        "for i in range(2):\n        size = nl.par_dim(4)\n        rows = nl.ds(0, 4)\n    nl.store(out[rows], 0)",
        "for i in range(2):\n        tile = nl.load(a)\n    tile = nl.load(a)\n    nl.store(out, tile)",
        "index = nl.arange(4)[:, None]\n    if index is None or index.shape[0] > 2:\n        nl.store(out[index], 0)",
        "a = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.hbm)\n    nl.store(a, 0)\n    nl.store(out, nl.load(a))",
        "if hasattr(nl, 'later'):\n        nl.later(out)\n    nl.store(out, nl.load(a))",
    ],
)
def test_right_kernels_are_left_alone(body: str) -> None:
    head = "@nki.jit\ndef kernel(a, flag):\n    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n    "
    assert findings(f"{IMPORTS}{head}{body}\n    return out\n") == ()


def test_the_part_of_python_that_current_kernels_are_written_in() -> None:
    source = """
import nki
import nki.language as nl
from enum import Enum

class Color(Enum):
    RED = 1

class Shape:
    pass

class Config(nl.NKIObject):
    size: int = 4

def helper(a):
    try:
        return Color.RED < a
    finally:
        pass

@nki.jit
def kernel(a, *, size):
    if a is None:
        return {1: a}
    with nl.no_reorder():
        helper(Shape())
    return nl.arange(4), Config()
"""
    found = examine_source(source, "example.py").diagnostics
    assert [(each.rule, each.location and each.location.line) for each in found] == [
        ("R-language-08", 16),
        ("R-language-06", 17),
        ("R-language-01", 21),
        ("R-language-02", 23),
        ("R-language-04", 24),
        ("R-language-05", 26),
        (None, 27),
    ]
    relaxed = examine_source(source, "example.py", "lenient").diagnostics
    assert {each.severity for each in relaxed if each.rule is not None} == {"warning"}


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "example.py"
    script.write_text(catalogue()["err_nested_kernel_with_spmd_grid"].bad.source + "\nraise SystemExit('it was run')\n")
    tilewright = CommandLine(capsys)
    result = tilewright("check --static", script)
    assert result.code == 1
    assert result.codes() == ["err_nested_kernel_with_spmd_grid"]
    found = tilewright("check --static --json", script).json
    assert [each["code"] for each in found["targets"]["source"]["diagnostics"]] == ["err_nested_kernel_with_spmd_grid"]
    script.write_text("import nki\n")
    assert tilewright("check --static", script).codes() == ["E703"]
