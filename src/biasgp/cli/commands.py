"""The commands of `biasgp`, put together. They import what is heavy when they run, so that `--help` is quick."""

from __future__ import annotations

from typing import Annotated

import typer

from biasgp import __version__
from biasgp.cli import app as page
from biasgp.cli import compare, demo, fit, predict, study, watch
from biasgp.cli.console import PlainGroup

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
app.command(epilog=watch.EXAMPLE)(watch.watch)
app.command(epilog=page.EXAMPLE)(page.app)
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
