"""The programs on which the compiler is measured: plain NumPy functions with fixed shapes and seeded arguments."""

from __future__ import annotations

from bench.corpus import attention, decoder, deltanet, movement, products, rowwise
from bench.corpus.program import Program

PROGRAMS: tuple[Program, ...] = (
    *rowwise.PROGRAMS,
    *products.PROGRAMS,
    *attention.PROGRAMS,
    *movement.PROGRAMS,
    *decoder.PROGRAMS,
    *deltanet.PROGRAMS,
)


def named(name: str) -> Program:
    """The program of this name."""
    return next(program for program in PROGRAMS if program.name == name)


def matching(parts: list[str]) -> list[Program]:
    """The programs in whose name one of the parts occurs; all of them when there are no parts."""
    return [p for p in PROGRAMS if not parts or any(part in p.name for part in parts)]
