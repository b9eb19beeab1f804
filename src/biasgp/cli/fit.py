"""`biasgp fit`: a table in; which readings lie, by how much, and what the truth is, out."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from biasgp.cli.console import remark, say, working
from biasgp.cli.options import (
    MODEL,
    TABLE,
    Encoding,
    Features,
    Force,
    KernelName,
    KernelOption,
    Method,
    Na,
    OutFolder,
    Response,
    ResponseOption,
    Seed,
    Selection,
    Sep,
    Source,
    Target,
    Where,
)

if TYPE_CHECKING:
    from biasgp.cli.analysis import Settings
    from biasgp.cli.record import Outcome
    from biasgp.data.columns import Readings
    from biasgp.data.table import Table

EXAMPLE = """Example:  biasgp fit readings.csv --target no_ppb --features time,temperature_c,humidity_pct

Writes cleaned.csv, model.skops, report.html and summary.json into a folder named after the table."""
SHOWN = 20
FLEET = "A fleet of sensors"


def fit(
    table: Source,
    target: Target = None,
    features: Features = None,
    method: Annotated[Method, typer.Option(help="How outliers are modelled.", rich_help_panel=MODEL)] = Method.sparse,
    response: ResponseOption = Response.auto,
    kernel: KernelOption = KernelName.matern32,
    out: OutFolder = None,
    force: Force = False,
    na: Na = None,
    where: Where = None,
    flag_column: Annotated[
        str | None, typer.Option(help="Column with someone's flags, to compare with.", rich_help_panel=TABLE)
    ] = None,
    test_fraction: Annotated[
        float,
        typer.Option(min=0.0, max=0.9, help="Share of the readings to hold out and score.", rich_help_panel=MODEL),
    ] = 0.0,
    seed: Seed = 0,
    max_rows: Annotated[
        int | None,
        typer.Option(
            min=5,
            help="Fit to at most this many rows, evenly spread. Left out: all (2,500 with ep, mcmc).",
            rich_help_panel=MODEL,
        ),
    ] = None,
    sep: Sep = None,
    encoding: Encoding = None,
    by: Annotated[
        str | None,
        typer.Option(help="Column that names sensors or stations: a fit for each.", rich_help_panel=FLEET),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="With --by: worker processes on this machine.", rich_help_panel=FLEET)
    ] = 1,
    scheduler: Annotated[
        str | None,
        typer.Option(help="With --by: the Dask cluster of this scheduler, tcp://HOST:PORT.", rich_help_panel=FLEET),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(help="With --by: seconds after which a group is given up; 0 for never.", rich_help_panel=FLEET),
    ] = 0.0,
) -> None:
    """Fit a table of readings, some of which lie."""
    from biasgp.cli.analysis import Settings

    began = time.perf_counter()
    selection = Selection(table, target, features, tuple(na or ()), where, sep, encoding, flag_column)
    settings = Settings(method.value, response.value, kernel.value, test_fraction, seed, max_rows)
    if by is not None:
        from biasgp.cli.fleet import fit_fleet

        place = out or Path(_folder_name(table, by))
        how: dict[str, Any] = {"jobs": jobs, "scheduler": scheduler, "timeout": timeout or None, "force": force}
        fit_fleet(place, selection, settings, by, **how)
        return
    with working("Reading"):
        read, readings = selection.read()
    folder = out or Path(_folder_name(table, readings.target))
    outcome = fit_into(folder, selection, settings, read, readings, force=force)
    tell(outcome, folder, time.perf_counter() - began)


def fit_into(
    folder: Path,
    selection: Selection,
    settings: Settings,
    table: Table,
    readings: Readings,
    *,
    force: bool,
    plotly: str = "",
    quiet: bool = False,
) -> Outcome:
    """Fit, and write the four files; the report holds plotly, or refers to where it lies."""
    from biasgp.cli import analysis
    from biasgp.cli.output import inert, new_folder
    from biasgp.cli.record import cleaned, examine, fit_record, summary
    from biasgp.persistence import save_model
    from biasgp.report.fit_page import fit_page

    with new_folder(folder, force=force) as stage:
        if not quiet:
            _announce(readings, settings)
        with working("Fitting", quiet=quiet):
            fitted = analysis.fit(readings, settings)
        with working("Writing the report", quiet=quiet):
            outcome = examine(selection, settings, table.name, readings, fitted)
            save_model(stage / "model.skops", fitted.estimator, _about(readings, settings))
            (stage / "report.html").write_text(fit_page(fit_record(outcome), plotly), encoding="utf-8")
            inert(cleaned(table.cells, outcome)).to_csv(stage / "cleaned.csv", index=False)
            text = json.dumps(summary(outcome), indent=1, ensure_ascii=False, allow_nan=False)
            (stage / "summary.json").write_text(text, encoding="utf-8")
    return outcome


def _announce(readings: Readings, settings: Settings) -> None:
    """What was guessed, and what will be done to a table that is too large to fit whole."""
    from biasgp.cli.analysis import rows_to_fit, scales
    from biasgp.estimators.base import EXACT_UP_TO

    remark(*readings.notes)
    rows, _, available = rows_to_fit(readings, settings)
    if len(rows) < available:
        remark(
            f"{available:,} rows are too many to fit at once: the model will be fitted to {len(rows):,} of them, "
            f"evenly spread over {readings.names[0]!r}, and then predict and judge all. --max-rows changes that."
        )
    elif len(rows) > EXACT_UP_TO and scales(settings.method):
        remark(
            f"{len(rows):,} rows are too many for an exact fit: each will be seen beside its nearest neighbours only, "
            "which takes about a minute for every 200,000 rows. --max-rows fits to fewer."
        )


def _about(readings: Readings, settings: Settings) -> dict[str, object]:
    """What `biasgp predict` needs to know beside the model."""
    X = readings.X[readings.kept]
    return {
        "target": readings.target,
        "features": [feature.to_dict() for feature in readings.features],
        "ranges": [[float(low), float(high)] for low, high in zip(X.min(axis=0), X.max(axis=0), strict=True)],
        "method": settings.method,
    }


def _folder_name(table: str, target: str) -> str:
    stem = "stdin" if table == "-" else Path(table).stem
    return f"{stem}-{re.sub(r'[^A-Za-z0-9_.]+', '_', target).strip('_.') or 'fit'}"


def tell(outcome: Outcome, folder: Path, seconds: float) -> None:
    """The summary in the terminal."""
    from biasgp.cli.record import remarks, sentences

    say(f"{outcome.table_name}: {outcome.readings.target} by {', '.join(outcome.readings.names)}", style="bold")
    say(*remarks(outcome), *sentences(outcome))
    if outcome.flagged.any():
        _tell_flagged(outcome)
    for doubt in outcome.doubts:
        say(f"Look at this: {doubt}", style="yellow")
    say(f"Took {seconds:.1f} s, {outcome.fitted.seconds:.1f} s of it for the fit.")
    say(f"The report is in {folder / 'report.html'}", style="bold")


def _tell_flagged(outcome: Outcome) -> None:
    import numpy as np
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    from biasgp.cli.console import printable
    from biasgp.cli.record import axis_of, when
    from biasgp.report.fit_record import Axis

    rows = np.flatnonzero(outcome.flagged)
    largest = rows[np.argsort(-np.abs(outcome.verdict.bias[rows]), kind="stable")[:SHOWN]]
    axis = axis_of(outcome.readings)
    largest = largest[np.argsort(axis.values[largest], kind="stable")]
    places = when(Axis(axis.label, axis.is_time, axis.values[largest]))
    unit = f" ({outcome.unit})" if outcome.unit else ""
    title = f"The {SHOWN} largest of {len(rows)} flagged readings" if len(rows) > SHOWN else "Flagged readings"
    table = RichTable(title=title, title_justify="left", title_style="bold")
    for heading in ("row", axis.label, f"reading{unit}", f"estimated bias{unit}", "probability"):
        table.add_column(Text(printable(heading)), justify="right")
    for i, place in zip(largest.tolist(), places, strict=True):
        probability = outcome.verdict.probability[i]
        cells = (str(i + 1), place, f"{outcome.readings.y[i]:.5g}", _bias(outcome, i))
        table.add_row(*cells, f"{probability:.2f}" if np.isfinite(probability) else "–")
    Console(highlight=False).print(table)
    if len(rows) > SHOWN:
        say("All of them are in cleaned.csv.")


def _bias(outcome: Outcome, i: int) -> str:
    import numpy as np

    std = outcome.verdict.bias_std[i]
    return f"{outcome.verdict.bias[i]:+.4g}" + (f" ± {1.96 * std:.2g}" if np.isfinite(std) else "")
