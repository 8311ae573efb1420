"""Over three hundred bad command lines: one diagnostic each, the right exit code, no traceback, no file of ours."""

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


@nki.jit
def scale(x, factor):
    tile = nl.load(x)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    nl.store(out, tile)
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


def kwonly(x, *, eps):
    return x + eps


def exits(x):
    raise SystemExit(0)


def names(x):
    return np.array(["a", "b"])


def complexes(x):
    return x * 1j


def endless(x):
    made = [x]
    made.append(made)
    return made


def unknown(x):
    return x.nosuch
"""
OTHERS = {
    "add.py": "def add(x):\n    return x + 1\n",
    "empty.py": "",
    "syntax.py": "def f(:\n",
    "null.py": "x = 1\0\n",
    "indent.py": "def f():\nreturn 1\n",
    "exit.py": "raise SystemExit(5)\n",
    "text.txt": "text",
    "text.json": "text",
    "text.npy": "text",
    "list.json": "[]",
    "nan.json": "NaN",
    "num.json": "3",
    "nested.py": "x = " + "-" * 20_000 + "1\n",
    "codec.py": "# -*- coding: nosuchcodec -*-\n",
    "bad.toml": "name = \n",
    "empty.toml": "",
    "nothing.npy": "",
    "zip.npy": "PK\x03\x04 and no more",
    "deep.json": "[" * 100_000 + "]" * 100_000,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the commands name."""
    made = tmp_path_factory.mktemp("bad")
    for name, text in {"kernels.py": KERNELS, "model.py": MODEL, **OTHERS}.items():
        (made / name).write_text(text, encoding="utf-8")
    (made / "utf16.py").write_text("x = 1\n", encoding="utf-16")
    for name in ("loop.py", "loop.json"):
        (made / name).symlink_to(name)
    (made / "bytes.py").write_bytes(b"# \xff\xfe\nx = 1\n")
    for name in ("folder", "folder.json", "folder.npy"):
        (made / name).mkdir()
    np.save(made / "objects.npy", np.array([{}, None], object), allow_pickle=True)
    np.save(made / "complex.npy", np.ones(3, complex))
    np.save(made / "rows.npy", np.ones((4, 4), np.float32))
    (made / "cut.npy").write_bytes((made / "rows.npy").read_bytes()[:90])
    with (made / "endless.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (1 << 50,)})
    with (made / "several.npy").open("wb") as file:
        np.savez(file, a=np.ones(3), b=np.ones(3))
    return made


def test_the_table_is_long():
    assert len({command for command, _, _ in TABLE}) >= 300


@pytest.mark.parametrize(("command", "code", "ends"), TABLE, ids=[row[0] or "nothing" for row in TABLE])
def test_bad_commands(
    command: str, code: str, ends: int, place: Path, tilewright: CommandLine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(place)
    monkeypatch.setenv("TILEWRIGHT_CACHE", "off")
    before = {file: file.read_bytes() for file in place.iterdir() if file.is_file()}
    others = {file for file in place.iterdir() if not file.is_file()}
    result = tilewright(command)
    assert (result.codes(), result.code) == ([code], ends), result.err
    assert "Traceback" not in result.err and str(place) not in result.out
    assert "= hint: " in result.err + result.out, "what helps"
    assert {*place.iterdir()} - before.keys() - others <= {place / "__pycache__"}, "nothing is written"
    assert before == {file: file.read_bytes() for file in before}, "nothing is lost"
