"""The one folder whose files the tools may name."""

from __future__ import annotations

from pathlib import Path


class Refused(Exception):
    """A path that the tools may not touch."""


class Folder:
    """A folder; what links lead out of it is outside."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve(strict=True)

    def file(self, name: str) -> Path:
        """An existing file of the folder, named relative to it or in full."""
        if "\0" in name or not name:
            raise Refused(f"{name!r} is no file name")
        path = (self.path / name).resolve()
        if not path.is_relative_to(self.path):
            raise Refused(f"{name} is outside of the folder that this server serves")
        if not path.is_file():
            raise Refused(f"{name} is no file of the folder that this server serves")
        return path

    def value(self, text: str) -> str:
        """An option's value. One that could name a file must name one of the folder."""
        name, equals, value = text.rpartition("=")
        if "/" in value or "\\" in value or Path(value).suffix in _FILES:
            return f"{name}{equals}{self.file(value)}"
        return text


_FILES = (".npy", ".npz", ".toml", ".json", ".py")
