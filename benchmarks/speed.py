"""Speed as ratios within one run: robust fits against the plain GP, and scikit-learn's plain GP against both.

    python benchmarks/speed.py [--replicates 5] [--threads] [--save FILE.json]

scikit-learn's regressor gets the same kernel, the same start and the same bounds. --threads instead times GaussianGP
over sizes with one BLAS thread and with all, which is where covariance/threads.py has its threshold from.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

import saved
from accuracy import DATASETS, METHODS, draw
from biasgp import GaussianGP
from biasgp.covariance import threads
from biasgp.data import campaign
from biasgp.kernels import Exponential, SquaredExponential, Stationary
from biasgp.response import Scaling


def seconds(action: Callable[[], object], repeats: int = 1) -> float:
    """Best of a few wall times."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return min(times)


def sklearn_seconds(X: np.ndarray, y: np.ndarray, kernel: Stationary) -> float:
    """One fit of scikit-learn's plain GP from our start, within our bounds."""
    bound = kernel.bind(X)
    z = Scaling.of(y).forward(y)
    limits = np.exp(bound.bounds(X, float(np.var(z))))
    shape = {"length_scale": bound.length_scale, "length_scale_bounds": limits[1:]}
    correlation = RBF(**shape) if isinstance(kernel, SquaredExponential) else Matern(nu=0.5, **shape)
    theirs = ConstantKernel(1.0, tuple(limits[0])) * correlation + WhiteKernel(0.2, (1e-6, 1e2))
    return seconds(lambda: GaussianProcessRegressor(theirs).fit(X, z))


def paper_scenarios(replicates: int, methods: list[str]) -> list[dict[str, object]]:
    """N = 300: each robust method ÷ GaussianGP, and scikit-learn ÷ each."""
    found: list[dict[str, object]] = []
    print(f"{'N = 300':12} {'method':7} {'s/fit':>7} {'/GaussianGP':>12} {'sklearn/it':>11}")
    for dataset in DATASETS:
        for scenario in (1, 8):
            draws = [draw(dataset, scenario, r) for r in range(replicates)]
            theirs = sum(sklearn_seconds(d.X, d.y, SquaredExponential(ard=True)) for d in draws)
            ours = {
                name: sum(seconds(lambda d=d, m=make: m().fit(d.X, d.y), 2) for d in draws)
                for name, make in METHODS.items()
                if name in methods
            }
            for name, total in ours.items():
                row = {
                    "data": f"{dataset} s{scenario}",
                    "method": name,
                    "seconds": total / replicates,
                    "over_plain": total / ours["gp"],
                    "sklearn_over_it": theirs / total,
                }
                print("{data:12} {method:7} {seconds:7.3f} {over_plain:12.2f} {sklearn_over_it:11.2f}".format(**row))
                found.append(row)
    return found


def sensor_size(methods: list[str]) -> list[dict[str, object]]:
    """N = 1,400, three inputs, exponential kernel."""
    found: list[dict[str, object]] = []
    data = campaign()
    kernel = Exponential(ard=True)
    theirs = sklearn_seconds(data.X, data.o3.y, kernel)
    print(f"{'N = 1,400':12} sklearn {theirs:7.2f} s")
    for name in methods:
        mine = seconds(lambda m=METHODS[name]: m(kernel).fit(data.X, data.o3.y))
        print(f"{'':12} {name:7} {mine:7.2f} s, sklearn/it {theirs / mine:5.2f}")
        found.append({"data": "N = 1,400", "method": name, "seconds": mine, "sklearn_over_it": theirs / mine})
    return found


def import_time() -> list[dict[str, object]]:
    """import of our estimators ÷ import sklearn.gaussian_process, each in a fresh interpreter."""

    def once(module: str) -> float:
        return seconds(lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True), 5)

    bare = once("sys")
    ours, theirs = once("biasgp.estimators") - bare, once("sklearn.gaussian_process") - bare
    print(f"import biasgp.estimators {ours:.2f} s, sklearn.gaussian_process {theirs:.2f} s, ratio {ours / theirs:.2f}")
    return [{"data": "import", "method": "biasgp.estimators", "seconds": ours, "sklearn_over_it": theirs / ours}]


def thread_table() -> None:
    """GaussianGP's fit on one BLAS thread and on all, by size."""
    rng = np.random.default_rng(0)
    for n in (100, 200, 300, 400, 500, 700, 1000, 1400):
        X = rng.uniform(size=(n, 3))
        y = np.sin(6.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)
        times = []
        for threads.SMALL in (10**9, 0):
            times.append(seconds(lambda X=X, y=y: GaussianGP().fit(X, y), 2))
        print(f"N = {n:5}: one thread {times[0]:.3f} s, all {times[1]:.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=5)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS), help="gp is always there")
    parser.add_argument("--scenarios-only", action="store_true", help="leave out N = 1,400 and the import time")
    parser.add_argument("--threads", action="store_true")
    saved.add_option(parser)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.threads:
        thread_table()
        return
    found = paper_scenarios(args.replicates, ["gp", *args.methods])
    if not args.scenarios_only:
        found += sensor_size(["gp", "cob", "sparse"])
        found += import_time()
    saved.write(args.save, found, f"{args.replicates} replicates per scenario, the shorter of two runs of each")


if __name__ == "__main__":
    main()
