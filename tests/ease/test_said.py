"""What commands say of themselves: pins, plain functions, what the compiler may leave out; limits that are checked."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.cli.kit import ROOT, CommandLine
from tilewright import compiler
from tilewright.cache import Cache

PLAIN = """\
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def copy(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


@nki.jit
def held(x):
    nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.private_hbm)
    return copy.__wrapped__(x)


def plain(x):
    return x + 1
"""


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    (tmp_path / "kernels.py").write_text(PLAIN, encoding="utf-8")
    return tmp_path / "kernels.py"


def test_pins_say_what_they_change(tilewright: CommandLine, scripts: Path):
    command = "profile --kernel copy --shape x=512x512"
    plain = tilewright(f"{command} --json", scripts).json["profiles"][0]["latency_us"]
    result = tilewright(f"{command} --pin 9:swdge", scripts)
    assert f"copy without the pins {plain:.1f} us, with them " in result.out
    assert result.out.rstrip().endswith(("faster", "slower", "no difference"))
    assert tilewright(f"{command} --pin 9:swdge --json", scripts).json["profiles"][0]["unpinned_latency_us"] == plain


@pytest.mark.parametrize("command", ["check", "profile"])
def test_a_plain_function_is_no_kernel(command: str, tilewright: CommandLine, scripts: Path):
    result = tilewright(f"{command} --kernel plain --shape x=128x128", scripts)
    assert result.code == 2 and result.codes() == ["E703"]
    assert "is a plain function" in result.err and f"tilewright compile {scripts}:plain" in result.err


def test_against_a_plain_function(tilewright: CommandLine, scripts: Path, tmp_path: Path):
    (tmp_path / "other.py").write_text("def copy(x):\n    return x + 1\n", encoding="utf-8")
    result = tilewright(f"profile --kernel copy --shape x=128x128 --against {tmp_path / 'other.py'}", scripts)
    assert result.code == 2 and "copy of" in result.err and "is a plain function" in result.err


@pytest.mark.parametrize("kernel", ["copy", "held"])
def test_hbm_has_an_end_for_kernels_too(kernel: str, tilewright: CommandLine, scripts: Path):
    """Arguments alone fit; with the tensors that the kernel makes they do not."""
    result = tilewright(f"check --kernel {kernel} --shape x=65536x262144", scripts)
    assert result.code == 1 and result.codes() == ["E303"] and "128.0 GiB; a chip of trn2 has 96.0 GiB" in result.err
    assert tilewright("check --kernel copy --shape x=65536x131072", scripts).code == 0


def program(x: Any) -> Any:
    return np.tanh(x) + 1


def test_a_link_in_the_cache_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compiler, "SLOW_SECONDS", -1.0)
    x = tw.spec((128, 64), "float32")
    _ = tw.compile(program, x).tile_ir
    (entry,) = Cache(tmp_path / "cache").entries()
    other = entry.rename(tmp_path / "other")
    os.utime(other, (1.0, 1.0))
    entry.symlink_to(other)
    again = tw.compile(program, x)
    assert again.lowered.draft is not None, "made anew"
    assert other.stat().st_mtime == 1.0 and not entry.is_symlink(), "its place is taken, what it led to is not touched"


@pytest.mark.parametrize("name", ["../../x", "/x", "..", "a\0b", "x" * 400, "class"])
def test_whatever_a_function_is_called_files_stay_in_their_folder(name: str, tmp_path: Path):
    def function(x: Any) -> Any:
        return x + 1

    function.__name__ = name
    files = tw.compile(function, tw.spec((4, 4), "float32")).save(tmp_path / "inner")
    assert {file.resolve().parent for file in files} == {(tmp_path / "inner").resolve()}
    assert [each.name for each in tmp_path.iterdir()] == ["inner"]


def test_every_variable_of_the_environment_is_in_the_list():
    """docs/diagnostics.md names what the sources read."""
    root = Path(tw.__file__).parent
    files = [*root.rglob("*.py")]
    read = {name for file in files for name in re.findall(r"TILEWRIGHT_[A-Z_]+", file.read_text(encoding="utf-8"))}
    listed = (ROOT / "docs" / "diagnostics.md").read_text(encoding="utf-8")
    assert read and [name for name in sorted(read) if f"| `{name}` |" not in listed] == []
