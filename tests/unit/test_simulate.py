"""The simulators: shapes, seeds, and the paper's numbers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from biasgp.data import SCENARIOS, Scenario, friedman, one_dimensional, simulate, toy

FIELDS = ("X", "y", "f", "is_outlier", "X_test", "y_test", "f_test")


@pytest.mark.parametrize(("dataset", "width", "low", "high"), [("1d", 1, -3, 3), ("friedman", 10, 0, 1)])
def test_shapes_and_ranges(dataset, width, low, high):
    data = simulate(dataset, 1, n=30, n_test=20)
    assert data.X.shape == (30, width)
    assert data.X_test.shape == (20, width)
    assert data.y.shape == data.f.shape == data.is_outlier.shape == (30,)
    assert data.y_test.shape == data.f_test.shape == (20,)
    assert data.is_outlier.dtype == bool
    assert data.X.min() >= low
    assert data.X.max() <= high


def test_default_sizes_are_the_papers():
    data = simulate("1d")
    assert len(data.y) == 300
    assert len(data.y_test) == 1000


@pytest.mark.parametrize(
    "draw", [lambda seed: simulate("1d", 3, n=20, random_state=seed), lambda seed: toy(n=50, random_state=seed)]
)
def test_a_seed_gives_the_same_data_and_another_one_other_data(draw):
    first, again, other = draw(7), draw(7), draw(8)
    from_generator = draw(np.random.default_rng(7))
    for name in FIELDS:
        assert_array_equal(getattr(first, name), getattr(again, name))
        assert_array_equal(getattr(first, name), getattr(from_generator, name))
    assert not np.array_equal(first.y, other.y)


def test_the_eight_scenarios_are_numbered_as_in_the_paper():
    assert list(SCENARIOS) == list(range(1, 9))
    expected = [
        (0.1, 3.0, 0.5),
        (0.1, 3.0, 0.25),
        (0.1, 5.0, 5 / 6),
        (0.1, 5.0, 5 / 12),
        (0.2, 3.0, 0.5),
        (0.2, 3.0, 0.25),
        (0.2, 5.0, 5 / 6),
        (0.2, 5.0, 5 / 12),
    ]
    assert_allclose([(s.q, s.mu, s.sigma) for s in SCENARIOS.values()], expected)


def test_a_number_and_its_scenario_give_the_same_data():
    assert_array_equal(simulate("1d", 6, n=20).y, simulate("1d", SCENARIOS[6], n=20).y)


@pytest.mark.parametrize("scenario", [Scenario(0.1, 3.0, 0.5), Scenario(0.35, -8.0, 0.1), Scenario(0.0, 3.0, 0.5)])
def test_share_and_size_of_outliers_and_noise(scenario):
    data = simulate("friedman", scenario, n=5000, n_test=5000)
    error = data.y - data.f
    assert data.is_outlier.mean() == pytest.approx(scenario.q, abs=0.02)
    assert error[~data.is_outlier].mean() == pytest.approx(0.0, abs=0.05)
    assert error[~data.is_outlier].std() == pytest.approx(scenario.sigma, rel=0.05)
    if scenario.q:
        assert error[data.is_outlier].mean() == pytest.approx(scenario.mu, abs=0.1)
        assert error[data.is_outlier].std() == pytest.approx(scenario.sigma, rel=0.1)
    assert (data.y_test - data.f_test).std() == pytest.approx(scenario.sigma, rel=0.05)


def test_functions_at_points_worked_by_hand():
    assert one_dimensional(np.zeros((1, 1)))[0] == pytest.approx(1.4)
    assert one_dimensional(np.array([[1.0]]))[0] == pytest.approx(0.3 + 0.4 + 0.5 * np.sin(2.7) + 0.55)
    x = np.array([[0.5, 1.0, 0.0, 0.3, 0.2, 9, 9, 9, 9, 9]])
    assert friedman(x)[0] == pytest.approx(10.0 + 5.0 + 3.0 + 1.0)


@pytest.mark.parametrize("seed", range(5))
def test_toy_has_exactly_two_readings_above_2_and_they_are_the_outliers(seed):
    data = toy(random_state=seed)
    assert len(data.y) == 500
    assert data.is_outlier.sum() == 2
    assert_array_equal(data.y > 2.0, data.is_outlier)


def test_toys_inputs_are_sorted_within_its_range():
    data = toy()
    assert np.all(np.diff(data.X[:, 0]) >= 0)
    assert data.X.min() >= 0
    assert data.X.max() <= 10


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="dataset must be one of '1d', 'friedman', got '2d'"):
        simulate("2d")
    for number in (0, 9):
        with pytest.raises(ValueError, match=f"number from 1 to 8 or a Scenario, got {number}"):
            simulate("1d", number)
