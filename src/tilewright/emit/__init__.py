"""Tile IR as NKI source: what a person would be glad to read, and the NKI compiler accepts."""

from tilewright.emit.header import Header
from tilewright.emit.source import emit

__all__ = ["Header", "emit"]
