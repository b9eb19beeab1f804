"""Many readings: every figure of docs/large-data.md, against GPBoost's plain Vecchia fit in the same run.

    python benchmarks/large.py                     everything
    python benchmarks/large.py --only gpboost --size 20000 --save FILE.json

Parts: exactness, accuracy, auto, curves, gpboost, growth, million, neighbours, cluster, kill; gpboost ends with
gpboost_t, GPBoost's robust fit to fewer readings. Each runs in its own process, with the machine's cores; times are
wall clock, after a small fit that loads (or compiles) what is compiled. Ratios of processor time follow in brackets: on
a machine that is shared they are the ones to believe.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import saved
from biasgp import ConstantBiasGP, GaussianGP, SparseBiasGP
from biasgp.covariance.dense_engine import DenseEngine
from biasgp.covariance.vecchia import Vecchia
from biasgp.kernels import Exponential, Matern32
from biasgp.metrics import mse, nlpd
from saved import figure as row

SIGMA, LENGTH, SHARE, SHIFT = 0.1, 0.2, 0.1, 10.0
DEFAULT_SIZE = 100_000
ROBUST_SIZE, ROBUST_LIMIT = 2000, 500.0
"""Readings that GPBoost's robust fit is given, and the seconds of wall time after which it is ended."""


def field(X: np.ndarray, rng: np.random.Generator, features: int = 2000) -> np.ndarray:
    """A draw of Matérn 3/2 of variance 1, by random Fourier features (its spectral density is a t with 3 degrees)."""
    w = rng.standard_normal((features, X.shape[1])) / np.sqrt(rng.chisquare(3, (features, 1)) / 3.0) / LENGTH
    phase = rng.uniform(0.0, 2.0 * np.pi, features)
    parts = [np.cos(X[i : i + 10_000] @ w.T + phase).sum(axis=1) for i in range(0, len(X), 10_000)]
    return np.sqrt(2.0 / features) * np.concatenate(parts)


def simulate(n: int, n_test: int = 5000, seed: int = 0) -> tuple[np.ndarray, ...]:
    """X, y with a tenth of the readings 10 σ too high, which these are, test inputs and the true f there."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n + n_test, 2))
    f = field(X, rng)
    outlier = rng.uniform(size=n) < SHARE
    y = f[:n] + SIGMA * rng.standard_normal(n) + SHIFT * SIGMA * outlier
    return X[:n], y, outlier, X[n:], f[n:]


def warm_up() -> None:
    X, y, *_ = simulate(3000, 10, seed=9)
    GaussianGP(Matern32(), approximation="vecchia").fit(X, y).predict(X[:10], return_std=True)


@dataclass(frozen=True)
class Spent:
    """Seconds of the wall clock and of the processors."""

    wall: float
    cpu: float

    def over(self, other: Spent) -> str:
        return f"{self.wall / other.wall:.3f} [{self.cpu / other.cpu:.3f}]"

    def __str__(self) -> str:
        return f"{self.wall:.1f} [{self.cpu:.1f}]"


def timed(work: Callable[[], Any], client: Any = None) -> tuple[Spent, Any]:
    """What work takes, here and on a cluster's workers, and its result."""
    wall, cpu = time.perf_counter(), cpu_seconds(client)
    result = work()
    return Spent(time.perf_counter() - wall, cpu_seconds(client) - cpu), result


def cpu_seconds(client: Any) -> float:
    return time.process_time() + (sum(client.run(time.process_time).values()) if client is not None else 0.0)


def exactness(_: int) -> None:
    """All others as neighbours: the dense model."""
    X, y, _, X_test, _ = simulate(300, 100)
    kernel, noise = Matern32(length_scale=LENGTH, variance=1.0).bind(X), np.full(len(y), SIGMA**2)
    dense = DenseEngine(X).covariance(kernel, noise)
    alpha = dense.solve(y)
    exact = 0.5 * (len(y) * np.log(2.0 * np.pi) + dense.logdet + y @ alpha)
    gradient, by_noise = dense.gradient(alpha)
    found = Vecchia(kernel, X, len(y) - 1).covariance(kernel, noise).negative_log_density(y, each_noise=True)
    fixed = kernel.fix("variance", "length_scale")
    worst = max(abs(found[0] - exact), np.abs(found[1] - gradient).max(), np.abs(found[2] - by_noise).max())
    row("neighbours = N - 1: likelihood and gradient, worst difference", f"{worst:.1e}", "1e-8")
    for Model, options in ((GaussianGP, {}), (ConstantBiasGP, {"k": 1.0})):
        fits = [
            Model(fixed, approximation=approximation, neighbors=len(y) - 1, **options).fit(X, y)
            for approximation in ("exact", "vecchia")
        ]
        # The same σ²: where two searches stop differs by more than the two likelihoods do.
        fits[1]._posterior = type(fits[1]._posterior).of(
            fits[0]._posterior.kernel,
            X,
            np.full(len(y), fits[0]._scaled_noise_variance),
            fits[0]._scaling.forward(y) - getattr(fits[0], "bias_", 0.0) / fits[0]._scaling.scale,
            len(y) - 1,
        )
        (mean, std), (mean_v, std_v) = (fit.predict(X_test, return_std=True) for fit in fits)
        worst = max(np.abs(mean - mean_v).max(), np.abs(std**2 - std_v**2).max())
        row(f"  {Model.__name__}: mean and variance", f"{worst:.1e}", "1e-8")


def accuracy(_: int) -> None:
    """20 neighbours against the exact model."""
    ratios, gaps = [], []
    for seed in range(3):
        X, y, outlier, X_test, f = simulate(2000, 2000, seed)
        y = y - SHIFT * SIGMA * outlier
        scores = []
        for approximation in ("exact", "vecchia"):
            model = GaussianGP(Matern32(), approximation=approximation).fit(X, y)
            mean, std = model.predict(X_test, return_std=True)
            scores.append((mse(f, mean), nlpd(f, mean, std)))
        ratios.append(scores[1][0] / scores[0][0])
        gaps.append(scores[1][1] - scores[0][1])
    row("N = 2,000, 20 neighbours, MSE of f over exact (worst of 3)", f"{max(ratios):.4f}", "<= 1.02")
    row("  NLPD less exact (worst of 3)", f"{max(gaps):+.4f}", "<= +0.01")


def gpboost(size: int) -> None:
    """Our robust fit against GPBoost's plain one."""
    import gpboost as gpb

    X, y, outlier, X_test, f = simulate(size)
    warm_up()
    ours, model = timed(lambda: SparseBiasGP(Matern32(), approximation="vecchia").fit(X, y))
    predict, mean = timed(lambda: model.predict(X_test))
    plain, oracle = timed(lambda: GaussianGP(Matern32(), approximation="vecchia").fit(X[~outlier], y[~outlier]))
    flagged = model.outlier_mask_
    hits = (flagged & outlier).sum()
    peer = gpb.GPModel(
        gp_coords=X, cov_function="matern", cov_fct_shape=1.5, gp_approx="vecchia", num_neighbors=20,
        likelihood="gaussian",
    )  # fmt: skip
    theirs, _ = timed(lambda: peer.fit(y=y))
    peer_mean = peer.predict(gp_coords_pred=X_test, predict_var=False)["mu"]
    row(f"N = {size:,}: robust sparse fit, s", f"{ours}")
    row("  our plain fit without the true outliers, s", f"{plain}")
    row("  GPBoost's plain fit, s", f"{theirs}")
    row("  robust / GPBoost's plain, wall time", ours.over(theirs), "<= 1 (0.3)")
    row(
        "  MSE of f / plain Vecchia GP without the outliers",
        f"{mse(f, mean) / mse(f, oracle.predict(X_test)):.4f}",
        "<= 1.05",
    )
    row("  MSE of f: ours, GPBoost (which is not robust)", f"{mse(f, mean):.2e}, {mse(f, peer_mean):.2e}")
    row("  precision, recall", f"{hits / flagged.sum():.4f}, {hits / outlier.sum():.4f}", ">= .97")
    row("  5,000 predictions, s (neighbours used)", f"{predict} ({model._posterior.neighbours})")
    in_a_process_of_its_own("gpboost_t", size, "GPBoost's robust fit")


def gpboost_t(_: int) -> None:
    """GPBoost's fit with Student-t noise, which is its robust one, to few readings; and ours to the same."""
    import gpboost as gpb

    X, y, _, X_test, f = simulate(ROBUST_SIZE)
    warm_up()
    ours, model = timed(lambda: SparseBiasGP(Matern32(), approximation="vecchia").fit(X, y))
    name, bar = f"N = {ROBUST_SIZE:,}: robust sparse fit, s; MSE of f", f"given {ROBUST_LIMIT:g} s"
    row(name, f"{ours}; {mse(f, model.predict(X_test)):.2e}")
    peer = gpb.GPModel(
        gp_coords=X, cov_function="matern", cov_fct_shape=1.5, gp_approx="vecchia", num_neighbors=20, likelihood="t"
    )
    theirs, _ = timed(lambda: peer.fit(y=y))
    peer_mean = peer.predict(gp_coords_pred=X_test, predict_var=False, predict_response=False)["mu"]
    row("  GPBoost's fit with Student-t noise, s; MSE of f", f"{theirs}; {mse(f, peer_mean):.2e}", bar)


def growth(size: int) -> None:
    """Four times the readings."""
    warm_up()
    spent = []
    for n in (size, 4 * size):
        X, y, *_ = simulate(n, 10)
        spent.append(timed(lambda X=X, y=y: SparseBiasGP(Matern32(), approximation="vecchia").fit(X, y))[0])
        row(f"N = {n:,}: robust sparse fit, s", str(spent[-1]))
    row(f"time(N = {4 * size:,}) / time(N = {size:,})", spent[1].over(spent[0]), "<= 5 (4.3)")


def minutes(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A stream: an Ornstein–Uhlenbeck process read every minute, a hundredth of the readings far too high."""
    rng = np.random.default_rng(0)
    from scipy.signal import lfilter

    keep = np.exp(-1.0 / 240.0)
    f = lfilter([np.sqrt(1.0 - keep**2)], [1.0, -keep], rng.standard_normal(n))
    outlier = rng.uniform(size=n) < 0.01
    return np.arange(n, dtype=float)[:, None], f + 0.2 * rng.standard_normal(n) + 3.0 * outlier, outlier


def million(size: int) -> None:
    """A million minutes, as "auto" fits them: exactly, in order of time."""
    _minutes(size, SparseBiasGP(Exponential()))


def neighbours(size: int) -> None:
    """The same by nearest neighbours."""
    _minutes(size, SparseBiasGP(Exponential(), approximation="vecchia", neighbors=10))


def _minutes(size: int, estimator: SparseBiasGP) -> None:
    n = 10 * size
    X, y, outlier = minutes(n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    seconds, model = timed(lambda: estimator.fit(X, y))
    predict, _ = timed(lambda: model.predict(np.linspace(0.0, n, size)[:, None], return_std=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    hits = (model.outlier_mask_ & outlier).sum()
    row(
        f"N = {n:,} minutes, exponential kernel, {estimator.approximation}: fit, s; {size:,} predictions, s",
        f"{seconds}; {predict}",
    )
    row("  peak memory, GB (before the fit)", f"{peak:.2f} ({before:.2f})", "<= .6 in order of time")
    row("  length-scale, σ² (240, 0.04)", f"{model.kernel_.length_scale:.0f}, {model.noise_variance_:.4f}")
    row("  precision, recall", f"{hits / model.outlier_mask_.sum():.4f}, {hits / outlier.sum():.4f}")


def cluster(size: int) -> None:
    """One model on two workers."""
    from distributed import Client, LocalCluster

    X, y, _, X_test, _ = simulate(2 * size, 1000)
    warm_up()

    def work(client: Any = None) -> SparseBiasGP:
        return SparseBiasGP(Matern32(), approximation="vecchia").fit(X, y, client=client)

    alone, single = timed(work)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as local, Client(local) as client:
        small = simulate(5000, 10)
        GaussianGP(Matern32(), approximation="vecchia").fit(small[0], small[1], client=client)
        together, spread = timed(lambda: work(client), client)
    again, _ = timed(work)
    mean = Spent(0.5 * (alone.wall + again.wall), 0.5 * (alone.cpu + again.cpu))
    worst = max(
        np.abs(single.kernel_.theta - spread.kernel_.theta).max(),
        np.abs(single.predict(X_test) - spread.predict(X_test)).max(),
        np.abs(single.bias_ - spread.bias_).max(),
    )
    row(f"N = {2 * size:,} on 2 Dask workers: worst difference", f"{worst:.1e}", "1e-8")
    row("  time / one process with the same cores", f"{together} / {mean} = {together.over(mean)}", "<= 1.3")


def kill(size: int) -> None:
    """A worker killed in the middle of a fit."""
    from distributed import Client, LocalCluster

    X, y, *_ = simulate(size // 2, 10)
    expected = GaussianGP(Matern32(), approximation="vecchia").fit(X, y)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as local, Client(local) as client:
        victim = next(iter(client.run(os.getpid).values()))
        start = time.perf_counter()
        threading.Timer(4.0, os.kill, (victim, signal.SIGKILL)).start()
        found = GaussianGP(Matern32(), approximation="vecchia").fit(X, y, client=client)
        seconds = time.perf_counter() - start
    worst = np.abs(expected.kernel_.theta - found.kernel_.theta).max()
    row(f"a worker killed 4 s into a fit of {seconds:.0f} s: worst difference", f"{worst:.1e}", "same result")


def auto(_: int) -> None:
    """Where "auto" changes over."""
    warm_up()
    for n in (500, 1000, 2000, 3000):
        X, y, *_ = simulate(n, 10)
        spent = [
            timed(lambda a=a, X=X, y=y: SparseBiasGP(Matern32(), approximation=a).fit(X, y))[0]
            for a in ("exact", "vecchia")
        ]
        row(f"N = {n:,}: sparse fit, s: exact, vecchia", f"{spent[0]}, {spent[1]}")


def curves(size: int) -> None:
    """Cost by the number of readings, and error by the number of neighbours: docs/img/large.png."""
    import matplotlib.pyplot as plt

    warm_up()
    figure, (cost, error) = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained")
    steps = {"exact": (250, 500, 1000, 1500), "vecchia": tuple(size // k for k in (100, 30, 10, 3, 1))}
    for approximation, style in (("exact", "k--o"), ("vecchia", "C0-s")):
        seconds = []
        for n in steps[approximation]:
            X, y, *_ = simulate(n, 10)
            model = SparseBiasGP(Matern32(), approximation=approximation)
            # On one BLAS thread: a pool's threads that wait are counted as busy.
            with threadpool_limits(1, "blas"):
                seconds.append(timed(lambda model=model, X=X, y=y: model.fit(X, y))[0].cpu)
            row(f"N = {n:,}: robust sparse fit, {approximation}, s of processor time", f"{seconds[-1]:.1f}")
        cost.loglog(steps[approximation], seconds, style, label=approximation)
    cost.set(xlabel="readings", ylabel="processor time of a robust fit, s")
    cost.legend()
    counts = (5, 10, 20, 40, 80)
    for seed, marker in zip(range(3), "os^", strict=True):
        X, y, outlier, X_test, f = simulate(2000, 2000, seed)
        y = y - SHIFT * SIGMA * outlier
        exact = mse(f, GaussianGP(Matern32(), approximation="exact").fit(X, y).predict(X_test))
        models = [GaussianGP(Matern32(), approximation="vecchia", neighbors=m).fit(X, y) for m in counts]
        ratios = [mse(f, model.predict(X_test)) / exact for model in models]
        row(f"draw {seed}: MSE of f over exact, {', '.join(map(str, counts))} neighbours", f"{np.round(ratios, 4)}")
        error.plot(counts, ratios, f"C0-{marker}", mfc="none", label=f"draw {seed + 1}")
    error.axhline(1.0, color="k", lw=0.8)
    error.set(xscale="log", xlabel="neighbours", ylabel="MSE of f over exact, N = 2,000")
    error.set_xticks(counts, [str(m) for m in counts])
    error.minorticks_off()
    error.legend()
    figure.savefig(Path(__file__).parents[1] / "docs" / "img" / "large.png", dpi=110)


_ALL = (exactness, accuracy, auto, curves, gpboost, growth, million, neighbours, cluster, kill)
PARTS = {part.__name__: part for part in (*_ALL, gpboost_t)}


def in_a_process_of_its_own(part: str, size: int, what: str = "") -> None:
    """Run a part; where `what` names a fit of somebody else's in it, that is ended when its time is up."""
    try:
        saved.part([__file__, "--only", part, "--size", str(size), "--here"], ROBUST_LIMIT if what else None)
    except subprocess.TimeoutExpired:
        row(f"  {what} of N = {ROBUST_SIZE:,}", f"not finished in {ROBUST_LIMIT:g} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, nargs="+", default=[part.__name__ for part in _ALL])
    parser.add_argument("--size", type=int, default=DEFAULT_SIZE, help="the N that the others are multiples of")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    saved.add_option(parser)
    arguments = parser.parse_args()
    for name in arguments.only:
        if arguments.here:
            PARTS[name](arguments.size)
        else:
            in_a_process_of_its_own(name, arguments.size, "GPBoost's robust fit" if name == "gpboost_t" else "")
    saved.write_figures(arguments.save)


if __name__ == "__main__":
    main()
