"""`tilewright migrate`: kernels in older NKI forms become current ones."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tilewright.cli.common import Exit, err, json_option, show_diagnostic, show_json, target_option
from tilewright.cli.output import writing
from tilewright.errors import fail
from tilewright.migrate import Migration
from tilewright.migrate import migrate as migrate_source
from tilewright.target import get_target


@click.command(
    short_help="Rewrite kernels in older NKI forms.", epilog="Example: tilewright migrate --write my_kernel.py"
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--write", is_flag=True, help="Change the files instead of printing the difference.")
@target_option
@json_option
def migrate(files: tuple[str, ...], write: bool, target: str | None, as_json: bool) -> int:
    """Rewrite value-returning nc_matmul calls of FILE to the current form and print the difference.

    Calls whose destination does not follow from the statement are listed and left alone (exit code 1).
    """
    get_target(target)
    done = {file: migrate_source(_read(file), file) for file in files}
    for file, migration in done.items():
        if write and migration.text != migration.source:
            with writing(file):
                Path(file).write_bytes(migration.text.encode())
    if as_json:
        show_json({file: _data(file, migration) for file, migration in done.items()})
    else:
        _show(done, write)
    return Exit.KERNEL if any(migration.unresolved for migration in done.values()) else Exit.OK


def _read(file: str) -> str:
    # Bytes, so that line ends stay as they are.
    try:
        return Path(file).read_bytes().decode()
    except OSError as error:
        raise fail("E701", f"cannot read {file}: {error.strerror or type(error).__name__}") from None
    except UnicodeDecodeError:
        raise fail("E702", f"{file} is not text in UTF-8") from None


def _data(file: str, migration: Migration) -> dict[str, object]:
    return {
        "rewritten": [site.line for site in migration.sites],
        "diff": migration.diff(file),
        "unresolved": [found.to_dict() for found in migration.unresolved],
    }


def _show(done: dict[str, Migration], write: bool) -> None:
    for file, migration in done.items():
        if not write:
            sys.stdout.write(migration.diff(file))
        for found in migration.unresolved:
            show_diagnostic(found)
        count = len(migration.sites)
        verb = "rewritten" if write else "to rewrite"
        err().print(f"{file}: {count} call{'' if count == 1 else 's'} {verb}", soft_wrap=True)
