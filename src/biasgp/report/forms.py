"""Results in the form of the table that they are about: beside cleaned.csv, a workbook, Parquet, Feather or NetCDF."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import biasgp
from biasgp.analysis.flags import Flags
from biasgp.analysis.judging import Analysis
from biasgp.analysis.record import cleaned, command
from biasgp.data.table import Table
from biasgp.report.inert import inert

SUFFIXES = {"excel": ".xlsx", "parquet": ".parquet", "feather": ".feather", "netcdf": ".nc", "zarr": ".nc"}
"""By the kind of the table; a Zarr store is answered by a NetCDF file, which is one file."""
CSV = ".csv"
LONG_NAMES = {
    "mean": "estimated truth",
    "std": "standard deviation of the estimated truth",
    "bias": "estimated bias of the reading",
    "outlier_probability": "probability that the reading is an outlier",
    "expected": "truth expected without the reading",
    "log_odds": "log odds that the reading is bad",
    "low_95": "lower end of the 95 % interval of the estimated truth",
    "high_95": "upper end of the 95 % interval of the estimated truth",
    "reading_low_95": "lower end of the 95 % interval of a reading",
    "reading_high_95": "upper end of the 95 % interval of a reading",
}
WITHOUT_UNIT = frozenset({"outlier_probability", "log_odds"})


@dataclass(frozen=True)
class ResultFiles:
    """The table with what was found: all its rows and columns as they are, and new columns."""

    frame: pd.DataFrame
    new: tuple[str, ...]
    """The columns that are ours."""
    target: str
    unit: str
    command: str
    flags: Flags | None = None

    @classmethod
    def of(cls, table: Table, outcome: Analysis, flags: Flags | None) -> ResultFiles:
        """Of a fit, with the flags of a scheme."""
        frame = cleaned(table, outcome, flags)
        new = tuple(frame.columns[len(table.columns) :])
        return cls(frame, new, outcome.readings.target, outcome.unit, command(outcome), flags)

    def write(self, path: Path, table: Table) -> None:
        """Write a file in the form that its name ends in: the table's own, else CSV."""
        if path.suffix != own_suffix(table) or path.suffix == CSV:
            inert(self.frame).to_csv(path, index=False)
        elif path.suffix == SUFFIXES["netcdf"]:
            self._write_netcdf(path, table)
        elif path.suffix == SUFFIXES["excel"]:
            self._write_excel(path)
        else:
            frame = self.frame.copy(deep=False)
            for name in self.new:
                frame[name] = _one_kind(frame[name])
            frame.to_parquet(path, index=False) if path.suffix == SUFFIXES["parquet"] else frame.to_feather(path)

    def _write_excel(self, path: Path) -> None:
        frame = inert(self.frame)
        for name in frame.columns:
            if isinstance(frame[name].dtype, pd.DatetimeTZDtype):
                frame[name] = frame[name].astype(str)  # a workbook has no zones
        frame.to_excel(path, index=False, engine="openpyxl")

    def _write_netcdf(self, path: Path, table: Table) -> None:
        """The file as it was, with our variables beside those of the user."""
        from biasgp.data.dataset import opened

        origin = table.origin
        assert origin is not None
        with opened(origin.source, decoded=False) as source:
            dataset = source.load()
        for variable in dataset.variables.values():
            # xarray would add one where there is none.
            if "_FillValue" not in variable.attrs:
                variable.encoding = {"_FillValue": None}
        added = []
        for column, values, about in self._variables():
            name = _free_name(column, dataset)
            dataset[name] = (origin.dimension, values, about)
            dataset[name].encoding = {"_FillValue": None if values.dtype.kind == "i" else float("nan")}
            added.append(name)
        if self.target in dataset.variables:
            own = dataset[self.target].attrs
            own["ancillary_variables"] = " ".join(filter(None, [str(own.get("ancillary_variables", "")), *added]))
        line = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} biasgp {biasgp.__version__}: {self.command}"
        dataset.attrs["history"] = "\n".join(filter(None, [line, str(dataset.attrs.get("history", ""))]))
        dataset.to_netcdf(path, engine="h5netcdf")

    def _variables(self) -> list[tuple[str, Any, dict[str, Any]]]:
        """Our columns that are numbers, each with its attributes; and the flags with their meanings."""
        found: list[tuple[str, Any, dict[str, Any]]] = []
        for column in self.new:
            short = column.removeprefix("biasgp_")
            if short not in LONG_NAMES:
                continue
            values = np.asarray(self.frame[column], dtype=np.float64)
            unit = "1" if short in WITHOUT_UNIT else self.unit
            about = {"long_name": f"{LONG_NAMES[short]} of {self.target}", **({"units": unit} if unit else {})}
            found.append((f"{self.target}_{short}", values, about))
        if self.flags is not None:
            codes = np.array(list(self.flags.meanings), dtype=np.int8)
            meant: dict[str, Any] = {"long_name": f"quality flag of {self.target}", "flag_values": codes}
            meant["flag_meanings"] = " ".join(self.flags.meanings.values())
            found.append((self.flags.column, self.flags.values, meant))
        return found


def own_suffix(table: Table) -> str:
    """What a file in the form of the table ends in; .csv where there is no other, or it has not all of its rows."""
    origin = table.origin
    if origin is None or (origin.dimension and not origin.whole):
        return CSV
    return SUFFIXES.get(origin.source.kind, CSV)


def _one_kind(cells: pd.Series) -> pd.Series:
    """A column that Parquet can hold: text where it holds numbers and text."""
    if cells.dtype != object:
        return cells
    return cells.map(lambda cell: None if cell in ("", None) else str(cell)).astype("str")


def _free_name(name: str, dataset: Any) -> str:
    """A name of CF's letters, that no variable has."""
    plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "result"
    plain = plain if plain[0].isalpha() else f"v_{plain}"
    return f"biasgp_{plain}" if plain in dataset.variables else plain
