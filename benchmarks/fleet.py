"""A fleet on two workers against one: `fit_groups` of many sensors, with the same results.

    python benchmarks/fleet.py [--groups 200] [--rows 500]

Needs two idle cores to mean anything.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings

import numpy as np
import pandas as pd

from biasgp.fleet import FleetExecution, fit_groups

COLUMNS = ["group", "status", "readings", "flagged", "noise_std"]


def sensors(groups: int, rows: int) -> pd.DataFrame:
    """A slow signal with noise, one per sensor, a twentieth of the readings shifted."""
    rng = np.random.default_rng(0)
    tables = []
    for g in range(groups):
        t = np.sort(rng.uniform(0.0, 100.0, rows))
        y = np.sin(t / rng.uniform(3.0, 8.0)) + 0.2 * rng.standard_normal(rows)
        y[rng.choice(rows, rows // 20, replace=False)] += 3.0
        tables.append(pd.DataFrame({"station": f"s{g:03d}", "t": t, "y": y}))
    return pd.concat(tables, ignore_index=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--rows", type=int, default=500)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    table = sensors(args.groups, args.rows)
    seconds, results = [], []
    for jobs in (2, 1):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            execution = FleetExecution(jobs, folder=folder)
            fleet = fit_groups(table, by="station", target="y", features=["t"], execution=execution)
            seconds.append(time.perf_counter() - began)
            results.append(fleet.results[COLUMNS])
    pd.testing.assert_frame_equal(*results)
    print(
        f"{args.groups} groups of {args.rows} rows: two workers {seconds[0]:.1f} s, one {seconds[1]:.1f} s, "
        f"ratio {seconds[1] / seconds[0]:.2f}; {int(results[0]['flagged'].sum())} flagged, same results"
    )


if __name__ == "__main__":
    main()
