"""Which part of which table is looked at, and with what kernel, by the names that the command and the app use."""

from __future__ import annotations

from dataclasses import dataclass

from biasgp import kernels
from biasgp.data.columns import Readings, read_readings
from biasgp.data.table import ReadOptions, Table, read_table
from biasgp.kernels import Kernel


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
    decimal: str | None = None
    day_first: bool | None = None
    header: bool | None = None

    def table(self) -> Table:
        """The whole table."""
        options = ReadOptions(self.sep, self.encoding, self.na, self.decimal, self.day_first, self.header)
        return read_table(self.source, options)

    def read(self) -> tuple[Table, Readings]:
        """The table, and the numbers in it."""
        table = self.table()
        return table, self.of(table)

    def of(self, table: Table) -> Readings:
        """The numbers in a table, or in a part of it."""
        names = split_names(self.features, table.columns)
        return read_readings(table, self.target, names, where=self.where, flag_column=self.flag_column)


def split_names(text: str | None, columns: list[str]) -> list[str] | None:
    """Names with commas between; a column may have a comma in its own name if it is the only one."""
    if text is None:
        return None
    return [text] if text in columns else [name.strip() for name in text.split(",") if name.strip()]


def make_kernel(name: str) -> Kernel:
    """A kernel with one length-scale per input."""
    kinds = {
        "exponential": kernels.Exponential,
        "se": kernels.SquaredExponential,
        "matern32": kernels.Matern32,
        "matern52": kernels.Matern52,
    }
    return kinds[name](ard=True)
