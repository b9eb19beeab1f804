"""`biasgp fit`: a table in; which readings lie, by how much, and what the truth is, out."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from biasgp import watch
from biasgp.cli.console import refuse_empty, remark, say, time_limit, working
from biasgp.cli.options import (
    MODEL,
    TABLE,
    DayFirst,
    Decimal,
    Encoding,
    Features,
    Force,
    Header,
    KernelName,
    KernelOption,
    MethodName,
    Na,
    OutFolder,
    Response,
    ResponseOption,
    Seed,
    Sep,
    Source,
    Target,
    Where,
)
from biasgp.messages import WrongUseError

if TYPE_CHECKING:
    from biasgp.analysis.fitting import Settings
    from biasgp.analysis.record import Analysis
    from biasgp.analysis.selection import Selection
    from biasgp.data.columns import Readings
    from biasgp.data.table import Table

EXAMPLE = """Example:  biasgp fit readings.csv --target no_ppb --features time,temperature_c,humidity_pct

Writes cleaned.csv, model.skops, report.html and summary.json into a folder named after the table."""
SHOWN = 20
LONGEST_NAME = 80
"""Characters of the target in the name of a folder; file systems end at 255 for the whole name."""
FLEET = "A fleet of sensors"


def fit(
    table: Source,
    target: Target = None,
    features: Features = None,
    method: Annotated[
        MethodName, typer.Option(help="How outliers are modelled.", rich_help_panel=MODEL)
    ] = MethodName.sparse,
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
    max_time: Annotated[
        float | None,
        typer.Option(
            help="Seconds after which the search for the parameters ends with the best so far.", rich_help_panel=MODEL
        ),
    ] = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    day_first: DayFirst = None,
    header: Header = None,
    by: Annotated[
        str | None,
        typer.Option(help="Column that names sensors or stations: a fit for each.", rich_help_panel=FLEET),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="With --by: worker processes on this machine.", rich_help_panel=FLEET)
    ] = 1,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="With --by: the Dask cluster of this scheduler, tcp://HOST:PORT; waits 30 s for it.",
            rich_help_panel=FLEET,
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(help="With --by: seconds after which a group is given up; 0 for never.", rich_help_panel=FLEET),
    ] = 0.0,
) -> None:
    """Fit a table of readings, some of which lie."""
    from biasgp.analysis.fitting import Settings
    from biasgp.analysis.selection import Selection

    began = time.perf_counter()
    refuse_empty(target=target, features=features, where=where, flag_column=flag_column, encoding=encoding, by=by)
    limit = time_limit(timeout)
    marks = tuple(na or ())
    selection = Selection(table, target, features, marks, where, sep, encoding, flag_column, decimal, day_first, header)
    settings = Settings(method.value, response.value, kernel.value, test_fraction, seed, max_rows, max_time)
    _check_time(settings)
    if by is not None:
        from biasgp.cli.fleet import fit_fleet

        place = out or Path(_folder_name(table, by))
        how: dict[str, Any] = {"jobs": jobs, "scheduler": scheduler, "timeout": limit, "force": force}
        fit_fleet(place, selection, settings, by, **how)
        return
    with working("Reading"):
        read, readings = selection.read()
    folder = out or Path(_folder_name(table, readings.target))
    outcome = fit_into(folder, selection, settings, read, readings, force=force)
    tell(outcome, folder, time.perf_counter() - began)


def _check_time(settings: Settings) -> None:
    """Refuse a --max-time that makes no sense before the table is read."""
    from biasgp.analysis.fitting import make_estimator

    if settings.max_time is not None and not 0.0 < settings.max_time < float("inf"):
        raise WrongUseError(f"--max-time must be a number of seconds above 0, got {settings.max_time:g}.")
    make_estimator(settings)


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
) -> Analysis:
    """Fit, and write the four files; the report holds plotly, or refers to where it lies."""
    from biasgp.analysis import fitting
    from biasgp.analysis.record import cleaned, examine, fit_record, summary
    from biasgp.cli.output import inert, new_folder
    from biasgp.cli.progress import following
    from biasgp.persistence import save_model
    from biasgp.report.fit_page import fit_page

    with new_folder(folder, force=force) as stage:
        if not quiet:
            _announce(readings, settings)
        with following("Fitting", _ways_to_hurry(settings), quiet=quiet):
            _foresee_predictions(readings, settings)
            fitted = fitting.fit(readings, settings)
            watch.stage("predicting every row")
            outcome = examine(selection, settings, table.name, readings, fitted)
        with working("Writing the report", quiet=quiet):
            save_model(stage / "model.skops", fitted.estimator, _about(table, readings, settings))
            (stage / "report.html").write_text(fit_page(fit_record(outcome), plotly), encoding="utf-8")
            inert(cleaned(table.cells, outcome)).to_csv(stage / "cleaned.csv", index=False)
            text = json.dumps(summary(outcome), indent=1, ensure_ascii=False, allow_nan=False)
            (stage / "summary.json").write_text(text, encoding="utf-8")
    return outcome


def _announce(readings: Readings, settings: Settings) -> None:
    """What was guessed, and what will be done to a table that is too large to fit whole."""
    from biasgp.analysis.fitting import rows_to_fit, scales
    from biasgp.models.strategy import EXACT_UP_TO

    remark(*readings.notes)
    rows, _, available = rows_to_fit(readings, settings)
    if len(rows) < available:
        remark(
            f"{available:,} rows are too many to fit at once: the model will be fitted to {len(rows):,} of them, "
            f"evenly spread over {readings.names[0]!r}, and then predict and judge all. --max-rows changes that."
        )
    elif len(rows) > EXACT_UP_TO and scales(settings.method):
        remark(
            f"{len(rows):,} rows are too many for an exact fit: each will be seen beside its nearest neighbours only. "
            "How long that takes is told when it has been measured."
        )


def _ways_to_hurry(settings: Settings) -> str:
    from biasgp.analysis.fitting import scales

    limit = " --max-time ends the search after so many seconds with the best so far." if scales(settings.method) else ""
    return f"--max-rows fits to fewer rows, and --where leaves rows out.{limit}"


def _foresee_predictions(readings: Readings, settings: Settings) -> None:
    """From nearest neighbours they can take longer than the fit: all rows, and again without themselves."""
    from biasgp.analysis.fitting import rows_to_fit, scales
    from biasgp.covariance.vecchia_posterior import PREDICTIONS
    from biasgp.models.strategy import EXACT_UP_TO

    if scales(settings.method) and len(rows_to_fit(readings, settings)[0]) > EXACT_UP_TO:
        watch.expect(PREDICTIONS, 2 * len(readings.y))


def _about(table: Table, readings: Readings, settings: Settings) -> dict[str, object]:
    """What `biasgp predict` needs to know beside the model."""
    from dataclasses import asdict

    X = readings.X[readings.kept]
    columns = [readings.target, *(name for feature in readings.features for name in feature.columns)]
    return {
        "target": readings.target,
        "features": [feature.to_dict() for feature in readings.features],
        "ranges": [[float(low), float(high)] for low, high in zip(X.min(axis=0), X.max(axis=0), strict=True)],
        "method": settings.method,
        "formats": {name: asdict(form) for name, form in table.formats(columns).items()},
    }


def _folder_name(table: str, target: str) -> str:
    stem = "stdin" if table == "-" else Path(table).stem
    words = re.sub(r"[^A-Za-z0-9_.]+", "_", target)[:LONGEST_NAME].strip("_.")
    return f"{stem}-{words or 'fit'}"


def tell(outcome: Analysis, folder: Path, seconds: float) -> None:
    """The summary in the terminal."""
    from biasgp.analysis.record import remarks, sentences

    say(f"{outcome.table_name}: {outcome.readings.target} by {', '.join(outcome.readings.names)}", style="bold")
    say(*remarks(outcome), *sentences(outcome))
    if outcome.flagged.any():
        _tell_flagged(outcome)
    for doubt in outcome.doubts:
        say(f"Look at this: {doubt}", style="yellow")
    say(f"Took {seconds:.1f} s, {outcome.fitted.seconds:.1f} s of it for the fit.")
    say(f"The report is in {folder / 'report.html'}", style="bold")


def _tell_flagged(outcome: Analysis) -> None:
    import numpy as np
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    from biasgp.analysis.fit_record import Axis
    from biasgp.analysis.record import axis_of, when
    from biasgp.messages import printable

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


def _bias(outcome: Analysis, i: int) -> str:
    import numpy as np

    std = outcome.verdict.bias_std[i]
    return f"{outcome.verdict.bias[i]:+.4g}" + (f" ± {1.96 * std:.2g}" if np.isfinite(std) else "")
