"""Moves of two readings at once: their gain against fresh factorisations, and what single moves do not reach."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from biasgp.data import two_sided
from biasgp.estimators import GaussianGP, SparseBiasGP
from biasgp.models.sparse.kinds import Slab
from biasgp.models.sparse.labels import Support
from biasgp.models.sparse.ways_out import Pairs

SLABS = {"one group": Slab((0.3,), 9.0), "two groups": Slab((0.3, 0.5), 9.0)}
X = np.sort(np.append(2.3 * np.arange(10.0), [4.1, 5.1, 10.3, 10.4]))
OTHERS, TWINS = (2, 4), (7, 8)


def support(slab, labels=None, shift=4.0):
    """Readings of a flat f, four of them off by the same: two alone among others, and two side by side."""
    y = 0.1 * np.sin(np.arange(len(X)))
    y[[*OTHERS, *TWINS]] += shift
    C = np.exp(-0.5 * (X[:, None] - X) ** 2)
    labels = np.zeros(len(X), dtype=np.intp) if labels is None else labels
    return Support(C, y, np.full(len(X), 0.02), slab, labels)


@pytest.mark.parametrize("slab", SLABS.values(), ids=SLABS.keys())
def test_the_gain_of_a_pair_is_the_change_of_the_evidence(slab):
    rng = np.random.default_rng(0)
    start = rng.integers(0, slab.n_groups + 1, len(X))
    before = support(slab, start)
    for labels in itertools.product(range(slab.n_groups + 1), repeat=2):
        rows = tuple(int(i) for i in rng.choice(len(X), 2, replace=False))
        moved = start.copy()
        moved[list(rows)] = labels
        expected = support(slab, moved).log_evidence() - before.log_evidence()
        assert Pairs().gain(before, (rows, labels)) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("slab", SLABS.values(), ids=SLABS.keys())
def test_two_outliers_that_vouch_for_each_other_are_found_together(slab):
    start = np.zeros(len(X), dtype=np.intp)
    start[list(OTHERS)] = 1
    stuck = support(slab, start)
    assert stuck.climb(len(X)) == 0
    before = stuck.log_evidence()
    assert Pairs().climb(stuck) >= 2
    assert_array_equal(np.flatnonzero(stuck.labels), [*OTHERS, *TWINS])
    assert stuck.log_evidence() > before + 1.0
    assert stuck.log_evidence() == pytest.approx(support(slab, stuck.labels).log_evidence(), abs=1e-8)


def test_labels_are_left_alone_where_no_pair_pays():
    clean = support(SLABS["one group"], shift=0.0)
    assert Pairs().climb(clean) == 0
    assert not clean.labels.any()


def test_there_are_no_pairs_where_readings_do_not_know_of_one_another():
    apart = Support(np.eye(6), np.arange(6.0), np.full(6, 0.1), SLABS["one group"], np.zeros(6, dtype=np.intp))
    assert Pairs().promising(apart) == []


def test_replaced_readings_are_moved_one_by_one():
    replaced = support(Slab((2.0,), 9.0, replaced=True, means=(3.0,)))
    before = replaced.labels.copy()
    assert Pairs().climb(replaced) == 0
    assert_array_equal(replaced.labels, before)


def test_a_fit_that_single_moves_leave_at_twice_the_error():
    data = two_sided("friedman", 6, random_state=np.random.default_rng([1, 1, 6, 2]))
    good = ~data.is_outlier
    oracle = GaussianGP().fit(data.X[good], data.y[good])
    model = SparseBiasGP().fit(data.X, data.y)
    assert_array_equal(model.outlier_mask_, data.is_outlier)
    mse, mse_oracle = (np.mean((data.f_test - m.predict(data.X_test)) ** 2) for m in (model, oracle))
    assert mse < 1.1 * mse_oracle
