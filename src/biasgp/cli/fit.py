"""`biasgp fit`: a table in; which readings lie, by how much, and what the truth is, out."""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from biasgp.cli import options
from biasgp.cli.config import Config, SaveConfig
from biasgp.cli.config import save_config as write_config
from biasgp.cli.console import refuse_empty, remark, say, time_limit, working
from biasgp.cli.options import of_fleet, of_model, of_table
from biasgp.messages import WrongUseError

if TYPE_CHECKING:
    from biasgp.analysis.fitting import Selection, Settings, Split
    from biasgp.analysis.flags import FlagScheme
    from biasgp.analysis.judging import Analysis
    from biasgp.data.columns import Readings
    from biasgp.data.table import Table

EXAMPLE = """Example:  biasgp fit readings.csv --target no_ppb --features time,temperature_c,humidity_pct

Writes cleaned.csv, model.skops, report.html and summary.json into a folder named after the table, and
cleaned.xlsx, .parquet, .feather or .nc where the table is of that form; with --fill 1h also filled.csv, the truth at
every hour.

Exit codes:  0 done, 1 the fit or the writing failed, 2 wrong use or a table that cannot be read, 130 interrupted."""
PACKED = (".gz", ".xz", ".bz2", ".zip")
SHOWN = 20
"""Flagged readings in the terminal."""
SHOWN_EPISODES = 10
LONGEST_NAME = 80
"""Characters of the target in the name of a folder; file systems end at 255 for the whole name."""


def fit(
    ctx: typer.Context,
    tables: options.Sources,
    target: options.Target = None,
    features: options.Features = None,
    method: options.Method = options.MethodName.sparse,
    response: options.Transform = options.Response.auto,
    kernel: options.Kernel = "auto",
    noise: options.Noise = None,
    noise_column: options.NoiseColumn = None,
    noise_model: options.NoiseModel = None,
    fill: options.Fill = None,
    out: options.OutFolder = None,
    force: options.Force = False,
    flags: options.FlagsName = options.FlagNames.own,
    suspect_at: options.SuspectAt = 0.5,
    fail_at: options.FailAt = 0.95,
    na: options.Na = None,
    where: options.Where = None,
    flag_column: Annotated[str | None, of_table(help="Column with someone's flags, to compare with.")] = None,
    test_fraction: Annotated[
        float, of_model(min=0.0, max=0.9, help="Share of the readings to hold out and score.")
    ] = 0.0,
    seed: options.Seed = 0,
    max_rows: Annotated[
        int | None,
        of_model(min=5, help="Fit to at most this many rows, evenly spread. Left out: all (2,500 with ep, mcmc)."),
    ] = None,
    max_time: Annotated[
        float | None, of_model(help="Seconds after which the search for the parameters ends with the best so far.")
    ] = None,
    episodes: options.Episodes = None,
    events: options.Events = None,
    verdicts: options.Verdicts = None,
    together: options.Together = None,
    reference: options.Reference = None,
    sep: options.Sep = None,
    encoding: options.Encoding = None,
    decimal: options.Decimal = None,
    day_first: options.DayFirst = None,
    header: options.Header = None,
    skip: options.Skip = None,
    units: options.Units = None,
    sheet: options.Sheet = None,
    marks: options.Marks = True,
    censored_column: options.CensoredColumn = None,
    by: Annotated[str | None, of_fleet(help="Column that names sensors or stations: a fit for each.")] = None,
    jobs: options.Jobs = 1,
    scheduler: options.Scheduler = None,
    timeout: options.Timeout = 0.0,
    config: Config = None,
    save_config: SaveConfig = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Fit a table of readings, some of which lie."""
    from biasgp.analysis.filling import check_fill, fill_step
    from biasgp.analysis.fitting import Selection, Settings
    from biasgp.analysis.flags import FlagScheme
    from biasgp.analysis.noise import StatedNoise
    from biasgp.analysis.verdicts import with_verdicts

    began = time.perf_counter()
    table, *more = tables
    refuse_empty(target=target, features=features, where=where, flag_column=flag_column, encoding=encoding, by=by)
    refuse_empty(events=events, together=together, reference=reference, verdicts=verdicts)
    refuse_empty(noise=noise, noise_column=noise_column, fill=fill)
    if noise is not None and noise_column is not None:
        raise WrongUseError("--noise states one noise for all readings, --noise-column one for each: choose one.")
    if noise is not None:
        StatedNoise.parse(noise)
    if fill is not None:
        fill_step(fill)
    if together is not None and by is not None:
        raise WrongUseError("--together fits all sensors at once, --by each of them alone: choose one.")
    if reference is not None and together is None:
        raise WrongUseError("--reference needs --together, the column that names the sensors.")
    if events is not None and episodes is False:
        raise WrongUseError("--events says when biases that last may end: leave out --no-episodes.")
    if [*tables, events, verdicts].count("-") > 1:
        raise WrongUseError("Only one of the table, --events and --verdicts can be standard input.")
    limit = time_limit(timeout)
    output = Output(force, quiet=quiet or as_json, flags=FlagScheme(flags.value, suspect_at, fail_at))
    if quiet + as_json + verbose > 1:
        raise WrongUseError("--quiet, --json and --verbose each say how much is said: choose one.")
    told = _Voice(as_json, quiet, verbose)
    missing = tuple(na or ())
    form = (sep, encoding, flag_column, decimal, day_first, header)
    selection = Selection(table, target, features, missing, where, *form, events, together, verdicts)
    selection = replace(selection, skip=skip, units=units, sheet=sheet, more=tuple(more), marks=marks)
    selection = replace(selection, censored_column=censored_column, noise=noise, noise_column=noise_column)
    limits = (max_rows, max_time, True if events is not None else episodes, reference, fill)
    noise_name = None if noise_model is None else noise_model.value
    settings = Settings(method.value, response.value, kernel, test_fraction, seed, *limits, noise_name)
    if not 0.0 <= test_fraction <= 0.9:  # a bound of the option lets NaN pass
        raise WrongUseError(f"--test-fraction must be from 0 to 0.9, got {test_fraction:g}.")
    if max_time is not None and not 0.0 < max_time < float("inf"):
        raise WrongUseError(f"--max-time must be a number of seconds above 0, got {max_time:g}.")
    if verdicts is not None and not settings.knows_verdicts:
        raise WrongUseError(f"--verdicts needs --method sparse: {method.value!r} cannot be told which readings lie.")
    if save_config is not None:
        write_config(ctx, save_config, force=force)
    settings.estimator()  # refuses options that the method has none of, before the table is read
    if by is not None:
        from biasgp.cli.fleet import fit_fleet
        from biasgp.runner import Execution

        execution = Execution(jobs, scheduler, limit)
        folder = out or Path(_folder_name(table, by))
        fit_fleet(folder, selection, settings, by, execution, output)
        told.of_fleet(folder)
        return
    with working("Reading", quiet=output.quiet):
        read = selection.table()
        readings = selection.readings(read, selection.events_table())
    settings = settings.settled(readings.features)
    if fill is not None:
        check_fill(readings, fill_step(fill))
    folder = out or Path(_folder_name(table, readings.target))
    if settings.knows_verdicts:
        readings = with_verdicts(readings, read, folder, selection.verdicts_table())
    outcome = fit_into(folder, selection, settings, read, readings, output)
    told.of_fit(outcome, folder, time.perf_counter() - began)


@dataclass(frozen=True)
class _Voice:
    """How much is said of what was found."""

    as_json: bool
    quiet: bool
    verbose: bool

    def of_fit(self, outcome: Analysis, folder: Path, seconds: float) -> None:
        """Of one fit."""
        if self.as_json:
            sys.stdout.write((folder / "summary.json").read_text(encoding="utf-8") + "\n")
        elif not self.quiet:
            tell(outcome, folder, seconds)
        if self.verbose:
            from biasgp.analysis.record import made

            say(*(f"{what}: {how}" for what, how in made(outcome)))
            say(*(f"Read: {note}" for note in outcome.readings.notes))

    def of_fleet(self, folder: Path) -> None:
        """Of a fit for each group, which has been told unless it is for machines."""
        if self.as_json:
            import pandas as pd

            rows = pd.read_csv(folder / "results.csv").astype(object)
            text = json.dumps(rows.where(rows.notna(), None).to_dict("records"), indent=1, ensure_ascii=False)
            sys.stdout.write(text + "\n")


def _own_flags() -> FlagScheme:
    from biasgp.analysis.flags import FlagScheme

    return FlagScheme()


@dataclass(frozen=True)
class Output:
    """How results are written: over others, with plotly in the report or where it lies, without a word; which flags."""

    force: bool
    plotly: str = ""
    quiet: bool = False
    flags: FlagScheme = field(default_factory=_own_flags)


def fit_into(
    folder: Path, selection: Selection, settings: Settings, table: Table, readings: Readings, output: Output
) -> Analysis:
    """Fit, and write what came of it."""
    from biasgp.analysis.judging import analyse
    from biasgp.cli.output import new_folder
    from biasgp.cli.progress import following
    from biasgp.report.files import write_results

    with new_folder(folder, force=output.force) as stage:
        split = settings.split(readings)
        if not output.quiet:
            _announce(readings, split, settings.is_approximate(readings, split))
        advice = "--max-rows fits to fewer rows, and --where leaves rows out."
        if settings.scales:
            advice += " --max-time ends the search after so many seconds with the best so far."
        with following("Fitting", advice, quiet=output.quiet):
            outcome = analyse(selection, settings, table.name, readings, split)
        with working("Writing the report", quiet=output.quiet):
            write_results(stage, table, outcome, output.plotly, output.flags)
    return outcome


def _announce(readings: Readings, split: Split, by_neighbours: bool) -> None:
    """What was guessed, and what will be done to a table that is too large to fit whole."""
    remark(*readings.notes)
    n = len(split.fit)
    if n < split.available:
        remark(
            f"{split.available:,} rows are too many to fit at once: the model will be fitted to {n:,} of them, "
            f"evenly spread over {readings.names[0]!r}, and then predict and judge all. --max-rows changes that."
        )
    elif by_neighbours:
        remark(
            f"{n:,} rows of such inputs are too many for an exact fit: each will be seen beside its nearest neighbours "
            "only. How long that takes is told when it has been measured."
        )


def _folder_name(table: str, target: str) -> str:
    stem = "stdin" if table == "-" else _stem(table)
    words = re.sub(r"[^A-Za-z0-9_.]+", "_", target)[:LONGEST_NAME].strip("_.")
    return f"{stem}-{words or 'fit'}"


def _stem(table: str) -> str:
    """The name of a table without its endings, or of the folder where a pattern leaves none."""
    name = Path(table).name
    for ending in (*PACKED, Path(name).suffix):
        name = name.removesuffix(ending)
    name = re.sub(r"[*?\[\]]+", "", name).strip("-_.")
    return name or Path(table).resolve().parent.name or "table"


def tell(outcome: Analysis, folder: Path, seconds: float) -> None:
    """The summary in the terminal."""
    from biasgp.analysis.record import remarks, sentences

    say(f"{outcome.table_name}: {outcome.readings.target} by {', '.join(outcome.readings.names)}", style="bold")
    say(*remarks(outcome), *sentences(outcome))
    if outcome.settings.episodes:
        _tell_episodes(outcome)
    say(*(f"Note: {note}" for note in outcome.notes_in_words))
    if outcome.flagged.any():
        _tell_flagged(outcome)
    say(*(f"Look at this: {doubt}" for doubt in outcome.doubts), style="yellow")
    say(f"Took {seconds:.1f} s, {outcome.fitted.seconds:.1f} s of it for the fit.")
    say(f"The report is in {folder / 'report.html'}", style="bold")


def _tell_episodes(outcome: Analysis) -> None:
    """Biases that last, in the terminal."""
    found = sorted(outcome.episode_records, key=lambda each: -each.log_odds)
    more = len(found) - SHOWN_EPISODES
    say("Episodes, the most certain first" if found else "No episodes were found.", style="bold" if found else "")
    say(*(f"  {each.words}" for each in found[:SHOWN_EPISODES]))
    if more > 0:
        say(f"  and {more:,} more, which are in summary.json.")


def _tell_flagged(outcome: Analysis) -> None:
    import numpy as np
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    from biasgp.analysis.judging import NORMAL_95
    from biasgp.messages import printable

    # Those of an episode or of a schedule have been told already, and would fill the table.
    inside = outcome.episode_columns()["episode"] != ""
    inside[[row for schedule in outcome.schedules for row in schedule.rows]] = True
    rows, verdict = np.flatnonzero(outcome.flagged & ~inside), outcome.verdict
    if not len(rows):
        return
    largest = rows[np.argsort(-np.abs(verdict.bias[rows]), kind="stable")[:SHOWN]]
    axis = outcome.axis
    largest = largest[np.argsort(axis.values[largest], kind="stable")]
    unit = f" ({outcome.unit})" if outcome.unit else ""
    title = f"The {SHOWN} largest of {len(rows)} flagged readings" if len(rows) > SHOWN else "Flagged readings"
    title += " outside episodes and schedules" if outcome.schedules else " outside episodes" if inside.any() else ""
    table = RichTable(title=title, title_justify="left", title_style="bold")
    sensors = outcome.readings.sensors
    which = () if sensors is None else (sensors.column,)
    for heading in ("row", axis.label, *which, f"reading{unit}", f"estimated bias{unit}", "probability"):
        table.add_column(Text(printable(heading)), justify="right")
    for i, place in zip(largest.tolist(), axis.places(largest), strict=True):
        bias, std, probability = (column[i] for column in (verdict.bias, verdict.bias_std, verdict.probability))
        interval = f"{bias:+.4g}" + (f" ± {NORMAL_95 * std:.2g}" if np.isfinite(std) else "")
        chance = f"{probability:.2f}" if np.isfinite(probability) else "–"
        label = () if sensors is None else (Text(printable(sensors.labels[i])),)
        table.add_row(str(i + 1), place, *label, f"{outcome.readings.y[i]:.5g}", interval, chance)
    Console(highlight=False).print(table)
    if len(rows) > SHOWN:
        say("All of them are in cleaned.csv.")
