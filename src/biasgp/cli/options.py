"""Options that several commands share. Nothing heavy is imported here: `--help` must be quick."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import StrEnum
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

of_table = partial(typer.Option, rich_help_panel="The table")
of_model = partial(typer.Option, rich_help_panel="The model")
of_output = partial(typer.Option, rich_help_panel="Output")
of_fleet = partial(typer.Option, rich_help_panel="A fleet of sensors, with --by")

MethodName = StrEnum("MethodName", ["sparse", "cob", "rab", "gp", "ep", "mcmc", "rcgp"])
Response = StrEnum("Response", {"auto": "auto", "identity": "identity", "log": "log", "yeo_johnson": "yeo-johnson"})
NoiseModelName = StrEnum("NoiseModelName", ["auto", "constant", "varying", "proportional"])
FlagNames = StrEnum("FlagNames", ["own", "qartod", "cf"])
LARGEST_SEED = 2**32 - 1
"""What NumPy's older generators take."""

KINDS = "CSV, Excel, Parquet, Feather, NetCDF or Zarr, also as .gz, .xz, .bz2 or .zip; - for standard input."
Source = Annotated[str, typer.Argument(help=KINDS, metavar="TABLE")]
Sources = Annotated[
    list[str],
    typer.Argument(help=f"{KINDS} Several files, or a pattern such as 'logs/*.csv', are one record.", metavar="TABLE"),
]
Target = Annotated[str | None, of_table(help="Column to explain. Left out: the last numeric one.")]
Features = Annotated[
    str | None,
    of_table(help="Columns to explain it by, with commas between. Left out: the first time and all numbers."),
]
Na = Annotated[list[str] | None, of_table("--na", help="Value that stands for missing, e.g. -200; may be repeated.")]
Where = Annotated[
    str | None,
    of_table(
        help="Use only rows for which this holds: \"temperature_c > 0 and flag == ''\". Comparisons, in [...], and, "
        "or, not, + - * / on columns (`backticks` around odd names); at most 2,000 characters. Nothing in it is run."
    ),
]
Sep = Annotated[str | None, of_table(help="Character between columns. Left out: found.")]
Encoding = Annotated[str | None, of_table(help="Encoding of a CSV file, e.g. cp1252.")]
Decimal = Annotated[
    str | None, of_table(help="Mark before decimals: point or comma. Left out: found, column by column.")
]
DayFirst = Annotated[
    bool | None,
    of_table("--day-first/--month-first", help="Dates such as 3/4/2005: which comes first. Left out: found."),
]
Header = Annotated[
    bool | None,
    of_table(
        "--header/--no-header",
        help="Whether the first line of a CSV file names the columns; without, they are column 1, column 2 …",
    ),
]
Marks = Annotated[
    bool,
    of_table(
        "--marks/--no-marks",
        help="Find numbers such as -999 that stand for missing readings: typical, repeated and far from all others.",
    ),
]
CensoredColumn = Annotated[
    str | None,
    of_table(
        "--censored-column",
        metavar="COLUMN",
        help="Column that says which readings are detection limits: -1 or < where the truth lies below, 1 or > where "
        "above. Cells such as <0.5 need none.",
    ),
]
Skip = Annotated[int | None, of_table(min=0, help="Lines before the header of a CSV file or a sheet. Left out: found.")]
Units = Annotated[
    bool | None,
    of_table("--units/--no-units", help="Whether the line under the header holds units. Left out: found."),
]
Sheet = Annotated[str | None, of_table(help="Sheet of an Excel workbook. Left out: the only one with rows.")]
Method = Annotated[MethodName, of_model("--method", help="How outliers are modelled.")]
Kernel = Annotated[
    str,
    of_model(
        "--kernel",
        metavar="TEXT",
        help="Covariance of the truth: auto, which is matern32, with a daily and a weekly cycle and a trend where the "
        "readings bear them out; exponential, matern32, matern52 or se, from rough to smooth; or a sum or "
        'product of kernels of columns, as in "matern32(time) + periodic(time, 1d) + linear(temperature_c)".',
    ),
]
Noise = Annotated[
    str | None,
    of_model(
        help='Noise of a reading that the data sheet states, one standard deviation: 0.2, or "2% + 0.1" of the reading '
        "and a constant. What else there is, is learnt.",
    ),
]
NoiseColumn = Annotated[
    str | None,
    of_model("--noise-column", metavar="COLUMN", help="The same for each reading, in a column of the table."),
]
NoiseModel = Annotated[
    NoiseModelName | None,
    of_model(
        "--noise-model",
        help="Noise of good readings: constant, varying with the features, proportional (a part of it grows with the "
        "target), or auto, by evidence. Left out: auto with the method sparse, constant with gp.",
    ),
]
Fill = Annotated[
    str | None,
    of_output(
        metavar="STEP",
        help="Write filled.csv too: the truth at regular times, as every 1h or 15min, with its uncertainty, over gaps "
        "as well.",
    ),
]
Transform = Annotated[Response, of_model("--response", help="Transform of the target; auto chooses.")]
Episodes = Annotated[
    bool | None,
    of_model(
        "--episodes/--no-episodes",
        help="Look for biases that last: a stuck or erratic sensor, shifts, drifts. Left out: with the method sparse, "
        "where there is a time, or one feature only.",
    ),
]
Events = Annotated[
    str | None,
    of_model(
        metavar="FILE",
        help="A table, written as TABLE is, of the times at which the sensor was serviced, in its first column or in "
        "one named as the column of times. With --by: each group has its own, where that column is in it too.",
    ),
]
Verdicts = Annotated[
    str | None,
    of_model(
        metavar="FILE",
        help="A table, written as TABLE is, of readings that are known to be good or bad: their row, or their time in "
        "a column named as that of TABLE; verdict (good, bad or open); until, who, when and why, if you like. Kept as "
        "verdicts.csv beside the results, where the next run finds it. With --by: a column of that name too.",
    ),
]
Together = Annotated[
    str | None,
    of_model(
        "--together",
        metavar="COLUMN",
        help="Column that names co-located sensors: they share the truth, and each has a slow error and episodes of "
        "its own.",
    ),
]
Reference = Annotated[
    str | None,
    of_model(metavar="NAME", help="With --together: the sensor that has no error of its own and no episodes."),
]
Seed = Annotated[int, of_model(min=0, max=LARGEST_SEED, help="Seed of all that is random.")]
Force = Annotated[bool, of_output("--force", help="Replace what is there.")]
FlagsName = Annotated[
    FlagNames,
    of_output(
        "--flags",
        help="Flags in a column of their own: qartod (1 pass, 2 not evaluated, 3 suspect, 4 fail, 9 missing), cf "
        "(flag_values and flag_meanings, which NetCDF files keep), or only those of our own columns.",
    ),
]
SuspectAt = Annotated[float, of_output(help="QARTOD: probability from which a reading is suspect.")]
FailAt = Annotated[float, of_output(help="QARTOD: probability from which a reading fails.")]
Json = Annotated[bool, of_output("--json", help="Write the summary as JSON to standard output, and nothing else.")]
Quiet = Annotated[bool, of_output("--quiet", "-q", help="Say nothing but what is wrong.")]
Verbose = Annotated[bool, of_output("--verbose", "-v", help="Say how the table was read, and how the fit was made.")]
OutFolder = Annotated[Path | None, of_output(help="Folder for the results. Left out: named after the table.")]
Jobs = Annotated[int, of_fleet(min=1, help="Worker processes on this machine.")]
Scheduler = Annotated[
    str | None, of_fleet(help="Run on the Dask cluster of this scheduler, tcp://HOST:PORT; waits 30 s for it.")
]
Timeout = Annotated[float, of_fleet(help="Seconds after which one fit is given up; 0 for never.")]

_READING: dict[str, Any] = {
    "na": Na,
    "sep": Sep,
    "encoding": Encoding,
    "decimal": Decimal,
    "day_first": DayFirst,
    "header": Header,
    "skip": Skip,
    "units": Units,
}
"""Options that say how a table is read, by the fields of `ReadOptions`."""


def reading(**more: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of how a table is read, and `more` of them, in place of its `read: ReadOptions`."""
    fields = {**_READING, **more}

    def gives(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, localns={"ReadOptions": Any}, include_extras=True)
        own = [
            each.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
            for name, each in inspect.signature(command).parameters.items()
            if name != "read"
        ]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in fields.items()
        ]

        @wraps(command)
        def run(**given: Any) -> None:
            from biasgp.cli.console import refuse_empty
            from biasgp.data.table import ReadOptions

            said = {name: given.pop(name) for name in fields}
            refuse_empty(encoding=said["encoding"])
            command(**given, read=ReadOptions(**{**said, "na": tuple(said["na"] or ())}))

        run.__annotations__ = {each.name: each.annotation for each in (*own, *added)}
        run.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
        return run

    return gives
