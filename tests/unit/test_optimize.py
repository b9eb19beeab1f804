"""The search: what it reports, and which basin it ends in."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from biasgp.optimize import POLICY, go_on, minimize, multistart, resume

WIDE = np.array([[-10.0, 10.0], [-10.0, 10.0]])


def bowl(center):
    """A quadratic with its minimum, 3, at center."""

    def objective(x):
        return float(((x - center) ** 2).sum()) + 3.0, 2.0 * (x - center)

    return objective


def two_basins(x):
    """Minima near −1 (the better one) and +1."""
    value = (x[0] ** 2 - 1.0) ** 2 + 0.3 * x[0]
    return float(value), np.array([4.0 * x[0] * (x[0] ** 2 - 1.0) + 0.3])


def test_finds_an_interior_minimum_and_says_so():
    report = minimize(bowl(np.array([1.0, -2.0])), np.zeros(2), WIDE, 50)
    assert_allclose(report.x, [1.0, -2.0], atol=1e-5)
    assert report.value == pytest.approx(3.0)
    assert report.converged
    assert report.n_iter >= 1
    assert not report.at_lower.any()
    assert not report.at_upper.any()


def test_says_which_entries_sit_on_which_bound():
    report = minimize(bowl(np.array([-20.0, 20.0])), np.zeros(2), WIDE, 50)
    assert_array_equal(report.at_lower, [True, False])
    assert_array_equal(report.at_upper, [False, True])
    assert report.converged


def test_a_fixed_entry_stays_and_is_not_said_to_sit_on_a_bound():
    bounds = np.array([[0.5, 0.5], [-10.0, 10.0]])
    report = minimize(bowl(np.array([3.0, 3.0])), np.array([0.5, 0.0]), bounds, 50)
    assert_allclose(report.x, [0.5, 3.0], atol=1e-5)
    assert not report.at_lower.any()
    assert not report.at_upper.any()


def test_a_start_out_of_bounds_is_moved_in():
    report = minimize(bowl(np.array([1.0, 1.0])), np.array([99.0, -99.0]), WIDE, 50)
    assert_allclose(report.x, [1.0, 1.0], atol=1e-5)


def test_too_few_iterations_are_not_convergence():
    report = minimize(rosenbrock, np.array([-1.5, 2.0]), WIDE, 2)
    assert not report.converged
    assert report.n_iter == 2


def test_multistart_ends_in_the_better_basin_whatever_the_order():
    starts = [np.array([0.95]), np.array([-0.95])]
    bounds = np.array([[-5.0, 5.0]])
    best = minimize(two_basins, starts[1], bounds, 50)
    worse = minimize(two_basins, starts[0], bounds, 50)
    assert worse.value > best.value + 0.1
    for order in (starts, starts[::-1]):
        report = multistart(two_basins, order, bounds, 50)
        assert report.value == pytest.approx(best.value)
        assert report.x[0] < 0


def test_evaluations_are_counted_over_all_starts_and_runs():
    calls = []

    def counted(x):
        calls.append(x)
        return two_basins(x)

    bounds = np.array([[-5.0, 5.0]])
    report = multistart(counted, [np.array([2.0]), np.array([-2.0]), np.array([0.5])], bounds, 50)
    assert report.n_evaluations == len(calls)
    assert resume(counted, report, bounds, 50).n_evaluations == len(calls)


def test_one_start_is_a_plain_run():
    bounds = np.array([[-5.0, 5.0]])
    assert_array_equal(
        multistart(two_basins, [np.array([1.2])], bounds, 50).x, minimize(two_basins, np.array([1.2]), bounds, 50).x
    )


def test_the_promise_is_what_is_left_to_gain():
    report = minimize(bowl(np.array([1.0, -5.0])), np.array([4.0, 2.0]), WIDE, 0, 2.0 * np.eye(2))
    assert report.promise == pytest.approx(report.value - 3.0)


def test_a_search_ends_where_no_more_than_enough_is_to_be_gained():
    center, start = np.array([1.0, -2.0]), np.zeros(2)
    easy = minimize(bowl(center), start, WIDE, 50, 2.0 * np.eye(2), enough=6.0)
    assert easy.converged
    assert easy.n_evaluations == 1
    assert minimize(bowl(center), start, WIDE, 50, 2.0 * np.eye(2), enough=4.0).value == pytest.approx(3.0)


def rosenbrock(x):
    a, b = x
    gradient = np.array([-400 * a * (b - a**2) - 2 * (1 - a), 200 * (b - a**2)])
    return 100 * (b - a**2) ** 2 + (1 - a) ** 2, gradient


def counting(objective):
    calls = []

    def counted(x):
        calls.append(x)
        return objective(x)

    return counted, calls


def test_going_on_is_as_if_the_search_had_not_stopped():
    start = np.array([-1.5, 2.0])
    counted, calls = counting(rosenbrock)
    first = minimize(counted, start, WIDE, 5)
    both = go_on(counted, first, WIDE, 7)
    whole = minimize(rosenbrock, start, WIDE, 12)
    assert_array_equal(both.x, whole.x)
    assert both.value == whole.value
    assert both.n_evaluations == len(calls) == whole.n_evaluations


def test_going_on_costs_nothing_where_nothing_is_to_be_gained():
    counted, calls = counting(bowl(np.array([1.0, -2.0])))
    found = minimize(counted, np.zeros(2), WIDE, 50)
    before = len(calls)
    assert_array_equal(go_on(counted, found, WIDE, 50).x, found.x)
    assert len(calls) == before


def test_a_useless_guess_of_the_curvature_is_dropped():
    center = np.array([1.0, -2.0])
    report = minimize(bowl(center), np.zeros(2), WIDE, 50, np.ones((2, 2)))
    assert report.converged
    assert_allclose(report.x, center, atol=1e-4)


def test_a_search_is_followed_while_it_may_still_win():
    start = minimize(rosenbrock, np.array([-1.5, 2.0]), WIDE, 2)
    assert go_on(rosenbrock, start, WIDE, 200, to_beat=1e3).value < 1e-6
    counted, calls = counting(rosenbrock)
    given_up = go_on(counted, start, WIDE, 200, to_beat=-1e6)
    assert given_up.value == start.value
    assert calls == []
    limited = go_on(rosenbrock, start, WIDE, POLICY.patience + 3, to_beat=1e3)
    assert limited.n_iter == POLICY.patience + 3


def test_a_start_that_is_far_behind_is_dropped_at_the_first_look():
    wall = np.array([[-100.0, 100.0], [-100.0, 100.0]])

    def two_bowls(x):
        right = x[0] > 0
        center = np.array([50.0, 0.0]) if right else np.array([-50.0, 0.0])
        return float(((x - center) ** 4).sum()) + (2.0 * POLICY.far_behind if right else 0.0), 4.0 * (x - center) ** 3

    starts = [np.array([55.0, 4.0]), np.array([-52.0, 1.0])]
    both, dropped = counting(two_bowls), counting(two_bowls)
    patient = multistart(both[0], starts, wall, 0, (10,))
    quick = multistart(dropped[0], starts, wall, 0, (3, 7))
    assert_array_equal(quick.x, patient.x)
    assert quick.n_evaluations == len(dropped[1]) < patient.n_evaluations == len(both[1])


def test_a_curvature_that_leads_nowhere_is_forgotten():
    center = np.array([1.0, -2.0, 0.5])

    def bowl(x):
        return float(((x - center) ** 2).sum()), 2.0 * (x - center)

    report = minimize(bowl, np.zeros(3), np.tile([-5.0, 5.0], (3, 1)), 50, curvature=-np.eye(3))
    assert report.converged
    np.testing.assert_allclose(report.x, center, atol=1e-4)
