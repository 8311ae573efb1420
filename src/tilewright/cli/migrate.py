"""`tilewright migrate`: kernels in older NKI forms become current ones."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from tilewright.activate import activate
from tilewright.cli.common import Exit, err, json_option, show_diagnostic, show_json, target_option
from tilewright.cli.kernels import described_arguments, kernel_options
from tilewright.cli.options import FILE, StrictCommand
from tilewright.errors import fail
from tilewright.files import writing
from tilewright.migrate import Migration
from tilewright.migrate import migrate as migrate_source
from tilewright.migrate.proof import Proof, prove
from tilewright.report.parts import as_data
from tilewright.spec import ArraySpec
from tilewright.target import get_target


@click.command(
    cls=StrictCommand,
    needs={"--shape": "--kernel", "--arg": "--kernel"},
    short_help="Rewrite kernels in older NKI forms.",
    epilog="Example: tilewright migrate --write my_kernel.py",
)
@click.argument("files", nargs=-1, type=FILE, required=True, metavar="FILE...")
@click.option("--write", is_flag=True, help="Change the files instead of printing the difference.")
@kernel_options("Compare")
@target_option
@json_option
def migrate(
    files: tuple[str, ...],
    write: bool,
    kernel: str | None,
    shapes_of: tuple[str, ...],
    values_of: tuple[str, ...],
    target: str | None,
    as_json: bool,
) -> int:
    """Rewrite the kernels of FILE, of NKI 0.2 or of the legacy dialect, to the current form and print the difference.

    What only the author can decide is listed and left alone (exit code 1). With --kernel that kernel is run before and
    after, on random arrays of the given shapes, and the results are compared bit for bit.
    """
    given = described_arguments(shapes_of, values_of)
    chosen = get_target(target).name
    done = {file: migrate_source(_read(file), file) for file in files}
    proofs = {file: _prove(migration, kernel, given, chosen) for file, migration in done.items() if kernel is not None}
    for file, migration in done.items():
        if write and migration.text != migration.source:
            with writing(file):
                Path(file).write_bytes(migration.text.encode())
    if as_json:
        show_json({file: _data(file, migration, proofs.get(file)) for file, migration in done.items()})
    else:
        _show(done, proofs, write)
    return Exit.KERNEL if any(migration.unresolved for migration in done.values()) else Exit.OK


def _prove(migration: Migration, kernel: str | None, given: dict[str, Any], target: str) -> Proof:
    assert kernel is not None
    activate(force=True)
    random = np.random.default_rng(0)
    arrays = {name: _random(random, each) if isinstance(each, ArraySpec) else each for name, each in given.items()}
    return prove(migration.source, migration.text, kernel, (), arrays, target)


def _random(random: np.random.Generator, described: ArraySpec) -> np.ndarray:
    """Numbers of which quotients and logarithms exist."""
    if described.dtype.is_float:
        return (random.random(described.shape) + 0.5).astype(described.dtype.np)
    return random.integers(0, 2, described.shape).astype(described.dtype.np)


def _read(file: str) -> str:
    # Bytes, so that line ends stay as they are.
    try:
        return Path(file).read_bytes().decode()
    except OSError as error:
        hint = "give the paths of Python files with kernels"
        raise fail("E701", f"cannot read {file}: {error.strerror or type(error).__name__}", hint=hint) from None
    except UnicodeDecodeError:
        raise fail("E702", f"{file} is not text in UTF-8", hint="save it as UTF-8: migrate writes that") from None


def _data(file: str, migration: Migration, proof: Proof | None) -> dict[str, object]:
    return {
        "rewritten": list(migration.lines),
        "diff": migration.diff(file),
        "unresolved": [as_data(found) for found in migration.unresolved],
        "proof": None if proof is None else asdict(proof),
    }


def _show(done: dict[str, Migration], proofs: dict[str, Proof], write: bool) -> None:
    for file, migration in done.items():
        if not write:
            sys.stdout.write(migration.diff(file))
        for found in migration.unresolved:
            show_diagnostic(found)
        err().print(f"{file}: {_amount(migration, write)}", soft_wrap=True)
        proof = proofs.get(file)
        if proof is not None:
            apart = f"the largest difference is {proof.difference:.2g} of the largest number"
            result = "results are unchanged, bit for bit" if proof.equal else apart
            err().print(f"{file}: {proof.kernel}: {result}", soft_wrap=True)


def _amount(migration: Migration, write: bool) -> str:
    """How much changes, and how much of the work is left: "12 lines to change, 2 places left to you"."""
    count, left = len(migration.lines), len(migration.unresolved)
    lines = (
        f"{count} line{'' if count == 1 else 's'} {'changed' if write else 'to change'}"
        if count
        else "nothing to change"
    )
    return lines + (f", {left} place{'' if left == 1 else 's'} left to you" if left else "")
