"""`tilewright lsp`: the language server, for editors to start."""

from __future__ import annotations

import importlib.util

import click

from tilewright.cli.common import Exit, profile_option, target_option
from tilewright.cli.options import StrictCommand


def require_extra(command: str, package: str) -> None:
    """Refuse a command whose packages are not installed."""
    if importlib.util.find_spec(package) is None:
        raise click.UsageError(f"needs the package {package}: pip install 'tilewright[{command}]'")


@click.command(cls=StrictCommand, short_help="Serve an editor: diagnostics, hover, predicted times.")
@click.option("--no-run", is_flag=True, help="Read files only; saved scripts are not run.")
@target_option
@profile_option
def lsp(no_run: bool, target: str | None, profile: str | None) -> int:
    """Speak the language server protocol on standard input and output; docs/editors.md says how editors start it.

    What the source alone decides is shown as one types. A file with kernels is run when it is opened and saved, as
    `tilewright check` and `tilewright profile` run it, for at most a minute each.
    """
    require_extra("lsp", "pygls")
    from tilewright.lsp.server import make_server

    make_server(target, profile, runs=not no_run).start_io()
    return Exit.OK
