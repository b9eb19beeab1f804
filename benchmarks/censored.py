"""Censored readings: what knowing that a reading lies below a limit is worth, and how exact its probability is.

    python benchmarks/censored.py [--series 20] [--readings 200] [--share 0.3] [--cases 40]

Limit: log-normal signals (the exponential of a Matérn 3/2 function) with noise of 20 % and 3 % of outliers; the lowest
readings are known to be below a detection limit only. Mean square error of f at those places, of SparseBiasGP and of
GaussianGP (without outliers) with response="log" and censored=, over that of the same estimator with the limit in their
place, and with those readings left out; over all series, with the median and the worst ratio of a series. Wrong labels
among the measured readings, and seconds over those of a fit with the limit.

Likelihood: of N ≤ 4 readings, some or all censored, against scipy.stats.multivariate_normal.cdf (10⁶ points; for three
variables or more its own error is about 1e-7, and larger in proportion where the probability is small): the largest
difference of the probability, and of the log likelihood; that of the log likelihood from nested adaptive quadrature;
and that of expectation propagation, by which parameters are searched for.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import multivariate_normal, norm

from biasgp import GaussianGP, SparseBiasGP
from biasgp.covariance.dense_engine import DenseEngine
from biasgp.kernels import Matern32
from biasgp.models.censored import CensoredLikelihood, log_likelihood
from biasgp.models.problem import Problem
from biasgp.models.strategy import EXACT

Floats = NDArray[np.float64]
NOISE, OUTLIERS, OUTLIER_FACTOR = 0.2, 0.03, 5.0
"""Of the logarithm; share of the readings; and what these are multiplied by."""
MOST, POINTS = 4, 1_000_000
"""Readings of which the likelihood is compared, and SciPy's points."""


@dataclass(frozen=True)
class Series:
    """Readings of a log-normal signal f, some of which are only known to be below y."""

    X: Floats
    f: Floats
    y: Floats
    censored: Floats
    outlier: NDArray[np.bool_]

    @classmethod
    def draw(cls, n: int, share: float, outliers: float, seed: int) -> Series:
        """One of n readings over 20 units of time; the function's length-scale is 1.5 of them."""
        rng = np.random.default_rng(seed)
        X = np.sort(rng.uniform(0.0, 20.0, n))[:, None]
        C = Matern32(length_scale=1.5, variance=1.0).bind(X)(X)
        f = np.exp(np.linalg.cholesky(C + 1e-9 * np.eye(n)) @ rng.standard_normal(n))
        y = f * np.exp(NOISE * rng.standard_normal(n))
        limit = float(np.quantile(y, share))
        out = np.zeros(n, dtype=bool)
        out[rng.choice(np.flatnonzero(y >= limit), round(outliers * n), replace=False)] = True
        y[out] *= OUTLIER_FACTOR
        return cls(X, f, np.maximum(y, limit), np.where(y < limit, -1.0, 0.0), out)


def errors(series: Series, kind: Any) -> tuple[list[float], list[float], int]:
    """Square errors at the censored places (known, limit, left out), seconds of two fits, and wrong labels."""
    where, seconds, found = series.censored != 0.0, [], []
    parts: list[tuple[NDArray[np.bool_], dict[str, Any]]] = [
        (np.ones_like(where), {"censored": series.censored}),
        (np.ones_like(where), {}),
        (~where, {}),
    ]
    wrong = 0
    for rows, options in parts:
        began = time.perf_counter()
        model = kind(Matern32(), response="log").fit(series.X[rows], series.y[rows], **options)
        seconds.append(time.perf_counter() - began)
        found.append(float(np.sum((model.predict(series.X[where]) - series.f[where]) ** 2)))
        if options and hasattr(model, "outlier_mask_"):
            wrong = int((model.outlier_mask_ != series.outlier).sum())
    return found, seconds, wrong


def limits(n_series: int, n: int, share: float) -> None:
    """What censored= is worth."""
    for kind, outliers in ((SparseBiasGP, OUTLIERS), (GaussianGP, 0.0)):
        rows = [errors(Series.draw(n, share, outliers, seed), kind) for seed in range(n_series)]
        known, limit, without = np.array([row[0] for row in rows]).T
        slower = np.median([row[1][0] / row[1][1] for row in rows])
        print(
            f"{kind.__name__}, {n_series} series of {n}, {share:.0%} censored: MSE with censored= over that with the "
            f"limit {known.sum() / limit.sum():.3f} (median {np.median(known / limit):.3f}, worst "
            f"{np.max(known / limit):.3f}), over that without them {known.sum() / without.sum():.3f}; "
            f"{slower:.1f} times the seconds; {sum(row[2] for row in rows)} wrong labels",
            flush=True,
        )


def by_scipy(each: Problem, noise: float) -> tuple[float, float, float]:
    """Log density of the measured readings, and the probability of the others' sides by SciPy and by quadrature."""
    K, out = each.kernel(each.X) + noise * np.eye(len(each)), each.is_censored
    mean, S, density = np.zeros(out.sum()), K[np.ix_(out, out)], 0.0
    if not out.all():
        gain = np.linalg.solve(K[np.ix_(~out, ~out)], K[np.ix_(~out, out)])
        mean, S = gain.T @ each.y[~out], S - K[np.ix_(out, ~out)] @ gain
        density = float(multivariate_normal.logpdf(each.y[~out], np.zeros((~out).sum()), K[np.ix_(~out, ~out)]))
    assert each.censored is not None
    sign = -each.censored[out]
    upper, S = sign * (each.y[out] - mean), S * np.outer(sign, sign)
    options = {"abseps": 1e-12, "releps": 1e-12, "maxpts": POINTS, "rng": 0}
    inside = float(multivariate_normal.cdf(upper, np.zeros(out.sum()), S, **options))
    nested = by_quadrature(upper, np.linalg.cholesky(S)) if len(upper) < MOST else np.nan  # four take minutes
    return density, inside, nested


def by_quadrature(upper: Floats, L: Floats, *before: float) -> float:
    """P(Lx < upper) for standard normal x, the first of which are given."""
    i = len(before)
    bound = (upper[i] - L[i, :i] @ np.array(before)) / L[i, i]
    if i == len(upper) - 1:
        return float(ndtr(bound))
    inner = lambda x: norm.pdf(x) * by_quadrature(upper, L, *before, x)  # noqa: E731
    return float(quad(inner, min(bound, 0.0) - 9.0, bound, epsabs=0.0, epsrel=1e-9, limit=200)[0])


def likelihoods(cases: int) -> None:
    """The likelihood of few readings."""
    rng = np.random.default_rng(0)
    worst = np.zeros((MOST + 1, 4))
    for _ in range(cases):
        n = int(rng.integers(1, MOST + 1))
        k = int(rng.integers(1, n + 1))
        X, side = np.sort(rng.uniform(0.0, 3.0, n))[:, None], np.zeros(n)
        side[rng.permutation(n)[:k]] = rng.choice([-1.0, 1.0], k)
        kernel, noise = Matern32(length_scale=rng.uniform(0.3, 3.0), variance=1.3).bind(X), rng.uniform(0.05, 0.5)
        each = Problem(X, rng.standard_normal(n), kernel, np.zeros(n), censored=side)
        density, inside, nested = by_scipy(each, noise)
        exact = log_likelihood(each, kernel, noise, EXACT)
        by_ep = -CensoredLikelihood(DenseEngine(X), each)(np.append(kernel.theta, np.log(noise)))[0]
        log_off = [exact - density - np.log(inside), exact - density - np.log(nested), by_ep - exact]
        worst[k] = np.fmax(worst[k], np.abs([np.exp(exact - density) - inside, *log_off]))
    for k in range(1, MOST + 1):
        print(
            f"{k} censored: difference from SciPy's probability {worst[k, 0]:.1e}, of the logarithm {worst[k, 1]:.1e}; "
            f"from nested quadrature's {worst[k, 2] if k < MOST else np.nan:.1e}; by EP {worst[k, 3]:.1e}"
        )


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--series", type=int, default=20)
    parser.add_argument("--readings", type=int, default=200)
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--cases", type=int, default=40)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    likelihoods(options.cases)
    limits(options.series, options.readings, options.share)


if __name__ == "__main__":
    main()
