"""`tilewright mcp`: the commands as tools for code agents, over standard input and output."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.cli.common import Exit
from tilewright.cli.lsp import require_extra
from tilewright.cli.options import Number, StrictCommand


@click.command(
    cls=StrictCommand, short_help="Serve code agents: check, run, profile, compile, explain and isa as tools."
)
@click.argument(
    "folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=Path(), metavar="[FOLDER]"
)
@click.option(
    "--time-limit",
    type=Number(0, above=True),
    default=120.0,
    metavar="SECONDS",
    help="How long one call may take (120).",
)
def mcp(folder: Path, time_limit: float) -> int:
    """Speak the Model Context Protocol on standard input and output; docs/editors.md says how clients start it.

    Tools take files of FOLDER (the current one) only. Scripts that they run are ordinary Python with your rights: for
    agents that you do not trust, start the server in a container.
    """
    require_extra("mcp", "mcp")
    from tilewright.mcp.server import make_server

    make_server(folder, time_limit).run()
    return Exit.OK
