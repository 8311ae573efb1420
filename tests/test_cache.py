"""The cache of compiled kernels: what is read is what was made, anything else is made anew."""

from __future__ import annotations

import inspect
from concurrent.futures import ProcessPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import cache as cache_module
from tilewright import compiler
from tilewright.cache import Cache, Damaged, compiler_key, default_folder, open_cache, program_key
from tilewright.compiler import Compiled
from tilewright.programs.saving import versions
from tilewright.target import get_target

X = tw.spec((200, 64), "float32")
Y = tw.spec((64, 96), "bfloat16")
TABLE = np.arange(64, dtype=np.float32) ** 2


def program(x: Any, y: Any) -> Any:
    wide = np.tanh(x * TABLE) @ y.astype(np.float32)
    return wide / wide.sum(axis=1, keepdims=True), wide.max(axis=0)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """An empty cache that keeps every kernel."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(compiler, "SLOW_SECONDS", -1.0)
    return Cache(tmp_path)


def made(function: Any = program, **options: Any) -> Compiled:
    kernel = tw.compile(function, X, Y, **options)
    _ = kernel.tile_ir
    return kernel


def was_read(kernel: Compiled) -> bool:
    return kernel.lowered.draft is None


@pytest.mark.req("S0-26")
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_what_is_read_is_what_was_made(kept: Cache, target: str):
    first, second = made(target=target), made(target=target)
    assert not was_read(first) and was_read(second) and len(kept.entries()) == 1
    assert str(second.tile_ir) == str(first.tile_ir) and second.source == first.source
    assert second.plan == first.plan and second.report.to_dict() == first.report.to_dict()
    for one, other in zip(second.constants, first.constants, strict=True):
        assert one.dtype == other.dtype and one.tobytes() == other.tobytes()
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((200, 64)).astype(np.float32), rng.standard_normal((64, 96)).astype(Y.dtype.np)
    for one, other in zip(second(x, y), first(x, y), strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.req("S0-26")
def test_anything_else_is_another_entry(kept: Cache, monkeypatch: pytest.MonkeyPatch):
    made()

    def misses(**options: Any) -> bool:
        return not was_read(made(**options))

    monkeypatch.setitem(globals(), "TABLE", TABLE + np.eye(64, dtype=np.float32)[5])
    assert misses() and not misses()
    monkeypatch.setitem(globals(), "TABLE", TABLE - 0)
    assert misses(precision="bf16") and misses(target="trn1")
    assert misses(target=get_target("trn2").replace({"memory.sbuf_usable_bytes": 100_000}))
    moved: dict[str, Any] = {"np": np, "TABLE": TABLE}
    exec(f"\n\n{inspect.getsource(program)}", moved)
    assert misses(function=moved["program"]), "the same text on other lines"
    monkeypatch.setattr(cache_module, "compiler_key", lambda: "another compiler")
    assert misses() and not misses()


@pytest.mark.req("S0-26")
def test_the_bytes_of_the_compiler_change_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    inner = tmp_path / "lower"
    inner.mkdir()
    monkeypatch.setattr(cache_module.resources, "files", lambda package: tmp_path)
    keys = []
    for text in ("x = 1", "x = 2", "x = 1"):
        (inner / "rule.py").write_text(text)
        compiler_key.cache_clear()
        keys.append(compiler_key())
    compiler_key.cache_clear()
    assert keys[0] == keys[2] != keys[1]


@pytest.mark.req("S0-26")
def test_a_number_of_the_program_changes_its_key():
    def key(function: Any) -> str:
        return program_key(tw.compile(function, X).tensor_ir, get_target("trn2"), "float32")

    keys = {key(eval(f"lambda x: x * {factor}")) for factor in ("2.0", "2.0000002", "-2.0", "2")}
    assert len(keys) == 3, "2.0 and 2 are the same number of float32"


@pytest.mark.req("S0-26")
@pytest.mark.parametrize("damage", ["cut", "bit", "head", "empty", "swapped"])
def test_damage_is_found_told_and_mended(kept: Cache, damage: str):
    made()
    (file,) = kept.entries()
    content = file.read_bytes()
    changed = {
        "cut": content[:-10],
        "bit": content[:200] + bytes([content[200] ^ 1]) + content[201:],
        "head": b"#" + content[1:],
        "empty": b"",
        "swapped": content[:20] + content[20:52][::-1] + content[52:],
    }[damage]
    file.write_bytes(changed)
    kernel = made()
    assert not was_read(kernel) and any("damaged" in note for note in kernel.report.warnings)
    assert file.read_bytes() == content and was_read(made())


def test_well_formed_files_that_are_no_kernels(kept: Cache):
    for member in ({"tile.ir": "nonsense"}, {}):
        found = cache_module._read(_entry(member))
        assert isinstance(found, Damaged) and "cannot be read" in found.why


def _entry(members: dict[str, str]) -> bytes:
    import hashlib
    import io
    import zipfile

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    content = packed.getvalue()
    return cache_module._HEAD + hashlib.sha256(content).digest() + content


def test_oldest_go_first(kept: Cache, monkeypatch: pytest.MonkeyPatch):
    lowered = made().lowered
    (size,) = (file.stat().st_size for file in kept.entries())
    monkeypatch.setattr(cache_module, "MOST_BYTES", 3 * size)
    for number in range(5):
        assert kept.store(f"program{number}", lowered)
    assert len(kept.entries()) == 3 and kept.load("program4") is not None and kept.load("program0") is None
    assert kept.clear() == 3 and kept.size() == 0 and kept.entries() == []


def _store(folder: str) -> bool:
    kept = Cache(Path(folder))
    lowered = tw.compile(program, X, Y).lowered
    return all(kept.store("same", lowered) and not isinstance(kept.load("same"), Damaged) for _ in range(5))


@pytest.mark.req("S0-26")
def test_several_writers(kept: Cache):
    with ProcessPoolExecutor(2) as pool:
        assert all(pool.map(_store, [str(kept.folder)] * 2))
    assert not isinstance(kept.load("same"), (Damaged, type(None)))
    assert not list(kept.folder.glob("*/*.part"))


def test_fast_kernels_and_folders_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(compiler, "SLOW_SECONDS", 1e9)
    made()
    assert Cache(tmp_path).entries() == []
    (tmp_path / "file").write_text("")
    assert not Cache(tmp_path / "file").store("program", made().lowered)


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("TILEWRIGHT_CACHE", "off")
    assert open_cache() is None
    monkeypatch.delenv("TILEWRIGHT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = open_cache()
    assert found is not None and found.folder == default_folder() and found.folder.name in ("tilewright", "Cache")


def test_a_compiler_that_is_not_installed_is_known_by_its_files(monkeypatch: pytest.MonkeyPatch):
    """With the sources on the path and no package installed, there are no metadata to ask."""

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    cache_module.compiler_key.cache_clear()
    assert len(cache_module.compiler_key()) == 40
    assert versions()["tilewright"] == tw.__version__
