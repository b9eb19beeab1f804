"""Options that several commands share. Nothing heavy is imported here: `--help` must be quick."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from biasgp.data.columns import Readings
    from biasgp.data.table import Table
    from biasgp.kernels import Kernel


class Method(StrEnum):
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
    str | None, typer.Option(help='Use only rows for which this holds: "temperature_c > 0".', rich_help_panel=TABLE)
]
Sep = Annotated[str | None, typer.Option(help="Character between columns. Left out: found.", rich_help_panel=TABLE)]
Encoding = Annotated[str | None, typer.Option(help="Encoding of a CSV file, e.g. cp1252.", rich_help_panel=TABLE)]
KernelOption = Annotated[
    KernelName, typer.Option("--kernel", help="Covariance of the truth, from rough to smooth.", rich_help_panel=MODEL)
]
ResponseOption = Annotated[
    Response, typer.Option("--response", help="Transform of the target; auto chooses.", rich_help_panel=MODEL)
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all that is random.", rich_help_panel=MODEL)]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.", rich_help_panel=OUTPUT)]
OutFolder = Annotated[
    Path | None,
    typer.Option(help="Folder for the results. Left out: named after the table.", rich_help_panel=OUTPUT),
]


@dataclass(frozen=True)
class Selection:
    """Which part of which table."""

    source: str
    target: str | None = None
    features: str | None = None
    na: tuple[str, ...] = ()
    where: str | None = None
    sep: str | None = None
    encoding: str | None = None
    flag_column: str | None = None

    def read(self) -> tuple[Table, Readings]:
        """The table, and the numbers in it."""
        from biasgp.data.columns import read_readings
        from biasgp.data.table import read_table

        table = read_table(self.source, sep=self.sep, encoding=self.encoding, na=self.na)
        return table, read_readings(
            table,
            self.target,
            split_names(self.features, table.columns),
            where=self.where,
            flag_column=self.flag_column,
        )


def split_names(text: str | None, columns: list[str]) -> list[str] | None:
    """Names with commas between; a column may have a comma in its own name if it is the only one."""
    if text is None:
        return None
    return [text] if text in columns else [name.strip() for name in text.split(",") if name.strip()]


def make_kernel(name: str) -> Kernel:
    """A kernel with one length-scale an input."""
    from biasgp import kernels

    kinds = {
        "exponential": kernels.Exponential,
        "se": kernels.SquaredExponential,
        "matern32": kernels.Matern32,
        "matern52": kernels.Matern52,
    }
    return kinds[name](ard=True)
