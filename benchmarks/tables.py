"""What it costs to read, check and understand a large CSV file, against pandas.read_csv with dates parsed.

    python benchmarks/tables.py [rows]

A file of 10⁶ rows and 6 columns: a time, four numbers with one to three decimals, and a count. Both read it in turns,
in the same process; the figure is the ratio of the shortest times, and the median of the ratios is beside it. Ours
includes what pandas does not: the separator, header, units and encoding are found, uneven rows are refused, each
column's decimal mark, marks for missing readings and times are decided, and target and features are chosen.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from biasgp.data.columns import read_readings
from biasgp.data.table import Table

ROWS = 1_000_000
TURNS = 7


def write(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    pd.DataFrame(
        {
            "time": pd.date_range("2020", periods=rows, freq="min").strftime("%Y-%m-%d %H:%M:%S"),
            "temperature_c": rng.normal(10, 5, rows).round(2),
            "humidity_pct": rng.uniform(20, 90, rows).round(1),
            "pressure_hpa": rng.normal(1000, 5, rows).round(1),
            "count": rng.integers(0, 1000, rows),
            "no_ppb": rng.lognormal(2, 1, rows).round(3),
        }
    ).to_csv(path, index=False)


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "readings.csv"
        write(path, rows)
        ours, theirs = [], []
        for _ in range(TURNS):
            theirs.append(seconds(lambda: pd.read_csv(path, parse_dates=["time"])))
            ours.append(seconds(lambda: read_readings(Table.read(path), None, None)))
    ratios = np.array(ours) / np.array(theirs)
    print(f"{rows:,} rows: pandas.read_csv {min(theirs):.2f} s, read and understood {min(ours):.2f} s")
    print(f"ratio of the shortest {min(ours) / min(theirs):.2f}, median of the ratios {np.median(ratios):.2f}")


if __name__ == "__main__":
    main()
