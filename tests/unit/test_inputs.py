"""What the inputs say about themselves."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from biasgp.inputs import column_scales, neighbour_gap, neighbouring_rows, representative_rows, stretches_of_rows
from biasgp.kernels import Matern32


def test_column_scales_are_standard_deviations(rng):
    X = rng.standard_normal((50, 3)) * [1.0, 1e-6, 1e6]
    assert_allclose(column_scales(X), X.std(axis=0))


@pytest.mark.parametrize("level", [0.0, 0.1, -1e9])
def test_a_constant_column_has_scale_one(level):
    assert_array_equal(column_scales(np.column_stack([np.full(7, level), np.arange(7.0)]))[0], 1.0)


def test_neighbour_gap_is_the_median_distance_of_distinct_values():
    column = np.array([[4.0], [0.0], [1.0], [1.0], [2.0], [2.0], [2.0], [9.0]])
    # Distinct: 0, 1, 2, 4, 9; gaps 1, 1, 2, 5.
    assert_allclose(neighbour_gap(column), [1.5])
    assert_allclose(neighbour_gap(column, jointly=True), [1.5])


def test_neighbour_gap_of_each_column_or_of_the_points_themselves():
    side = np.arange(5.0)
    X = np.array([[a, 10 * b] for a in side for b in side])
    assert_allclose(neighbour_gap(X), [1.0, 10.0])
    assert_allclose(neighbour_gap(X, jointly=True), [1.0])


def test_neighbour_gap_of_identical_rows_is_one():
    X = np.full((4, 2), 3.0)
    assert_allclose(neighbour_gap(X), [1.0, 1.0])
    assert_allclose(neighbour_gap(X, jointly=True), [1.0])


def test_columns_resolve_by_name_and_index():
    assert Matern32().on("c", 0, -2).bind(np.eye(3), ["a", "b", "c"]).columns == (2, 0, 1)


@pytest.mark.parametrize(
    ("column", "names", "message"),
    [
        ("z", ["a", "b"], "column 'z', but X has 'a', 'b'"),
        ("a", None, "no column names; use an index"),
        (2, None, r"column 2, but X has 2 columns \(0 to 1\)"),
        (-3, ["a", "b"], "column -3, but X has 2 columns"),
    ],
)
def test_unknown_columns_are_named(column, names, message):
    with pytest.raises(ValueError, match=message):
        Matern32().on(column).bind(np.eye(2), names)


@pytest.mark.parametrize("choose", [representative_rows, neighbouring_rows])
def test_representative_rows_are_the_same_whatever_their_order(rng, choose):
    X = rng.integers(0, 4, (40, 2)).astype(float)
    y = rng.standard_normal(40)
    order = rng.permutation(40)

    def chosen(X, y):
        rows = choose(X, y, 15)
        assert len(np.unique(rows)) == 15
        return {(*x, v) for x, v in zip(X[rows].tolist(), y[rows].tolist(), strict=True)}

    assert chosen(X, y) == chosen(X[order], y[order])


@pytest.mark.parametrize("choose", [representative_rows, neighbouring_rows])
def test_representative_rows_reach_over_the_whole_range(choose):
    X = np.arange(1000.0)[:, None]
    rows = choose(X, np.zeros(1000), 100)
    assert_array_equal(rows, np.sort(rows))
    counts = np.histogram(rows, bins=4, range=(0, 1000))[0]
    assert counts.min() >= 10


def test_neighbouring_rows_come_in_pairs_of_nearest_neighbours(rng):
    X = rng.standard_normal((400, 2)) * [1.0, 1e3]
    rows = neighbouring_rows(X, np.zeros(400), 60)
    assert len(np.unique(rows)) == 60
    distance = np.linalg.norm((X[rows][:, None] - X) / X.std(axis=0), axis=2)
    distance[np.arange(60), rows] = np.inf
    assert np.mean(np.isin(distance.argmin(axis=1), rows)) > 0.6
    assert_array_equal(neighbouring_rows(X[:9], np.zeros(9), 9), np.arange(9))


def test_neighbouring_rows_of_readings_at_the_same_place():
    assert len(neighbouring_rows(np.ones((10, 2)), np.arange(10.0), 6)) == 6


def hourly_readings(n=1400):
    """Time, a column of noise, and a signal that is much alike from one hour to the next."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal(n), np.arange(n) / 24.0])
    return X, np.sin(2.0 * np.pi * X[:, 1]) + 0.05 * rng.standard_normal(n)


@pytest.mark.parametrize("size", [40, 201, 466])
def test_stretches_lie_along_the_column_in_which_neighbours_are_alike(size):
    X, y = hourly_readings()
    rows = stretches_of_rows(X, y, size)
    assert len(np.unique(rows)) == size
    assert np.mean(np.diff(rows) == 1) > 0.95
    # From the beginning to the end, and the same readings whatever their order.
    assert np.histogram(rows, bins=max(1, size // 40), range=(0, len(X)))[0].min() > 0
    order = np.random.default_rng(1).permutation(len(X))
    assert_array_equal(np.sort(order[stretches_of_rows(X[order], y[order], size)]), rows)


def test_there_are_no_stretches_where_neighbours_differ_as_much_as_any_two():
    X, y = hourly_readings()
    assert stretches_of_rows(X[:, :1], y, 200) is None
    # Nor where most readings are equal: they are alike along any column.
    assert stretches_of_rows(X, np.where(np.arange(len(y)) % 3 == 0, y, 0.0), 200) is None
    # Nor along a column of few distinct values, where none is next to another.
    assert stretches_of_rows(np.round(X[:, 1:] / 20.0), y, 200) is None
