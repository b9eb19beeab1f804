"""The command on the campaign: against scikit-learn's plain GP, and against the simulated truth.

    python benchmarks/command.py [--repeats 1] [--kernels exponential matern32]
    python benchmarks/command.py --long 200000
    python benchmarks/command.py --counts 1200

`biasgp fit` (1,400 rows, three features, defaults but for the kernel and --no-episodes: process start to report) in
seconds, beside one fit of scikit-learn's regressor alone with the same kernel, in the same run; the size of the report,
and how long it takes in Chromium until everything is drawn (where Chromium is installed); precision and recall of the
flagged readings; and how long `biasgp --help` takes.

With --long, a slow signal (Matérn 3/2, a length-scale of 10,000 readings, 5 % outliers) sampled so many times: what
the command says is left at a tenth, a fifth and half of its run, and what was. With --counts, how many factorisations
of all readings an exact fit takes: what is said of one at first rests on that.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from biasgp.analysis.fitting import KERNELS
from biasgp.covariance.dense import FACTORISATIONS
from biasgp.data import campaign
from biasgp.estimators import METHODS
from biasgp.response import Scaling
from biasgp.watch import Ledger, Watch
from speed import seconds

sys.path.append(str(Path(__file__).parents[1] / "tests" / "report"))
import chromium

COMMAND = str(Path(sys.executable).with_name("biasgp"))
SMOOTHNESS = {"exponential": 0.5, "matern32": 1.5}
SLOW = 10_000.0
"""Length-scale of the slow signal, in readings."""
FEATURES = "time,temperature_c,humidity_pct"


def run(*words: str) -> None:
    subprocess.run([COMMAND, *words], check=True, capture_output=True)


def sklearn_seconds(X: np.ndarray, y: np.ndarray, kernel: str) -> float:
    """One fit of scikit-learn's plain GP with the same kernel, from our start, within our bounds."""
    bound, z = KERNELS[kernel](ard=True).bind(X), Scaling.of(y).forward(y)
    limits = np.exp(bound.bounds(X, float(np.var(z))))
    shape = Matern(bound.length_scale, limits[1:], nu=SMOOTHNESS[kernel])
    theirs = ConstantKernel(1.0, tuple(limits[0])) * shape + WhiteKernel(0.2, (1e-6, 1e2))
    return seconds(lambda: GaussianProcessRegressor(theirs).fit(X, z))


def cpu_of_children() -> float:
    """Processor time of the commands that have ended; on a busy machine the fairer measure."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def drawn(report: Path) -> float:
    """Seconds from opening the report, in a browser that runs, until all is there to use; NaN without a browser."""
    if not chromium.BINARY:
        return float("nan")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        page = chromium.Page(Path(profile))
        try:
            return seconds(lambda: page.open(report), 3)
        finally:
            page.close()


def fit(folder: Path, gas: str, kernel: str, repeats: int) -> None:
    """One gas: time, ratio, size, precision and recall."""
    words = ["fit", str(folder / "campaign.csv"), "--target", f"{gas}_ppb", "--features", FEATURES, "--kernel", kernel]
    words.append("--no-episodes")  # the rival looks for none
    out = folder / gas
    before = cpu_of_children()
    mine = seconds(lambda: run(*words, "--flag-column", f"{gas}_flag", "--out", str(out), "--force"), repeats)
    my_cpu = (cpu_of_children() - before) / repeats
    data = campaign()
    before = time.process_time()
    theirs = sklearn_seconds(data.X, getattr(data, gas).y, kernel)
    their_cpu = time.process_time() - before
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    found = summary["flag_column"]
    print(
        f"{gas:3} {kernel:11} biasgp fit {mine:6.1f} s (its fit {summary['fit_seconds']:.1f}), scikit-learn's fit "
        f"alone {theirs:6.1f} s, ratio {theirs / mine:5.2f} (of processor time {their_cpu / my_cpu:.2f}); "
        f"precision {found['precision']:.3f}, recall {found['recall']:.3f}; "
        f"report {(out / 'report.html').stat().st_size / 1e6:.2f} MB, drawn in {drawn(out / 'report.html'):.1f} s",
        flush=True,
    )


def slow_signal(n: int) -> pd.DataFrame:
    """Readings of a Matérn 3/2 process by its exact recursion, with noise and outliers."""
    rng = np.random.default_rng(0)
    rate = np.sqrt(3.0) / SLOW
    step = np.exp(-rate) * np.array([[1.0 + rate, 1.0], [-(rate**2), 1.0 - rate]])
    stationary = np.diag([1.0, rate**2])
    values, vectors = np.linalg.eigh(stationary - step @ stationary @ step.T)
    shocks = rng.standard_normal((n, 2)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    state, f = np.sqrt(stationary.diagonal()) * rng.standard_normal(2), np.empty(n)
    for i in range(n):
        f[i] = state[0]
        state = step @ state + shocks[i]
    y = f + 0.05 * rng.standard_normal(n)
    outliers = rng.uniform(size=n) < 0.05
    y[outliers] += rng.normal(1.0, 1.0, outliers.sum())
    return pd.DataFrame({"reading": np.arange(n), "value": y})


def announced(folder: Path, n: int) -> None:
    """What was said to be left, and what was."""
    slow_signal(n).to_csv(folder / "slow.csv", index=False)
    words = [
        "fit",
        str(folder / "slow.csv"),
        "--no-episodes",
        "--kernel",
        "matern32",
        "--out",
        str(folder / "slow"),
        "--force",
    ]
    said: list[tuple[float, float]] = []
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, "-m", "biasgp", *words], stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr or ():
            now, found = time.perf_counter() - began, re.search(r"([\d.]+) (s|min|h) left", line)
            print(f"{now:7.1f} s: {line.rstrip()}", flush=True)
            if found:
                said.append((now, float(found[1]) * {"s": 1.0, "min": 60.0, "h": 3600.0}[found[2]]))
    took = time.perf_counter() - began
    print(f"{n:,} rows took {took:.0f} s, of which the fit {fit_seconds(folder / 'slow'):.0f} s")
    for share in (0.1, 0.2, 0.5):
        before = [entry for entry in said if entry[0] <= share * took]
        if before:
            now, left = before[-1]
            print(f"at {now / took:.0%}: {left:.0f} s left were announced, {took - now:.0f} s it was")


def fit_seconds(folder: Path) -> float:
    return float(json.loads((folder / "summary.json").read_text(encoding="utf-8"))["fit_seconds"])


class Count(Ledger):
    """Counts what is factorised."""

    total = 0.0

    def did(self, kind: str, units: float, size: int = 0) -> None:
        self.total += units * (kind == FACTORISATIONS)


def counts(n: int) -> None:
    """Factorisations of all readings in an exact fit."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 2))
    y = np.sin(6.0 * X[:, 0]) + 0.1 * rng.standard_normal(n)
    y[rng.uniform(size=n) < 0.1] += 2.0
    for name in ("gp", "sparse", "cob", "rab", "ep", "rcgp"):
        count = Count()
        with Watch(ledger=count):
            METHODS[name](KERNELS["matern32"](ard=True)).fit(X, y)
        print(f"{name}: {count.total / n**3:.0f} factorisations of {n} readings", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--kernels", nargs="+", choices=list(SMOOTHNESS), default=list(SMOOTHNESS))
    parser.add_argument("--long", type=int, metavar="ROWS")
    parser.add_argument("--counts", type=int, metavar="ROWS")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.counts:
        counts(args.counts)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.long:
            announced(folder, args.long)
            return
        campaign().table().to_csv(folder / "campaign.csv", index=False)
        for kernel in args.kernels:
            for gas in ("no", "o3"):
                fit(folder, gas, kernel, args.repeats)
    print(f"biasgp --help {seconds(lambda: run('--help'), 3):.2f} s")


if __name__ == "__main__":
    main()
