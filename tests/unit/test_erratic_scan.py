"""The evidence of erratic runs against brute force: multivariate normal densities of one run after the other."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from biasgp.kernels import Matern32
from biasgp.models import erratic_scan
from biasgp.models.episodes import ERRATIC, SHIFT, EpisodePrior, Ordering, Run
from biasgp.models.erratic_scan import ErraticRuns
from biasgp.models.run_scan import RunScan

N = 26
INSIDE = slice(9, 16)


def log_density(y, K):
    return float(multivariate_normal(np.zeros(len(y)), K).logpdf(y))


def covariance_with(ordering, K, run):
    """K with a bias of its own for each reading of a run, around a level."""
    u = ordering.columns([run])[:, 0]
    return K + run.variance * (np.diag(u) + np.outer(u, u))


@pytest.fixture(params=["times apart", "ties"])
def record(request):
    """Readings, not in order, some of which have nothing to do with the others; and K."""
    rng = np.random.default_rng(3)
    t = np.cumsum(rng.exponential(size=N))
    if request.param == "ties":
        t = np.repeat(np.arange(N // 2, dtype=float), 2)
    K = Matern32(variance=1.0, length_scale=4.0).bind(t[:, None])(t[:, None]) + 0.1 * np.eye(N)
    y = rng.multivariate_normal(np.zeros(N), K)
    y[INSIDE] += 5.0 * rng.standard_normal(7)
    order = rng.permutation(N)
    return Ordering(t[order], prior=EpisodePrior(shortest_erratic=4)), K[np.ix_(order, order)], y[order]


def test_the_gain_of_every_run_is_that_of_the_densities(record):
    ordering, K, y = record
    P = np.linalg.inv(K)
    runs = ErraticRuns(ordering, P, P @ y)
    shortest, V = int(ordering.lengths[0]), 3.0
    for first in range(ordering.n_places):
        longest = int(ordering.longest[first])
        gains = runs.gains(first, longest, V)
        for length in range(shortest, longest + 1):
            run = Run(ERRATIC, first, first + length, V)
            gain = log_density(y, covariance_with(ordering, K, run)) - log_density(y, K)
            prior = ordering.log_prior[ERRATIC][first, length - shortest]
            assert gains[length - shortest] == pytest.approx(gain + prior, abs=1e-9)


def test_the_run_that_is_found_is_the_erratic_one(record):
    ordering, K, y = record
    P = np.linalg.inv(K)
    runs = ErraticRuns(ordering, P, P @ y)
    gain, run = runs.best(ordering.longest)
    assert RunScan(ordering, P, P @ y).best_erratic(np.zeros(N)) == run
    rows, truth = ordering.rows_of(run), ordering.rows[INSIDE]
    assert gain > 0.0 and len(set(rows) & set(truth)) >= 0.8 * len(set(rows) | set(truth))
    # What labels of those readings have cost comes on top.
    refund = np.zeros(N)
    refund[rows[1:3]] = 2.0
    assert ErraticRuns(ordering, P, P @ y, refund).best(ordering.longest)[0] == pytest.approx(gain + 4.0)


def test_there_is_none_where_none_may_be(record):
    ordering, K, y = record
    P = np.linalg.inv(K)
    runs = ErraticRuns(ordering, P, P @ y)
    assert runs.best(np.zeros(ordering.n_places, dtype=int))[0] == -np.inf
    assert RunScan(ordering, P, 0.1 * P @ y).best_erratic(np.zeros(N)) is None


def test_its_variance_is_the_best_one(record):
    ordering, K, y = record
    P = np.linalg.inv(K)
    run = RunScan(ordering, P, P @ y).with_best_variance(Run(ERRATIC, 3, 8))
    each = [log_density(y, covariance_with(ordering, K, Run(ERRATIC, 3, 8, float(V)))) for V in erratic_scan.VARIANCES]
    assert run.variance == erratic_scan.VARIANCES[int(np.argmax(each))]


def test_with_a_run_the_scan_is_that_of_the_covariance_with_it(record):
    ordering, K, y = record
    P = np.linalg.inv(K)
    before, added = Run(SHIFT, 0, 3, 2.0), Run(ERRATIC, 4, 9, 3.0)
    scan = RunScan(ordering, P, P @ y).with_run(before).with_run(added)
    u = ordering.columns([before])[:, 0]
    after = covariance_with(ordering, K, added) + before.variance * np.outer(u, u)
    assert scan.runs == (before, added)
    assert scan.log_evidence == pytest.approx(log_density(y, after) - log_density(y, K), abs=1e-9)
    inverse = np.linalg.inv(after)
    assert_allclose(scan.inverse()[0], inverse, atol=1e-9)
    assert_allclose(scan.inverse()[1], inverse @ y, atol=1e-9)
    U = ordering.scaled_columns([before, added])
    assert_allclose(K + U @ U.T, after, atol=1e-12)


def test_biases_are_those_of_the_joint_posterior_and_ends_are_averaged_over(record):
    ordering, K, y = record
    P, run = np.linalg.inv(K), Run(ERRATIC, 4, 9, 3.0)
    ends = RunScan(ordering, P, P @ y).ends(run)
    prior = covariance_with(ordering, K, run) - K
    solved = np.linalg.solve(K + prior, np.column_stack([y, prior]))
    assert_allclose(ends.mean, prior @ solved[:, 0], atol=1e-9)
    assert_allclose(ends.spread @ ends.spread.T, prior - prior @ solved[:, 1:], atol=1e-9)
    assert ends.log_volume > 0.0
    assert ((ends.probability >= 0.0) & (ends.probability <= 1.0)).all() and ends.probability.max() > 0.5


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("noise", [0.1, 3.0], ids=["little noise", "much noise"])
def test_what_a_bound_gives_up_is_never_the_best(seed, noise):
    rng = np.random.default_rng(seed)
    t = np.arange(float(N))[:, None]
    K = Matern32(variance=1.0, length_scale=4.0).bind(t)(t) + noise * np.eye(N)
    y = rng.multivariate_normal(np.zeros(N), K)
    y[INSIDE] += [0.0, 3.0, 30.0][seed % 3] * rng.standard_normal(7)
    ordering, P, refund = (
        Ordering(t[:, 0], prior=EpisodePrior(shortest_erratic=4)),
        np.linalg.inv(K),
        rng.uniform(0, 3, N),
    )
    runs = ErraticRuns(ordering, P, P @ y, refund)  # with labels everywhere, every place may be an end
    each = [
        runs.gains(first, int(ordering.longest[first]), V).max(initial=-np.inf)
        for first in range(ordering.n_places)
        for V in erratic_scan.POLICY.spreads
    ]
    gain, run = runs.best(ordering.longest)
    assert gain == pytest.approx(max(each), abs=1e-9)
    assert runs.best(ordering.longest, gain - 1.0) == (gain, run)
    assert runs.best(ordering.longest, gain + 1.0) == (gain + 1.0, Run(ERRATIC, 0, 0))
