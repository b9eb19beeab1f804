"""A stream says what the batch says at the same parameters and labels."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from biasgp.covariance import markov_live as core
from biasgp.covariance import markov_window as place
from biasgp.covariance.markov import MarkovEngine, MarkovPosterior
from biasgp.kernels import Constant, Exponential, Linear, Matern32, Matern52
from biasgp.models.live import Kind, LiveFilter, LiveReadings

SIGMA = 0.3
KINDS = (Kind(0.05, 0.0, 9.0),)
# Of few sizes of state: each is compiled.
KERNELS = {
    "matern32": Matern32(variance=1.0, length_scale=20.0),
    "sum": Exponential(variance=1.0, length_scale=20.0) + Constant(variance=2.0),
    "matern52": Matern52(variance=1.0, length_scale=20.0),
    "trend": Matern32(variance=1.0, length_scale=20.0) + Linear(variance=0.01),
}


def record(kernel, n=120, seed=0):
    """Uneven times, one of them twice, noise of two sizes, outliers."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0.0, n, n))
    t[n // 2] = t[n // 2 - 1]
    X = t[:, None]
    noise = np.where(np.arange(n) % 3 == 0, SIGMA**2, 2.0 * SIGMA**2)
    y = np.linalg.cholesky(kernel(X) + np.diag(noise)) @ rng.standard_normal(n)
    out = rng.random(n) < 0.06
    y[out] += 3.0
    return X, y, noise, out


def pushed(live, X, y, noise):
    return live.push(LiveReadings(np.arange(len(y)), y, X, y, noise, np.full(len(y), np.nan)))


def labels(live, settled):
    """Flags of all readings, as they stand."""
    first, count = live.counts
    facts = live.window.facts[first : first + count]
    return np.concatenate([settled[:, core.LOG_ODDS] > 0.0, facts[:, place.FLAG] > 0.0])


@pytest.mark.parametrize("name", KERNELS)
def test_open_verdicts_are_those_of_the_batch_without_the_flagged_readings(name):
    kernel = KERNELS[name].bind(np.arange(2.0)[:, None])
    X, y, noise, out = record(kernel)
    live = LiveFilter(kernel, 1, KINDS, 12)
    _, settled = pushed(live, X, y, noise)
    flagged = labels(live, settled)
    assert not live.window.facts[:, place.EPISODE].any()
    assert flagged.sum() >= 3 and (flagged == out).mean() > 0.95
    batch = MarkovPosterior(kernel, X[~flagged], y[~flagged], noise[~flagged])
    found = live.open_verdicts()
    mean, variance = batch.mean_and_variance(X[-12:])
    np.testing.assert_allclose(found[:, core.MEAN], mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(np.sqrt(found[:, core.VARIANCE]), np.sqrt(variance), rtol=1e-8)


@pytest.mark.parametrize("name", KERNELS)
def test_the_settled_state_is_that_of_the_batch(name):
    kernel = KERNELS[name].bind(np.arange(2.0)[:, None])
    X, y, noise, _ = record(kernel, seed=3)
    live = LiveFilter(kernel, 1, KINDS, 5)
    _, settled = pushed(live, X, y, noise)
    kept = settled[:, core.LOG_ODDS] <= 0.0
    n = len(kept)
    assert n == len(y) - 5
    weights = np.where(kept, noise[:n], np.inf)
    mean, covariance = MarkovEngine(kernel, X[:n]).covariance(kernel, weights).state_after(y[:n])
    np.testing.assert_allclose(live.settled.mean[:-1], mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(live.settled.covariance[:-1, :-1], covariance, rtol=1e-8, atol=1e-10)
    assert live.settled.facts[core.WHEN] == X[n - 1, 0]


def test_without_kinds_each_verdict_is_the_posterior_up_to_then_and_up_to_the_lag():
    kernel = KERNELS["matern32"].bind(np.arange(2.0)[:, None])
    X, y, noise, _ = record(kernel, n=40)
    lag = 4
    arrivals, settled = pushed(LiveFilter(kernel, 1, (), lag), X, y, noise)
    for k in (0, 7, 30):
        for found, stop in ((arrivals[k], k + 1), (settled[k], k + lag + 1)):
            K = kernel(X[:stop]) + np.diag(noise[:stop])
            cross = kernel(X[k : k + 1], X[:stop])[0]
            assert found[core.MEAN] == pytest.approx(cross @ np.linalg.solve(K, y[:stop]), abs=1e-8)
            assert found[core.VARIANCE] == pytest.approx(1.0 - cross @ np.linalg.solve(K, cross), abs=1e-8)


def test_an_episode_is_a_column_of_the_covariance():
    """f and the amplitude given all readings, against the dense GP with V·uuᵀ added."""
    kernel = KERNELS["matern32"].bind(np.arange(2.0)[:, None])
    rng = np.random.default_rng(2)
    n, first, stop = 90, 60, 78
    X = np.arange(float(n))[:, None]
    y = np.linalg.cholesky(kernel(X) + 1e-10 * np.eye(n)) @ rng.standard_normal(n) + SIGMA * rng.standard_normal(n)
    y[first:stop] += 4.0
    live = LiveFilter(kernel, 1, KINDS, 40)
    _, settled = pushed(live, X, y, np.full(n, SIGMA**2))
    start, count = live.counts
    facts = live.window.facts[start : start + count]
    lasting = np.concatenate([settled[:, core.LASTING] > 0.0, facts[:, place.EPISODE] > 0.0])
    assert np.flatnonzero(lasting).tolist() == list(range(first, stop))
    clean = ~labels(live, settled)
    V, u = facts[:, place.DRAWN].max(), lasting[clean].astype(float)
    K = kernel(X[clean]) + SIGMA**2 * np.eye(clean.sum()) + V * np.outer(u, u)
    found = live.open_verdicts()
    cross = kernel(X[-40:], X[clean])
    np.testing.assert_allclose(found[:, core.MEAN], cross @ np.linalg.solve(K, y[clean]), atol=1e-8)
    variance = 1.0 - np.einsum("ij,ji->i", cross, np.linalg.solve(K, cross.T))
    np.testing.assert_allclose(found[:, core.VARIANCE], variance, atol=1e-8)
    amplitude = V * u @ np.linalg.solve(K, y[clean])
    inside = found[:, core.LASTING] > 0.0
    own = found[inside & (found[:, core.LOG_ODDS] < -10.0), core.BIAS]
    np.testing.assert_allclose(own, amplitude, atol=1e-3)
    assert amplitude == pytest.approx(4.0, abs=0.6)


def test_one_by_one_in_blocks_and_at_once_are_the_same():
    kernel = KERNELS["matern32"].bind(np.arange(2.0)[:, None])
    X, y, noise, _ = record(kernel, n=200)
    results = []
    for size in (1, 7, 200):
        live = LiveFilter(kernel, 1, KINDS, 9)
        whole = LiveReadings(np.arange(len(y)), y, X, y, noise, np.full(len(y), np.nan))
        parts = [live.push(whole.rows(slice(i, i + size))) for i in range(0, len(y), size)]
        results.append([np.concatenate([part[k] for part in parts]) for k in range(2)])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


SCRIPT = """
import json, numpy as np
from biasgp.covariance.markov_live import advance
from biasgp.kernels import Matern32
from biasgp.models.live import Kind, LiveFilter, LiveReadings
assert not hasattr(advance, "py_func")
kernel = Matern32(variance=1.0, length_scale=20.0).bind(np.arange(2.0)[:, None])
rng = np.random.default_rng(1)
t = np.arange(60.0)
y = np.sin(t / 9) + 0.3 * rng.standard_normal(60)
y[20], y[40:50] = 5.0, y[40:50] + 4.0
live = LiveFilter(kernel, 1, (Kind(0.05, 0.0, 9.0),), 8)
found = live.push(LiveReadings(np.arange(60), y, t[:, None], y, np.full(60, 0.09), np.full(60, np.nan)))
print(json.dumps([y.tolist(), [np.nan_to_num(part, neginf=-1e9).tolist() for part in found]]))
"""


def test_interpreted_it_is_the_same():
    pytest.importorskip("numba")
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    y, parts = json.loads(done.stdout)
    y, t = np.array(y), np.arange(60.0)
    kernel = Matern32(variance=1.0, length_scale=20.0).bind(np.arange(2.0)[:, None])
    live = LiveFilter(kernel, 1, (Kind(0.05, 0.0, 9.0),), 8)
    found = pushed(live, t[:, None], y, np.full(60, 0.09))
    assert (found[1][:, core.LASTING] > 0.0).sum() == 10
    for mine, theirs in zip(found, parts, strict=True):
        np.testing.assert_allclose(np.nan_to_num(mine, neginf=-1e9), np.array(theirs), rtol=1e-9, atol=1e-9)
