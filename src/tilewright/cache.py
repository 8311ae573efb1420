"""Kernels that took long to make, kept on disk by the content of everything they were made of.

An entry is found by the program (every op, constant and source line), the target's figures and the options, and by the
compiler itself (its version and the bytes of all of its files): a changed digit anywhere is another entry. What is kept
is data: IR text, arrays, the plan as JSON. It is written as a whole or not at all, has a checksum that is verified when
it is read, and is never executed.

`TILEWRIGHT_CACHE` names the folder, or is `off`.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.dtypes import as_dtype
from tilewright.errors import TileError
from tilewright.files import json_of
from tilewright.ir.core import Graph
from tilewright.ir.fingerprint import fingerprint
from tilewright.ir.text import show
from tilewright.ir.walk import walk
from tilewright.lower.lowering import Lowered
from tilewright.lower.tuning import TUNING
from tilewright.target import Target
from tilewright.tile.memory import Buffer
from tilewright.tile.ops import ALLOC
from tilewright.tile.text import parse_tile

VARIABLE = "TILEWRIGHT_CACHE"
OFF = "off"
SLOW_SECONDS = 0.2
"""What is lowered faster is not kept: reading it would take about as long."""
MOST_BYTES = 200_000_000
"""What all entries may take; the ones that were not used for longest go first."""
_HEAD = b"tilewright kernel 1\n"
_SUFFIX = ".kernel"


@dataclass(frozen=True, slots=True)
class Damaged:
    """An entry that is not what was written; it has been removed."""

    why: str


@dataclass(frozen=True, slots=True)
class Cache:
    """Entries in a folder: one folder per program, in it one file per compiler."""

    folder: Path

    def load(self, program: str) -> Lowered | Damaged | None:
        """The kernel of a program (`program_key`), or None where there is none."""
        # Most programs have no entry, and then the compiler's own files need not be read.
        if not (self.folder / program).is_dir():
            return None
        file = self._file(program)
        # What a link leads to is not ours to read, nor to touch; storing puts an entry in the link's place.
        if file.is_symlink():
            return None
        try:
            content = file.read_bytes()
            os.utime(file)
        except OSError:
            return None
        found = _read(content)
        if isinstance(found, Damaged):
            file.unlink(missing_ok=True)
        return found

    def store(self, program: str, lowered: Lowered) -> bool:
        """Keep a kernel; says whether that was possible."""
        content = _written(lowered)
        file = self._file(program)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
            with os.fdopen(handle, "wb") as out:
                out.write(content)
            # Readers and other writers see the old file or the new one.
            Path(name).replace(file)
        except OSError:
            return False
        self._trim()
        return True

    def _file(self, program: str) -> Path:
        return self.folder / program / f"{compiler_key()}{_SUFFIX}"

    def entries(self) -> list[Path]:
        """Every entry, the one that was not used for longest first."""
        return sorted(self.folder.glob(f"*/*{_SUFFIX}"), key=lambda file: (_dated(file), file))

    def size(self) -> int:
        """Bytes of all entries."""
        return sum(_size(file) for file in self.entries())

    def clear(self) -> int:
        """Remove all entries; says how many there were."""
        found = self.entries()
        for file in found:
            self._remove(file)
        return len(found)

    def _trim(self) -> None:
        entries = self.entries()
        total = sum(_size(file) for file in entries)
        # The newest stays, however large.
        for file in entries[:-1]:
            if total <= MOST_BYTES:
                return
            total -= _size(file)
            self._remove(file)

    def _remove(self, file: Path) -> None:
        file.unlink(missing_ok=True)
        try:
            file.parent.rmdir()
        except OSError:
            # Another compiler's entry is still there.
            return


def open_cache() -> Cache | None:
    """The cache that the environment asks for; None when it is off."""
    named = os.environ.get(VARIABLE)
    if named == OFF:
        return None
    return Cache(Path(named) if named else default_folder())


def default_folder() -> Path:
    """Where the system keeps what programs can make again."""
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "tilewright" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "tilewright"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "tilewright"


def program_key(graph: Graph, target: Target, *options: str) -> str:
    """What stands for a traced program, a target with all of its figures, and the options of lowering."""
    figures = [(key, target[key]) for key in sorted(target)]
    parts = (fingerprint(graph), target.name, target.generation, figures, TUNING, options)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:40]


@cache
def compiler_key() -> str:
    """What stands for this compiler: its version, the bytes of its files, and the libraries that it computes with."""
    digest = hashlib.sha256()
    for package in ("tilewright", "numpy", "ml_dtypes"):
        # What is imported, installed or not.
        digest.update(f"{package} {import_module(package).__version__}\n".encode())
    _add_files(digest, resources.files("tilewright"))
    return digest.hexdigest()[:40]


def _add_files(digest: Any, folder: Any) -> None:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            _add_files(digest, entry)
        elif entry.name.endswith((".py", ".toml", ".csv")):
            digest.update(f"{entry.name}\n".encode())
            digest.update(hashlib.sha256(entry.read_bytes()).digest())


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        # Another process removed it.
        return 0


def _dated(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


# The file: a line that says what it is, the digest of the rest, and an archive of data.


def _written(lowered: Lowered) -> bytes:
    constants = [{"dtype": str(as_dtype(x.dtype)), "shape": list(x.shape)} for x in lowered.constants]
    members: dict[str, str | bytes] = {
        "tile.ir": show(lowered.graph, locations=True),
        "names.json": json.dumps([buffer.name for buffer in _buffers(lowered.graph)]),
        "plan.json": json.dumps(lowered.plan.to_dict()),
        "schedule.txt": str(lowered.schedule),
        "constants.json": json.dumps(constants),
    }
    for i, array in enumerate(lowered.constants):
        data = io.BytesIO()
        np.save(data, np.frombuffer(array.tobytes(), np.uint8), allow_pickle=False)
        members[f"const{i}.npy"] = data.getvalue()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members.items():
            # Without the time of day: equal kernels are equal files.
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    content = packed.getvalue()
    return _HEAD + hashlib.sha256(content).digest() + content


def _read(content: bytes) -> Lowered | Damaged:
    """The kernel of a file, or what is wrong with it."""
    head, digest, packed = content[: len(_HEAD)], content[len(_HEAD) : len(_HEAD) + 32], content[len(_HEAD) + 32 :]
    if head != _HEAD:
        return Damaged("it does not begin as an entry does")
    if hashlib.sha256(packed).digest() != digest:
        return Damaged("its checksum is wrong")
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            graph = _completed(parse_tile(archive.read("tile.ir").decode()), json_of(archive.read("names.json")))
            plan = json_of(archive.read("plan.json"))
            schedule = archive.read("schedule.txt").decode()
            described = json_of(archive.read("constants.json"))
            arrays = [_array(archive.read(f"const{i}.npy"), each) for i, each in enumerate(described)]
    except (TileError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        return Damaged(f"it cannot be read: {error}")
    return Lowered(graph, tuple(arrays), None, plan, text=schedule)


def _buffers(graph: Graph) -> list[Buffer]:
    """What a kernel allocates, in the order of its text."""
    return [op.result for op in walk(graph) if op.definition is ALLOC and isinstance(op.result, Buffer)]


def _completed(graph: Graph, names: Sequence[str | None]) -> Graph:
    """What the text of a kernel does not tell: names that are not unique, and the lines of buffers."""
    for op in walk(graph):
        if op.definition is ALLOC and isinstance(op.result, Buffer):
            op.result.location = op.location
    for buffer, name in zip(_buffers(graph), names, strict=True):
        buffer.name = name
    return graph


def _array(data: bytes, described: dict[str, object]) -> np.ndarray:
    flat = np.load(io.BytesIO(data), allow_pickle=False)
    return flat.view(as_dtype(described["dtype"]).np).reshape(described["shape"])  # type: ignore[arg-type]
