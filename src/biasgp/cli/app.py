"""`biasgp app`: the local page to work in."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from biasgp.cli.console import say
from biasgp.cli.options import of_output
from biasgp.messages import WrongUseError

EXAMPLE = """Example:  biasgp app readings.csv

Serves this machine alone, at an address that only you are told; Ctrl-C ends it. Everything is kept in the project
folder, and the same command finds it again."""
LARGEST_PORT = 65_535


def app(
    table: Annotated[
        Path | None, typer.Argument(help="Table to begin with. Left out: drop one on the page.", metavar="[TABLE]")
    ] = None,
    project: Annotated[
        Path | None,
        of_output(help="Folder that holds everything. Left out: TABLE-biasgp beside the table, or biasgp-project."),
    ] = None,
    port: Annotated[int, of_output(min=0, max=LARGEST_PORT, help="Port on 127.0.0.1; 0 for one that is free.")] = 0,
    browser: Annotated[bool, of_output("--browser/--no-browser", help="Open the page in the browser.")] = True,
) -> None:
    """Work with readings on a local page: look, judge, fit, and see why."""
    try:
        from biasgp.app.project import default_folder
        from biasgp.app.running import serve
    except ModuleNotFoundError as error:
        raise WrongUseError(f"The page needs more ({error.name}): pip install 'biasgp[app]'.") from error
    if table is not None and not table.is_file():
        from biasgp.data.table import Table

        Table.read(table)  # says what is wrong with the name

    def ready(url: str) -> None:
        say(f"The page is at {url}", style="bold")
        say("Only this machine can reach it. Ctrl-C ends it; everything is kept.")
        if browser:
            webbrowser.open(url)

    serve(project or default_folder(table), table, port, ready)
