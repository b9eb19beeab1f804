"""Options that several commands share. Nothing heavy is imported here: `--help` must be quick."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class MethodName(StrEnum):
    """Short names of the estimators."""

    sparse = "sparse"
    cob = "cob"
    rab = "rab"
    gp = "gp"
    ep = "ep"
    mcmc = "mcmc"


class Response(StrEnum):
    """Transforms of the target."""

    auto = "auto"
    identity = "identity"
    log = "log"
    yeo_johnson = "yeo-johnson"


class KernelName(StrEnum):
    """Kernels, from rough to smooth."""

    exponential = "exponential"
    matern32 = "matern32"
    matern52 = "matern52"
    se = "se"


TABLE, MODEL, OUTPUT = "The table", "The model", "Output"
Source = Annotated[
    str, typer.Argument(help="CSV or Parquet file with a header; - for standard input.", metavar="TABLE")
]
Target = Annotated[
    str | None, typer.Option(help="Column to explain. Left out: the last numeric one.", rich_help_panel=TABLE)
]
Features = Annotated[
    str | None,
    typer.Option(
        help="Columns to explain it by, with commas between. Left out: the first time and all numbers.",
        rich_help_panel=TABLE,
    ),
]
Na = Annotated[
    list[str] | None,
    typer.Option("--na", help="Value that stands for missing, e.g. -200; may be repeated.", rich_help_panel=TABLE),
]
Where = Annotated[
    str | None,
    typer.Option(
        help="Use only rows for which this holds: \"temperature_c > 0 and flag == ''\". Comparisons, in [...], and, "
        "or, not, + - * / on columns (`backticks` around odd names); at most 2,000 characters. Nothing in it is run.",
        rich_help_panel=TABLE,
    ),
]
Sep = Annotated[str | None, typer.Option(help="Character between columns. Left out: found.", rich_help_panel=TABLE)]
Encoding = Annotated[str | None, typer.Option(help="Encoding of a CSV file, e.g. cp1252.", rich_help_panel=TABLE)]
Decimal = Annotated[
    str | None,
    typer.Option(
        help="Mark before decimals: point or comma. Left out: found, column by column.", rich_help_panel=TABLE
    ),
]
DayFirst = Annotated[
    bool | None,
    typer.Option(
        "--day-first/--month-first",
        help="Dates such as 3/4/2005: which comes first. Left out: found.",
        rich_help_panel=TABLE,
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of a CSV file names the columns; without, they are column 1, column 2 …",
        rich_help_panel=TABLE,
    ),
]
KernelOption = Annotated[
    KernelName, typer.Option("--kernel", help="Covariance of the truth, from rough to smooth.", rich_help_panel=MODEL)
]
ResponseOption = Annotated[
    Response, typer.Option("--response", help="Transform of the target; auto chooses.", rich_help_panel=MODEL)
]
LARGEST_SEED = 2**32 - 1
"""What NumPy's older generators take."""
Seed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of all that is random.", rich_help_panel=MODEL)]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.", rich_help_panel=OUTPUT)]
OutFolder = Annotated[
    Path | None,
    typer.Option(help="Folder for the results. Left out: named after the table.", rich_help_panel=OUTPUT),
]
