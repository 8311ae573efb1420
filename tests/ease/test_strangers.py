"""What people stumbled over who followed the tutorial with kernels of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.cli.kit import CommandLine
from tilewright.cli.compile_args import value_of

MODEL = """\
import numpy as np


class Layer:
    def forward(self, x):
        return np.maximum(x, 0)


def ema(x, alpha=0.1):
    return np.multiply(x, alpha)
"""

STORES = """\
import nki
import nki.language as nl
import numpy as np


@nki.jit
def copy(x):
    out = nl.zeros(x.shape, dtype=x.dtype)
    nl.store(out, nl.load(x))
    return out


print(copy(np.ones((128, 64), np.float32)))
"""

LOADS = """\
import nki
import nki.language as nl
import numpy as np


@nki.jit
def copy(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out


print(copy(np.ones((96,), np.float32)))
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {"model.py": MODEL, "stores.py": STORES, "loads.py": LOADS}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ("model.py:Layer.forward", "E703", "methods need their object"),
        ("model:ema", "E701", "did you mean model.py?"),
        ("modle:ema", "E701", "give the path of a Python script"),
    ],
)
def test_functions_are_named_by_their_file(given: str, code: str, words: str, place: Path, tilewright: CommandLine):
    result = tilewright(f"compile {given} --arg 8x8:float32")
    assert (result.codes(), result.code) == ([code], 2)
    assert words in result.err


def test_sizes_without_an_x_are_numbers_and_it_is_said(place: Path, tilewright: CommandLine):
    result = tilewright("compile model.py:ema --arg 64,128")
    said = " ".join((result.out + result.err).split())
    assert "x is [the number 64, the number 128]" in said
    assert "no argument is an array" in said and "64x128:float32" in said


def test_a_function_of_no_array_says_so():
    made = tw.compile(lambda n: np.eye(4, dtype=np.float32) * n, 3)
    assert any("no argument is an array" in each for each in made.report.warnings)
    made = tw.compile(lambda x, n: x * n, tw.spec((4, 4), "float32"), 3)
    assert not any("no argument is an array" in each for each in made.report.warnings)


def test_a_result_that_is_not_there_is_no_address(place: Path, tilewright: CommandLine):
    result = tilewright("check loads.py")
    assert "<the result of a kernel that was refused>" in result.out + result.err
    assert "0x" not in result.out + result.err
    assert "nl.load(x.reshape((96, 1)))" in result.err


def test_a_store_to_a_tile_names_the_memory_of_outputs(place: Path, tilewright: CommandLine):
    result = tilewright("run stores.py")
    assert "buffer=nl.shared_hbm" in result.err
    line = next(line for line in result.err.splitlines() if "nl.store(out" in line)
    below = result.err.splitlines()[result.err.splitlines().index(line) + 1]
    assert below.count("^") == len("out") and below.index("^") == line.index("out")


RECURS = """\
import nki
import numpy as np


@nki.jit
def copy(x):
    return copy(x)


copy(np.ones((128, 64), np.float32))
"""


def test_a_kernel_that_calls_itself_is_no_bug_of_ours(tmp_path: Path, tilewright: CommandLine):
    """Python gives up wherever the stack is full, which may be in a line of this package."""
    script = tmp_path / "recurs.py"
    script.write_text(RECURS)
    result = tilewright("run", script)
    assert result.code == 1 and "internal error" not in result.err
    assert result.err.rstrip().splitlines()[-1].startswith("RecursionError") and "return copy(x)" in result.err


def test_a_program_is_not_saved_over_its_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A function in a file of its name, saved into the folder of the file."""
    source = tmp_path / "double.py"
    source.write_text("def double(x):\n    return x * 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    import double  # type: ignore[import-not-found]

    kernel = tw.compile(double.double, tw.spec((4, 4), "float32"))
    with pytest.raises(tw.TileError, match="would be lost"):
        kernel.save(tmp_path)
    assert source.read_text().startswith("def double(x)") and [*tmp_path.glob("double.*")] == [source]
    assert kernel.save(tmp_path / "made")


OPTIONS = """\
import sys

print(*sys.argv[1:])
"""


@pytest.mark.parametrize("given", ["--port 80", "--rows=3 -n 2", "--jobs", "-- --jso --htm"])
def test_options_of_the_script_are_its_own(given: str, tmp_path: Path, tilewright: CommandLine):
    """Only what is one slip away from an option of the command is refused (bad_commands.toml), and not behind --."""
    script = tmp_path / "options.py"
    script.write_text(OPTIONS)
    assert tilewright("run", script, *given.split()).out.split() == [each for each in given.split() if each != "--"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("float32[4, 4]", "write it as 4x4:float32"),
        ("f32[7]", "write it as 7:f32"),
        ("np.ones(3)", "quote what is a text"),
        ("missing.NPZ", "give a file that np.save wrote"),
    ],
)
def test_what_was_meant_as_an_array_is_no_text(text: str, words: str, place: Path, tilewright: CommandLine):
    result = tilewright("compile model.py:ema --arg", text)
    assert (result.codes(), result.code) == (["E704"], 2) and words in result.err


@pytest.mark.parametrize("text", ["bilinear", "ij,jk->ik", "'np.ones(3)'", "same-size 2"])
def test_words_are_texts(text: str):
    assert value_of(text) == text.strip("'")


FIXED = """\
import numpy as np


def fixed(x):
    return np.ones((3, 3))


def same(x):
    return x
"""


def test_nothing_to_compute_is_said(tmp_path: Path, tilewright: CommandLine):
    (tmp_path / "fixed.py").write_text(FIXED)
    result = tilewright(f"compile {tmp_path / 'fixed.py'}:fixed --arg 4x4")
    assert result.code == 0 and "no result depends on an argument" in result.out
    result = tilewright(f"compile {tmp_path / 'fixed.py'}:same --arg 4x4")
    assert "no result depends" not in result.out and "; nothing has to be moved" in result.out


def nested(depth: int) -> Any:
    made: Any = np.ones((4, 4), np.float32)
    for _ in range(depth):
        made = [made]
    return made


def endless() -> Any:
    made: list[Any] = [np.ones((4, 4), np.float32)]
    made.append(made)
    return made


@pytest.mark.parametrize("tree", [nested(3000), endless()], ids=["deep", "endless"])
def test_trees_without_end_are_refused(tree: Any):
    """Python's stack ends long before: that was an internal error."""
    x = np.ones((4, 4), np.float32)
    for call in (
        lambda: tw.compile(lambda a, b: a + 1, x, tree),
        lambda: tw.jit(lambda a, b: a + 1)(x, tree),
        lambda: tw.compile(lambda a: tree, x),
    ):
        with pytest.raises(tw.TileError, match="nested more than 99 deep, or holds itself"):
            call()
    assert tw.compile(lambda a: a, nested(20)).report.hbm_bytes >= 0


def test_views_of_views_have_no_end():
    """Thousands of them, read, written to, and converted integers among them."""

    def shortened(a: Any) -> Any:
        for _ in range(2000):
            a = a[1:]
        return a

    def turned(a: Any) -> Any:
        view = a
        for _ in range(2000):
            view = view.T
        view[0] = 7
        return a

    def above(a: Any) -> Any:
        a = a.astype(np.float64)
        for _ in range(2000):
            a = a.T
        return a > 2.5

    x = np.arange(8040, dtype=np.float32).reshape(2010, 4)
    np.testing.assert_array_equal(tw.compile(shortened, x)(x), x[2000:])
    y = np.arange(16, dtype=np.float32).reshape(4, 4)
    mine, theirs = y.copy(), y.copy()
    tw.compile(turned, y)(mine)
    turned(theirs)
    np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(tw.compile(above, y.astype(np.int32))(y.astype(np.int32)), y > 2.5)
