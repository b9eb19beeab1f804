"""Data beyond the paper's scenarios: each holds what it is named for."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kurtosis, skew

from biasgp.data import SCENARIOS, STRESSES, simulate, two_sided
from biasgp.data.simulate import RUN_LENGTHS, SHIFT, SIGMA

every_stress = pytest.mark.parametrize("name", STRESSES)


def draw(name, seed=0):
    return STRESSES[name](np.random.default_rng(seed))


@every_stress
def test_shapes_agree_and_the_seed_settles_the_data(name):
    data, again, other = draw(name), draw(name), draw(name, 1)
    assert data.X.shape == (len(data.y), 1)
    assert data.y.shape == data.f.shape == data.is_outlier.shape == (300,)
    assert data.X_test.shape == (len(data.y_test), 1)
    assert data.y_test.shape == data.f_test.shape == (1000,)
    assert_array_equal(data.y, again.y)
    assert not np.array_equal(data.y, other.y)


@pytest.mark.parametrize("name", ["no outliers", "heavy tails", "true peaks"])
def test_some_have_no_outlier(name):
    assert not draw(name).is_outlier.any()


@pytest.mark.parametrize(("name", "share"), [("40 % outliers", 0.4), ("45 % outliers", 0.45)])
def test_many_outliers_are_so_many_and_shifted_up(name, share):
    draws = [draw(name, seed) for seed in range(5)]
    assert np.mean([data.is_outlier for data in draws]) == pytest.approx(share, abs=0.05)
    for data in draws:
        shift = (data.y - data.f)[data.is_outlier]
        assert shift.mean() == pytest.approx(SHIFT, abs=0.2)
        assert shift.std() == pytest.approx(SIGMA, rel=0.3)


def runs(mask):
    """Lengths of the runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return edges[1::2] - edges[::2]


@pytest.mark.parametrize("seed", range(5))
def test_clusters_are_a_tenth_in_runs_of_neighbours(seed):
    data = draw("clusters", seed)
    assert data.is_outlier.sum() == 30
    lengths = runs(data.is_outlier[np.argsort(data.X[:, 0])])
    assert len(lengths) <= 4
    assert lengths.max() >= RUN_LENGTHS[0]
    assert_allclose((data.y - data.f)[data.is_outlier].mean(), SHIFT, atol=0.4)


def test_tails_are_heavy_in_the_test_readings_too():
    draws = [draw("heavy tails", seed) for seed in range(5)]
    assert kurtosis(np.concatenate([data.y - data.f for data in draws])) > 2.0
    assert kurtosis(np.concatenate([data.y_test - data.f_test for data in draws])) > 2.0


@pytest.mark.parametrize("seed", range(3))
def test_true_peaks_are_positive_and_skewed_with_noise_in_proportion(seed):
    data = draw("true peaks", seed)
    assert data.y.min() > 0
    assert skew(data.f) > 0.3
    assert data.f.max() > 2.0 * np.median(data.f)
    assert np.std(np.log(data.y / data.f)) == pytest.approx(0.1, rel=0.2)
    assert np.std(np.log(data.y_test / data.f_test)) == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize("dataset", ["1d", "friedman"])
def test_two_sided_shifts_about_half_of_the_outliers_down(dataset):
    data, mu = two_sided(dataset, 8, random_state=3), SCENARIOS[8].mu
    one_sided = simulate(dataset, 8, random_state=3)
    assert_array_equal(data.is_outlier, one_sided.is_outlier)
    change = one_sided.y - data.y
    down = change > mu
    assert_allclose(change, 2.0 * mu * down, atol=1e-12)
    assert not np.any(down & ~data.is_outlier)
    assert 0.3 < down.sum() / data.is_outlier.sum() < 0.7
