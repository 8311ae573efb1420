"""Over two hundred bad command lines: one diagnostic each, the right exit code, no traceback, no file of ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.kit import CommandLine
from tilewright.target import tomllib

TABLE = tomllib.loads((Path(__file__).parent / "bad_commands.toml").read_text(encoding="utf-8"))["commands"]

KERNELS = """\
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def copy(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


def plain(x):
    return x + 1
"""
MODEL = """\
import numpy as np

CONSTANT = 3


class Klass:
    pass


def add(x):
    return x + 1


def rows(x, i):
    return x[i]


def gen(x):
    yield x


async def co(x):
    return x


def text(x):
    return "text"


def nothing(x):
    _ = x + 1


def choose(x):
    return x if x[0, 0] > 0 else -x


def misfit(x):
    return x + np.ones(7)


def obj(x):
    return Klass()


def outside(x):
    return x.sum(axis=5)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the commands name."""
    made = tmp_path_factory.mktemp("bad")
    files = {"kernels.py": KERNELS, "model.py": MODEL, "empty.py": "", "syntax.py": "def f(:\n", "text.txt": "text"}
    for name, text in {**files, "text.json": "text", "text.npy": "text"}.items():
        (made / name).write_text(text, encoding="utf-8")
    (made / "bytes.py").write_bytes(b"# \xff\xfe\nx = 1\n")
    for name in ("folder", "folder.json", "folder.npy"):
        (made / name).mkdir()
    np.save(made / "objects.npy", np.array([{}, None], object), allow_pickle=True)
    return made


def test_the_table_is_long():
    assert len({command for command, _, _ in TABLE}) >= 200


@pytest.mark.parametrize(("command", "code", "ends"), TABLE, ids=[row[0] or "nothing" for row in TABLE])
def test_bad_commands(
    command: str, code: str, ends: int, place: Path, tilewright: CommandLine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(place)
    monkeypatch.setenv("TILEWRIGHT_CACHE", "off")
    before = {*place.iterdir()}
    result = tilewright(command)
    assert (result.codes(), result.code) == ([code], ends), result.err
    assert "Traceback" not in result.err and str(place) not in result.out
    assert {*place.iterdir()} - before <= {place / "__pycache__"}, "nothing is written"
