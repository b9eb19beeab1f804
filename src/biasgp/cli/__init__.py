"""The command `biasgp`. Commands import what is heavy when they run, so that `--help` is quick."""

from __future__ import annotations

import gc
import signal
from types import FrameType
from typing import Annotated

import typer

from biasgp import __version__
from biasgp.cli import compare, demo, fit, predict, study
from biasgp.cli.console import PlainGroup

SELDOM = 100_000
"""Objects made between two looks for garbage."""

app = typer.Typer(
    cls=PlainGroup,
    name="biasgp",
    help="Which readings of a sensor lie, by how much, and what the truth is.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(epilog=fit.EXAMPLE)(fit.fit)
app.command(epilog=predict.EXAMPLE)(predict.predict)
app.command(epilog=compare.EXAMPLE)(compare.compare)
app.command(epilog=demo.EXAMPLE)(demo.demo)
app.add_typer(study.app, name="study")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"biasgp {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def _terminated(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main() -> None:
    """The entry point. A request to end is an exception, so that half-written files go."""
    signal.signal(signal.SIGTERM, _terminated)
    # Imports make objects by the hundred thousand, all of which stay: to look for garbage among them as often as
    # Python does by itself, and once more at the end, takes half a second.
    gc.set_threshold(SELDOM)
    try:
        app()
    finally:
        gc.freeze()
