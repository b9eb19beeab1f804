"""How covariance parameters are looked for: by way of parts of the readings, and from other starts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from biasgp import ConstantBiasGP
from biasgp.data import campaign
from biasgp.kernels import Exponential
from biasgp.models.problem import Problem
from biasgp.models.strategy import search, stages


@pytest.mark.parametrize(
    ("n", "sizes"),
    [
        (60, [60]),
        (100, [50, 100]),
        (300, [150, 300]),
        (1199, [200, 1199]),
        (1400, [200, 466, 1400]),
        (12_000, [200, 444, 1333, 4000, 12_000]),
    ],
)
def test_each_part_lies_within_the_next_and_the_last_is_everything(n, sizes):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 2))
    parts = stages(Problem(X, rng.standard_normal(n), Exponential().bind(X), np.zeros(n)))
    assert [len(part) for part in parts] == sizes
    for few, more in pairwise(parts):
        assert np.isin(few, more).all()
    assert_array_equal(parts[-1], np.arange(n))


@pytest.mark.parametrize(("n", "sizes"), [(100, [100]), (439, [439]), (440, [220, 440]), (2000, [220, 666, 2000])])
def test_no_part_has_too_few_readings_for_its_length_scales(n, sizes):
    X = np.random.default_rng(0).uniform(size=(n, 20))
    parts = stages(Problem(X, X[:, 0], Exponential(ard=True).bind(X), np.zeros(n)))
    assert [len(part) for part in parts] == sizes


def test_of_many_readings_in_order_of_time_the_parts_are_stretches_of_neighbours():
    n = 1400
    X = np.column_stack([np.random.default_rng(0).uniform(size=n), np.arange(n) / n])
    few, third, everything = stages(Problem(X, np.sin(40.0 * X[:, 1]), Exponential(ard=True).bind(X), np.zeros(n)))
    assert [len(few), len(third), len(everything)] == [200, 466, n]
    assert np.isin(few, third).all()
    assert np.mean(np.diff(third) == 1) > 0.95
    assert np.mean(np.diff(few) == 1) > 0.9


def two_basins(x):
    """Minima near −1 (the better one) and +1."""
    return float((x[0] ** 2 - 1.0) ** 2 + 0.3 * x[0]), np.array([4.0 * x[0] * (x[0] ** 2 - 1.0) + 0.3])


@pytest.mark.parametrize(("began", "other", "ends"), [(1.2, -0.8, -1.0), (-1.2, 0.8, -1.0), (1.2, 0.8, 1.0)])
def test_the_better_of_where_a_search_is_and_where_other_starts_lead(began, other, ends):
    evaluations = []

    def build(engine, part):
        def objective(x):
            evaluations.append(x)
            # Few readings show one basin only.
            return (float((x[0] - began) ** 2), 2.0 * (x - began)) if len(part) == 200 else two_basins(x)

        return objective

    X = np.random.default_rng(0).uniform(size=(1300, 1))
    problem = Problem(X, X[:, 0], Exponential().bind(X), np.zeros(1300))
    report = search(build, problem, [np.array([other])], np.array([[-3.0, 3.0]]), 50)
    assert report.x[0] == pytest.approx(ends, abs=0.1)
    assert report.value <= two_basins(np.sign([began]))[0]
    assert report.n_evaluations == len(evaluations)


def test_what_few_readings_hide_is_found_with_all():
    # 200 of 1,400 hourly readings do not show how f goes on in time: it looks like noise with much bias.
    data, rng = campaign(), np.random.default_rng([0, 0, 100, 0])
    y = data.no.y.copy()
    replaced = rng.choice(np.flatnonzero(~data.no.is_outlier), 140, replace=False)
    y[replaced] = rng.choice(data.no.y[data.no.is_outlier], 140)
    model = ConstantBiasGP(Exponential(ard=True)).fit(data.X, y)
    assert np.mean((model.predict(data.X[replaced]) - data.no.y[replaced]) ** 2) < 0.1
