"""The command on the campaign: against scikit-learn's plain GP, and against the simulated truth.

    python benchmarks/command.py [--repeats 1] [--kernels exponential matern32]

`biasgp fit` (1,400 rows, three features, defaults but for the kernel: process start to report) in seconds, beside one
fit of scikit-learn's regressor alone with the same kernel, in the same run; the size of the report, and how long it
takes in Chromium until everything is drawn (where Chromium is installed); precision and recall of the flagged
readings; and how long `biasgp --help` takes.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from biasgp.cli.demo import campaign_table
from biasgp.cli.options import make_kernel
from biasgp.data import campaign
from biasgp.response import Scaling
from speed import seconds

sys.path.append(str(Path(__file__).parents[1] / "tests" / "report"))
import chromium

COMMAND = str(Path(sys.executable).with_name("biasgp"))
SMOOTHNESS = {"exponential": 0.5, "matern32": 1.5}
FEATURES = "time,temperature_c,humidity_pct"


def run(*words: str) -> None:
    subprocess.run([COMMAND, *words], check=True, capture_output=True)


def sklearn_seconds(X: np.ndarray, y: np.ndarray, kernel: str) -> float:
    """One fit of scikit-learn's plain GP with the same kernel, from our start, within our bounds."""
    bound, z = make_kernel(kernel).bind(X), Scaling.of(y).forward(y)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--kernels", nargs="+", choices=list(SMOOTHNESS), default=list(SMOOTHNESS))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        campaign_table().to_csv(folder / "campaign.csv", index=False)
        for kernel in args.kernels:
            for gas in ("no", "o3"):
                fit(folder, gas, kernel, args.repeats)
    print(f"biasgp --help {seconds(lambda: run('--help'), 3):.2f} s")


if __name__ == "__main__":
    main()
