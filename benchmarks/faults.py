"""Sparse bias on faults that last: simulated shifts, ramps and stuck sensors, records without a fault, real faults.

    python benchmarks/faults.py [--series 30] [--only "shift of 5" ...] [--readings 400] [--many]
        [--faults FOLDER] [--save FILE.json] [--jobs 2]

N = 400, f Matérn 3/2 with length-scale 30 and standard deviation 1, σ = 0.3, two faults per series. The oracle is the
plain GP without the faulty readings (of records without a fault, with all). Columns: MSE of f over the oracle's (ratio
of means, and the share of series within 1.25), series with both ends of every fault within two readings, share of the
faulty readings that is flagged, series with an episode and with a note, share of f inside the 95 % band over the
faults, CPU time over that of a fit without episodes.

Rows named together are of three co-located sensors of 130 readings each, one of which drifts: RMSE of y − bias_ of that
sensor (over all series, and the worst) and of the others against f, in units of σ (the noise itself has 1), RMSE of f
over that of a plain GP without the drifting sensor, share of f inside the 95 % band, CPU seconds.

With --faults, a folder of windows named like 2003-05-17-no-stuck-242-285.csv (columns value and flag): found is 80 % of
the run's readings flagged.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

import saved
from biasgp import GaussianGP, SparseBiasGP
from biasgp.data.faults import FaultScenario, FaultySeries, TogetherScenario
from biasgp.kernels import Matern32, Same

RAMPS = FaultScenario(kind="ramp", size=8.0, lengths=(40, 80))
SCENARIOS = {
    "shift of 5": FaultScenario(size=5.0),
    "shift of 10": FaultScenario(size=10.0),
    "shift of 20": FaultScenario(size=20.0),
    "shift of 4": FaultScenario(size=4.0),
    "ramps, events given": RAMPS,
    "ramps": RAMPS,
    "stuck": FaultScenario(kind="stuck"),
    "erratic": FaultScenario(kind="erratic", size=10.0),
    "shifts and outliers": FaultScenario(size=10.0, outliers=0.1),
    "step": FaultScenario(kind="step", count=1, size=10.0),
    "uneven times": FaultScenario(size=10.0, times="uneven"),
    "none": FaultScenario(kind="none"),
    "none, exponential": FaultScenario(kind="none", signal="exponential"),
    "none, squared exponential": FaultScenario(kind="none", signal="squared exponential"),
    "none, rough": FaultScenario(kind="none", length_scale=6.0),
    "none, slow": FaultScenario(kind="none", length_scale=120.0),
    "none, peaks": FaultScenario(kind="none", peaks=True),
    "none, quantised": FaultScenario(kind="none", resolution=0.5),
}
TOGETHER = {
    "together": TogetherScenario(),
    "together, drift stays": TogetherScenario(stays=True),
}
MANY = {f"many, shift of {size:g}": FaultScenario(n=20_000, count=10, size=size, outliers=0.02) for size in (10.0, 5.0)}
"""Records for the nearest-neighbour engine, where episodes are looked for in windows."""
WITHIN = 2
"""Readings by which the end of a fault may be missed."""
LONG_RECORDS = 3
"""How many records of 20,000 readings."""
FOUND = 0.8
"""Share of a fault's readings that is flagged where it counts as found."""


def one(name: str, seed: int, readings: int | None = None) -> dict[str, float]:
    """All figures of one series, with another number of readings if given."""
    scenario = (SCENARIOS | MANY)[name]
    data = replace(scenario, n=scenario.n if readings is None else readings).draw(random_state=seed)
    X, events = data.t[:, None], None
    if "events" in name:
        events = [0.5 * (data.t[stop - 1] + data.t[stop]) for _, stop in data.faults]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        SparseBiasGP(Matern32(), order=None).fit(X, data.y)
        plain_time = time.process_time() - began
        began = time.process_time()
        model = SparseBiasGP(Matern32(), order="auto").fit(X, data.y, events=events)
        taken = time.process_time() - began
        clean = data.is_clean
        oracle = GaussianGP(Matern32()).fit(X[clean], data.y[clean])
    mean, std = model.predict(X, return_std=True)
    faulty = ~clean & ~data.is_outlier
    inside = np.abs(mean - data.f) <= 1.96 * std
    return {
        "mse": float(np.mean((mean - data.f) ** 2)),
        "oracle": float(np.mean((oracle.predict(X) - data.f) ** 2)),
        "ends": float(_ends_found(data, model)),
        "flagged": float(model.outlier_mask_[faulty].mean()) if faulty.any() else 0.0,
        "episodes": float(bool(model.episodes_)),
        "notes": float(bool(model.notes_)),
        "inside": float(inside[faulty].mean()) if faulty.any() else 1.0,
        "named": float(_named(data, model)),
        "seconds": taken,
        "without": plain_time,
    }


def together(name: str, seed: int) -> dict[str, float]:
    """All figures of one record of co-located sensors."""
    data, noise = TOGETHER[name].draw(random_state=seed), TOGETHER[name].record.noise
    X = pd.DataFrame({"time": data.t, "sensor": data.sensor})
    drifting = data.sensor == data.drifting
    kernel = Matern32().on("time") + Same("sensor") * Matern32().on("time")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        model = SparseBiasGP(kernel, order="time").fit(X, data.y)
        taken = time.process_time() - began
        oracle = GaussianGP(Matern32()).fit(X[["time"]][~drifting], data.y[~drifting])
    off = data.y - model.bias_ - data.f
    mean, std = model.predict(X[drifting], return_std=True)
    f = data.f[drifting]
    return {
        "drifting": float(np.sqrt(np.mean(off[drifting] ** 2))) / noise,
        "others": float(np.sqrt(np.mean(off[~drifting] ** 2))) / noise,
        "f": float(np.sqrt(np.mean((mean - f) ** 2))),
        "oracle": float(np.sqrt(np.mean((oracle.predict(X[["time"]][drifting]) - f) ** 2))),
        "inside": float(np.mean(np.abs(mean - f) <= 1.96 * std)),
        "seconds": taken,
    }


def report_together(name: str, results: list[dict[str, float]]) -> dict[str, object]:
    """One line of the table for co-located sensors, and its figures."""
    column = {key: np.array([each[key] for each in results]) for key in results[0]}
    print(
        f"{name:26} rmse of y - bias {np.sqrt(np.mean(column['drifting'] ** 2)):6.3f} worst "
        f"{column['drifting'].max():6.3f} others {np.sqrt(np.mean(column['others'] ** 2)):6.3f} rmse of f/oracle "
        f"{column['f'].mean() / column['oracle'].mean():6.3f} inside {column['inside'].mean():5.2f} "
        f"({column['seconds'].mean():.2f} s)",
        flush=True,
    )
    return {
        "row": name,
        "series": len(results),
        "drifting": np.sqrt(np.mean(column["drifting"] ** 2)),
        "worst": column["drifting"].max(),
        "f_over_oracle": column["f"].mean() / column["oracle"].mean(),
        "inside": column["inside"].mean(),
        "seconds": column["seconds"].mean(),
    }


def _ends_found(data: FaultySeries, model: SparseBiasGP) -> bool:
    found = [(each.rows[0], each.rows[-1] + 1) for each in model.episodes_]
    return all(
        any(abs(first - a) <= WITHIN and abs(stop - b) <= WITHIN for a, b in found) for first, stop in data.faults
    )


def _named(data: FaultySeries, model: SparseBiasGP) -> bool:
    """Whether every fault overlaps an episode or the readings of a note or a diagnosis."""
    rows = {row for each in (*model.episodes_, *model.notes_, *model.diagnosis_) for row in each.rows}
    return all(rows & set(range(first, stop)) for first, stop in data.faults)


def report(name: str, results: list[dict[str, float]]) -> dict[str, object]:
    """One line of the table, and its figures."""
    column = {key: np.array([each[key] for each in results]) for key in results[0]}
    ratio = column["mse"] / column["oracle"]
    good = (ratio <= 1.25) | ((column["notes"] > 0) & (column["named"] > 0))
    print(
        f"{name:26} mse/oracle {column['mse'].mean() / column['oracle'].mean():7.3f} within 1.25 "
        f"{np.mean(ratio <= 1.25):5.2f} or named {np.mean(good):5.2f} ends {column['ends'].mean():5.2f} flagged "
        f"{column['flagged'].mean():5.2f} episodes {int(column['episodes'].sum()):3} notes "
        f"{int(column['notes'].sum()):3} inside {column['inside'].mean():5.2f} time "
        f"{column['seconds'].sum() / column['without'].sum():5.2f} ({column['without'].mean():.2f} s)",
        flush=True,
    )
    return {
        "row": name,
        "series": len(results),
        "over_oracle": column["mse"].mean() / column["oracle"].mean(),
        "within": np.mean(ratio <= 1.25),
        "or_named": np.mean(good),
        "ends": column["ends"].mean(),
        "flagged": column["flagged"].mean(),
        "episodes": column["episodes"].sum(),
        "notes": column["notes"].sum(),
        "inside": column["inside"].mean(),
        "time": column["seconds"].sum() / column["without"].sum(),
    }


def real(path: Path) -> str:
    """One line for a window with a real fault."""
    first, last = map(int, re.findall(r"-(\d+)-(\d+)\.csv", path.name)[0])
    frame = pd.read_csv(path, parse_dates=["time"])
    hours = ((frame["time"] - frame["time"].iloc[0]).dt.total_seconds() / 3600.0).to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SparseBiasGP(Matern32(), response="auto", order="auto").fit(hours[:, None], frame["value"].to_numpy())
    run = slice(first, last + 1)
    share = float(model.outlier_mask_[run].mean())
    valid = frame["flag"].isna().to_numpy()
    rows = {row for each in (*model.episodes_, *model.notes_, *model.diagnosis_) for row in each.rows}
    named = bool(rows & set(range(first, last + 1)))
    episodes = ", ".join(f"{each.kind} {each.rows[0]}-{each.rows[-1]}" for each in model.episodes_)
    return (
        f"{path.stem:34} {'found ' if share >= FOUND else 'missed'} {share:4.2f} named {named!s:5} "
        f"valid flagged {model.outlier_mask_[valid].mean():6.3f} trusted {model.trustworthy_!s:5} "
        f"{type(model.response_).__name__:10} {episodes}"
    )


def main() -> None:
    names = [*SCENARIOS, *TOGETHER]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, default=30)
    parser.add_argument("--only", nargs="*", default=names, choices=names)
    parser.add_argument(
        "--many", action="store_true", help="also three records of 20,000 readings with ten faults each"
    )
    parser.add_argument("--readings", type=int, help="of each series, instead of 400 (co-located sensors excepted)")
    parser.add_argument("--faults", type=Path, help="a folder of windows with real faults")
    parser.add_argument("--jobs", type=int, default=2)
    saved.add_option(parser)
    arguments = parser.parse_args()
    rows: list[dict[str, object]] = []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for name in arguments.only:
            if name in TOGETHER:
                found = list(pool.map(together, [name] * arguments.series, range(arguments.series)))
                rows.append(report_together(name, found))
            else:
                work = partial(one, readings=arguments.readings)
                rows.append(report(name, list(pool.map(work, [name] * arguments.series, range(arguments.series)))))
        if arguments.many:
            rows += [report(name, list(pool.map(one, [name] * LONG_RECORDS, range(LONG_RECORDS)))) for name in MANY]
        if arguments.faults is not None:
            for line in pool.map(real, sorted(arguments.faults.glob("*.csv"))):
                print(line, flush=True)
    saved.write(arguments.save, rows)


if __name__ == "__main__":
    main()
