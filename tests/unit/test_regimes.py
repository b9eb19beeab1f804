"""Tables that are dirtied: what each regime does, the same for the same seed, and what no table is."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from biasgp.data import REGIMES, dirtied, read_plain_table

every_regime = pytest.mark.parametrize("regime", REGIMES)


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 50.0, (400, 3))
    return np.column_stack([X, 7.0 + X @ [1.0, 0.5, 0.0] + rng.standard_normal(400)])


@every_regime
def test_the_rows_are_those_of_the_table_but_for_what_is_dirtied(values, regime):
    data = dirtied(values, regime, 3)
    assert data.X.shape == (320, 3) and data.X_test.shape == (80, 3)
    assert data.is_outlier.sum() == round(REGIMES[regime] * 320)
    standard = (values - values.mean(axis=0)) / values.std(axis=0)
    clean = ~data.is_outlier
    rows = np.vstack([np.column_stack([data.X, data.y])[clean], np.column_stack([data.X_test, data.y_test])])
    distance = np.abs(rows[:, None, :] - standard[None, :, :]).max(axis=2)
    assert_allclose(distance.min(axis=1), 0.0, atol=1e-12)
    assert len(np.unique(distance.argmin(axis=1))) == len(rows)  # no row is used twice
    assert_array_equal(data.y[clean], data.f[clean])


@every_regime
def test_the_same_seed_gives_the_same_draw_and_another_another(values, regime):
    one, same, other = (dirtied(values, regime, seed) for seed in (1, 1, 2))
    for name in ("X", "y", "is_outlier", "X_test", "y_test", "X_test_dirty", "y_test_dirty"):
        assert_array_equal(getattr(one, name), getattr(same, name))
    assert not np.array_equal(one.y_test, other.y_test)


def moves(data):
    """By how much training and test readings are moved."""
    out = data.y_test_dirty != data.y_test
    return (data.y - data.f)[data.is_outlier], (data.y_test_dirty - data.y_test)[out]


def test_each_regime_does_what_it_says(values):
    for part in moves(dirtied(values, "uniform", 0)):
        assert np.all((np.abs(part) >= 3.0) & (np.abs(part) <= 9.0))
        assert (part > 0).any() and (part < 0).any()
    for seed in range(4):
        train, test = moves(dirtied(values, "asymmetric", seed))
        assert len(np.unique(np.sign(np.concatenate([train, test])))) == 1  # the same direction in the test
    for part in moves(dirtied(values, "shift", 0)):
        assert_allclose(part, 4.0, rtol=1e-12)
    heavy = moves(dirtied(values, "heavy", 0))[0]
    assert np.abs(heavy).max() > 10.0 * np.median(np.abs(heavy))  # no two moments
    assert_array_equal(dirtied(values, "none", 0).y_test_dirty, dirtied(values, "none", 0).y_test)


def test_focused_outliers_sit_in_a_box_below_the_median(values):
    data = dirtied(values, "focused", 0)
    middle = np.median(data.X[~data.is_outlier], axis=0)
    moved = np.any(data.X_test_dirty != data.X_test, axis=1)
    assert moved.sum() == 8
    for X, y in (
        (data.X[data.is_outlier], data.y[data.is_outlier]),
        (data.X_test_dirty[moved], data.y_test_dirty[moved]),
    ):
        assert np.all(np.abs(X - middle) < 0.1 + 0.15)  # the medians are those of all rows, before any was moved
        assert np.all(np.abs(y - np.median(data.f) + 3.0) < 0.6)


def test_a_column_that_does_not_vary_is_left_at_zero(values):
    data = dirtied(np.insert(values, 1, 4.0, axis=1), "shift", 0)
    assert_array_equal(data.X[:, 1], 0.0)


def test_an_unknown_regime_is_named(values):
    with pytest.raises(ValueError, match=r"regime must be one of 'none', .*got 'hard'"):
        dirtied(values, "hard")


def test_a_line_of_names_may_come_first(values, tmp_path):
    np.savetxt(tmp_path / "plain.csv", values, delimiter=",")
    np.savetxt(tmp_path / "named.csv", values, delimiter=",", header="a,b,c,y", comments="")
    assert_array_equal(read_plain_table(tmp_path / "plain.csv"), read_plain_table(tmp_path / "named.csv"))
    assert_allclose(read_plain_table(tmp_path / "plain.csv"), values, rtol=1e-15)


ROWS = [f"{i},{i % 7},{i * i}" for i in range(60)]
BAD = {
    "no numbers": (["name,place", "a,b", "c,d"], r"line 2, column 1: 'a' is no number"),
    "only names": (["name,place"], "no rows of numbers"),
    "empty": ([], "no rows of numbers"),
    "one column": ([str(i) for i in range(60)], "has one column"),
    "few rows": (ROWS[:49], "49 rows of numbers; 50 are the least"),
    "empty cell": ([*ROWS[:20], "1,,2", *ROWS[20:]], r"line 21, column 2: an empty cell"),
    "nan": ([*ROWS[:5], "1,nan,2", *ROWS[5:]], r"line 6, column 2: 'nan' is no number"),
    "ragged": ([*ROWS[:5], "1,2", *ROWS[5:]], "line 6: 2 cells where the first row has 3"),
    "constant": ([f"{i},{i % 7},2.5" for i in range(60)], "the response, is 2.5 in every row"),
}


@pytest.mark.parametrize(("lines", "message"), BAD.values(), ids=BAD)
def test_what_is_no_table_is_refused_by_name(lines, message, tmp_path):
    path = tmp_path / "bad one.csv"
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=f"bad one.csv.*{message}"):
        read_plain_table(path)


def test_a_file_that_is_no_text_is_refused_by_name(tmp_path):
    (tmp_path / "bad.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ValueError, match=r"bad.csv.*cannot be read as a CSV in UTF-8"):
        read_plain_table(tmp_path / "bad.csv")
    with pytest.raises(ValueError, match=r"gone.csv.*No such file"):
        read_plain_table(tmp_path / "gone.csv")
