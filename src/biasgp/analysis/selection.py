"""Which part of which table is looked at, and with what kernel, by the names that the command and the app use."""

from __future__ import annotations

from dataclasses import dataclass

from biasgp import kernels
from biasgp.data.columns import Readings, read_readings
from biasgp.data.table import ReadOptions, Table, read_table

KERNELS = {
    "exponential": kernels.Exponential,
    "matern32": kernels.Matern32,
    "matern52": kernels.Matern52,
    "se": kernels.SquaredExponential,
}


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

    def readings(self, table: Table) -> Readings:
        """The numbers in a table, or in a part of it."""
        names = self.feature_names(table.columns)
        return read_readings(table, self.target, names, where=self.where, flag_column=self.flag_column)

    def feature_names(self, columns: list[str]) -> list[str] | None:
        """Names with commas between; a column may have a comma in its own name if it is the only one."""
        text = self.features
        if text is None:
            return None
        return [text] if text in columns else [name.strip() for name in text.split(",") if name.strip()]
