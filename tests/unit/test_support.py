"""Labels of the readings: their odds and evidence against brute force, their moves against fresh factorisations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import betaln, gammaln
from scipy.stats import multivariate_normal, norm

from biasgp.covariance.dense_engine import Inverse
from biasgp.models.sparse.average import LabelAverage, _OfFew, _OfMany
from biasgp.models.sparse.kinds import PRIOR, Slab
from biasgp.models.sparse.labels import Support, log_evidence

SLABS = {
    "one group": Slab((0.3,), 9.0),
    "two groups": Slab((0.3, 0.5), 9.0),
    "replaced": Slab((2.0,), 9.0, replaced=True, means=(1.0,)),
}
every_slab = pytest.mark.parametrize("slab", SLABS.values(), ids=SLABS.keys())


def correlation(a, b):
    return np.exp(-0.5 * (a - b.T) ** 2)


class Problem:
    """Readings of a GP of variance 1, two of them shifted; the noise differs from reading to reading."""

    def __init__(self, n, seed=3, shifts=(1.5, 1.2)):
        rng = np.random.default_rng(seed)
        self.X = rng.uniform(0.0, 0.5 * n, (n, 1))
        self.C = correlation(self.X, self.X)
        self.noise = rng.uniform(0.05, 0.15, n)
        f = np.linalg.cholesky(self.C + 1e-9 * np.eye(n)) @ rng.standard_normal(n)
        self.y = f + np.sqrt(self.noise) * rng.standard_normal(n)
        self.y[[1, n - 2]] += shifts

    def support(self, slab, labels=None):
        labels = np.zeros(len(self.y)) if labels is None else labels
        return Support(self.C, self.y, self.noise, slab, np.array(labels, dtype=np.intp))

    def covariance_of_bias(self, slab, labels):
        """Prior covariance of δ: τ² of its own, and V that the group shares."""
        own = np.array([0.0, *slab.variances])[labels]
        together = (labels[:, None] == labels) & (labels > 0)
        return np.diag(own) + slab.mean_variance * together

    def evidence(self, slab, labels):
        """log p(y, labels), by the densities' definitions."""
        labels = np.array(labels)
        n, out = len(labels), labels > 0
        K = self.C + np.diag(self.noise)
        if slab.replaced:
            value = norm.logpdf(self.y[out], slab.means[0], np.sqrt(slab.variances[0])).sum()
            if not out.all():
                value += multivariate_normal.logpdf(self.y[~out], cov=K[np.ix_(~out, ~out)])
        else:
            value = multivariate_normal.logpdf(self.y, cov=K + self.covariance_of_bias(slab, labels))
        counts = np.bincount(labels, minlength=slab.n_groups + 1)[1:]
        n_out = out.sum()
        by_share = betaln(n_out + PRIOR.outliers, n - n_out + PRIOR.clean) - betaln(PRIOR.outliers, PRIOR.clean)
        value += by_share
        if not out.any():  # by their share, or because the record has none; less log p(it may have some)
            value += np.log(np.exp(by_share) + PRIOR.spotless / (1.0 - PRIOR.spotless)) - by_share
        return value + gammaln(counts + 1).sum() + gammaln(slab.n_groups) - gammaln(n_out + slab.n_groups)

    def every_labels(self, slab):
        for labels in itertools.product(range(slab.n_groups + 1), repeat=len(self.y)):
            # A GP without a single reading is not one.
            if not (slab.replaced and all(labels)):
                yield np.array(labels)

    def given_labels(self, slab, labels, X_new):
        """Mean and variance of f at new inputs, and of δ, by the textbook's formulas."""
        K, cross, out = self.C + np.diag(self.noise), correlation(X_new, self.X), labels > 0
        if slab.replaced:
            K_inside, used = np.linalg.inv(K[np.ix_(~out, ~out)]), ~out
            f, f_variance = self.conditional(correlation(self.X, self.X), K_inside, used)
            bias, bias_variance = np.where(out, self.y - f, 0.0), np.where(out, f_variance + self.noise, 0.0)
            return *self.conditional(cross, K_inside, used), bias, bias_variance
        D = self.covariance_of_bias(slab, labels)
        K_inverse = np.linalg.inv(K + D)
        everyone = np.ones(len(out), dtype=bool)
        return (
            *self.conditional(cross, K_inverse, everyone),
            D @ K_inverse @ self.y,
            np.diag(D - D @ K_inverse @ D),
        )

    def conditional(self, cross, K_inverse, used):
        cross = cross[:, used]
        return cross @ K_inverse @ self.y[used], 1.0 - np.einsum("ij,jk,ik->i", cross, K_inverse, cross)


@every_slab
@pytest.mark.parametrize("n", [3, 6])
def test_evidence_is_that_of_the_definition_for_every_vector_of_labels(slab, n):
    problem = Problem(n)
    for labels in problem.every_labels(slab):
        expected = pytest.approx(problem.evidence(slab, labels), abs=1e-8)
        assert problem.support(slab, labels).log_evidence() == expected


@every_slab
def test_odds_of_one_reading_are_those_of_the_evidence(slab):
    problem = Problem(5)
    for labels in problem.every_labels(slab):
        weights = problem.support(slab, labels).log_weights()
        for i in range(len(labels)):
            others = [np.where(np.arange(len(labels)) == i, c, labels) for c in range(slab.n_groups + 1)]
            evidence = [problem.evidence(slab, other) for other in others]
            assert_allclose(weights[i] - weights[i, 0], np.array(evidence) - evidence[0], atol=1e-8)


@every_slab
def test_weights_add_up_to_the_density_of_a_reading_given_the_others(slab):
    # Σ_c p(yᵢ, c | the others) integrates to 1 over yᵢ.
    problem = Problem(5)
    labels = np.array([0, 1, 0, slab.n_groups, 0])
    grid = np.linspace(-40.0, 40.0, 8001)
    density = np.empty_like(grid)
    for at, value in enumerate(grid):
        problem.y[2] = value
        density[at] = np.exp(problem.support(slab, labels).log_weights()[2]).sum()
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-6)


@every_slab
def test_a_thousand_moves_leave_what_a_fresh_factorisation_gives(slab, rng):
    problem = Problem(25)
    moved = problem.support(slab)
    for _ in range(1000):
        moved.move(int(rng.integers(25)), int(rng.integers(slab.n_groups + 1)))
    assert moved.labels.any()
    fresh = problem.support(slab, moved.labels)
    assert_allclose(moved.Q, fresh.Q, atol=1e-6)
    assert moved.logdet == pytest.approx(fresh.logdet, abs=1e-6)
    assert moved.log_evidence() == pytest.approx(fresh.log_evidence(), abs=1e-6)
    assert_allclose(moved.log_weights(), fresh.log_weights(), atol=1e-6)


@every_slab
def test_a_move_to_the_same_label_changes_nothing(slab):
    support = Problem(6).support(slab, [0, 1, 0, 0, 0, 0])
    Q, logdet = support.Q.copy(), support.logdet
    support.move(1, 1)
    assert_array_equal(support.Q, Q)
    assert support.logdet == logdet


@every_slab
@pytest.mark.parametrize("others", [0, 1])
def test_the_first_outlier_of_a_record_costs_more_than_the_next(slab, others):
    n = 151
    labels = np.zeros(n, dtype=np.intp)
    labels[100 : 100 + others] = 1
    support = Problem(n).support(slab, labels)
    before, (good, bad, *_) = support.log_evidence(), support.log_weights()[20]
    ahead = PRIOR.spotless_ahead(n) if others == 0 else 0.0
    assert np.log(support.label_prior()[20, 0]) > np.log(0.5)
    support.move(20, 1)
    assert bad - good == pytest.approx(support.log_evidence() - before, abs=1e-6)
    # That is the chance of a record without any outlier, beside that by their share.
    by_share = np.exp(betaln(PRIOR.outliers, n + PRIOR.clean) - betaln(PRIOR.outliers, PRIOR.clean))
    clean, out = PRIOR.label(np.zeros(1) + others, n), PRIOR.shares(np.zeros(1) + others, n - 1)
    assert np.log(clean[0] / clean[1]) - np.log(out[0] / out[1]) == pytest.approx(ahead)
    assert PRIOR.spotless_ahead(n) == pytest.approx(np.log1p(PRIOR.spotless / (1.0 - PRIOR.spotless) / by_share))


@every_slab
@pytest.mark.parametrize("seed", range(4))
def test_climbing_raises_the_evidence_with_every_move(slab, seed):
    problem = Problem(20, seed, shifts=(4.0, -4.0))
    start = np.random.default_rng(seed).integers(0, slab.n_groups + 1, 20)
    start[:3] = 0
    support = problem.support(slab, start)
    before = support.log_evidence()
    while support.climb(1):
        assert support.log_evidence() > before
        before = support.log_evidence()


@every_slab
@pytest.mark.parametrize("seed", range(4))
def test_climbing_ends_where_no_single_move_raises_the_evidence(slab, seed):
    problem = Problem(12, seed, shifts=(4.0, -4.0))
    support = problem.support(slab)
    assert support.climb(1000) < 1000
    top = problem.evidence(slab, support.labels)
    for i, label in itertools.product(range(12), range(slab.n_groups + 1)):
        other = support.labels.copy()
        other[i] = label
        assert problem.evidence(slab, other) <= top + 1e-8


def test_climbing_stops_after_the_moves_it_may_take():
    support = Problem(12, shifts=(8.0, 9.0)).support(SLABS["one group"])
    assert support.climb(1) == 1
    assert (support.labels > 0).sum() == 1


def enumerated(problem, slab, X_new):
    """The exact average over every vector of labels: chance of a bias, moments of f at new inputs and of δ."""
    vectors = list(problem.every_labels(slab))
    evidence = np.array([problem.evidence(slab, labels) for labels in vectors])
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum()
    parts = [problem.given_labels(slab, labels, X_new) for labels in vectors]
    mean, variance, bias, bias_variance = (np.array(part) for part in zip(*parts, strict=True))

    def mixed(means, variances):
        return weight @ means, weight @ (variances + means**2) - (weight @ means) ** 2

    return weight @ (np.array(vectors) > 0), *mixed(mean, variance), *mixed(bias, bias_variance)


def sampled(problem, moments, X_new):
    cross = correlation(X_new, problem.X)
    variance = 1.0 - np.einsum("ij,jk,ik->i", cross, moments.precision, cross)
    return moments.probability, cross @ moments.alpha, variance, moments.bias, moments.bias_variance


@every_slab
@pytest.mark.parametrize("many", [0.5, 1.0], ids=["of all", "of some given the others"])
def test_the_gibbs_average_is_that_over_every_vector_of_labels(slab, many):
    problem, X_new = Problem(6), np.linspace(0.0, 3.0, 5)[:, None]
    every_label = LabelAverage(sweeps=9000, burn_in=100, sampled_up_to=np.inf, settled_from=np.inf, many=many)
    moments = every_label(problem.support(slab), np.random.default_rng(0))
    exact = enumerated(problem, slab, X_new)
    # Something must be in doubt for the average to say anything.
    assert np.any((exact[0] > 0.1) & (exact[0] < 0.9))
    for got, want in zip(sampled(problem, moments, X_new), exact, strict=True):
        assert_allclose(got, want, atol=0.04)


def pair_of_groups_and_one_in_doubt():
    """Readings of a flat f, some shifted up and some down by 4, and one of which half a bias of 4 is seen."""
    problem = Problem(40)
    problem.C = correlation(0.01 * problem.X, 0.01 * problem.X)
    problem.noise = np.full(40, 0.25)
    labels = np.zeros(40, dtype=np.intp)
    labels[:4], labels[4:8] = 1, 2
    problem.y = 0.1 * np.sin(np.arange(40.0)) + np.array([0.0, 4.0, -4.0])[labels]
    return problem, labels


def test_labels_in_doubt_between_two_of_three_are_averaged_over():
    # The third label is far off for such a reading; that must not settle the other two.
    problem, labels = pair_of_groups_and_one_in_doubt()
    slab = Slab((0.01, 0.01), 9.0)
    for value in np.linspace(1.5, 3.5, 81):
        problem.y[20] = value
        support = problem.support(slab, labels)
        weights = support.log_weights()[20]
        if weights[1] > weights[0]:
            break
    assert abs(weights[1] - weights[0]) < 1.0
    moments = LabelAverage(sweeps=2000, burn_in=50)(support, np.random.default_rng(0))
    chance = moments.probability[20]
    assert 0.2 < chance < 0.8
    assert moments.bias[20] == pytest.approx(4.0 * chance, abs=0.4)


@every_slab
def test_readings_in_doubt_know_of_the_settled_ones_all_that_matters(slab):
    problem, rng = Problem(24), np.random.default_rng(1)
    labels = np.where(rng.uniform(size=24) < 0.4, rng.integers(1, slab.n_groups + 1, 24), 0)
    rows = np.array([2, 3, 7, 11, 12, 20])
    average = _OfFew(problem.support(slab, labels), rows, 1)
    for i, label in enumerate(rng.integers(0, slab.n_groups + 1, len(rows))):
        average.part.move(i, int(label))
        labels[rows[i]] = label
    whole = problem.support(slab, labels)
    assert_allclose(average.part.log_weights(), whole.log_weights()[rows], atol=1e-9)
    average.add()
    got, X_new = average.moments(np.zeros(24)), np.linspace(0.0, 12.0, 7)[:, None]
    for ours, textbook in zip(sampled(problem, got, X_new)[1:], problem.given_labels(slab, labels, X_new), strict=True):
        assert_allclose(ours, textbook, atol=1e-8)


@every_slab
def test_an_average_of_all_readings_holds_the_moments_at_the_present_labels(slab):
    problem, rng = Problem(24), np.random.default_rng(2)
    labels = np.where(rng.uniform(size=24) < 0.4, rng.integers(1, slab.n_groups + 1, 24), 0)
    average = _OfMany(problem.support(slab, labels), 2)
    for i, label in ((2, 1), (7, 0), (11, 1)):
        average.part.move(i, label)
        labels[i] = label
    average.add()
    average.add()
    got, X_new = average.moments(np.zeros(24)), np.linspace(0.0, 12.0, 7)[:, None]
    for ours, textbook in zip(sampled(problem, got, X_new)[1:], problem.given_labels(slab, labels, X_new), strict=True):
        assert_allclose(ours, textbook, atol=1e-8)


def test_what_readings_inside_explain_of_those_outside_follows_every_move():
    slab = SLABS["replaced"]
    problem = Problem(20)
    support = problem.support(slab, np.isin(np.arange(20), (3, 4, 15)).astype(np.intp))
    support.log_weights()
    for i, label in ((9, 1), (4, 0), (12, 1), (9, 0)):
        support.move(i, label)
        assert_allclose(support.log_weights(), problem.support(slab, support.labels).log_weights(), atol=1e-9)


def test_an_inverse_at_hand_is_as_good_as_a_new_one():
    problem, slab = Problem(16), SLABS["two groups"]
    labels = np.arange(16) % 3
    fresh = problem.support(slab, labels)
    at_hand = Inverse(problem.C, fresh.Q.copy(), fresh.logdet)
    support = Support(at_hand, problem.y, problem.noise, slab, labels)
    assert_array_equal(support.log_weights(), fresh.log_weights())
    assert support.log_evidence() == fresh.log_evidence()


@every_slab
def test_odds_of_some_readings_are_those_of_all(slab):
    support = Problem(30).support(slab, np.arange(30) % (slab.n_groups + 1))
    rows = np.array([4, 5, 17, 29])
    assert_allclose(support.log_weights(rows), support.log_weights()[rows], atol=1e-12)


@every_slab
def test_labels_that_are_certain_are_kept(slab):
    problem = Problem(12, shifts=(9.0, 9.5))
    support = problem.support(slab)
    support.climb(100)
    before = support.labels.copy()
    moments = LabelAverage(sweeps=20, burn_in=2)(support, np.random.default_rng(0))
    certain = np.abs(moments.probability - 0.5) > 0.499
    assert certain.any()
    assert_array_equal(moments.probability[certain] > 0.5, before[certain] > 0)


def test_the_same_seed_gives_the_same_average():
    average = LabelAverage(sweeps=20, burn_in=2)
    runs = [average(Problem(12).support(SLABS["one group"]), np.random.default_rng(7)) for _ in range(2)]
    assert_array_equal(runs[0].precision, runs[1].precision)
    assert_array_equal(runs[0].bias, runs[1].bias)


@pytest.mark.parametrize("replaced", [True, False])
def test_labels_that_go_and_come_back_leave_the_evidence_finite(replaced):
    # f is so certain that rounding of its prior variance is larger than the noise.
    problem = Problem(12)
    problem.C = 1e11 * correlation(1e-3 * problem.X, 1e-3 * problem.X)
    problem.noise = np.full(12, 1e-6)
    slab = Slab((4.0,), 9.0, replaced=replaced, means=(0.0,))
    support = problem.support(slab)
    for i in (0, 3, 7):
        support.move(i, 1)
        support.move(i, 0)
        assert np.isfinite(support.logdet)


@every_slab
def test_the_evidence_needs_no_inverse(slab):
    problem = Problem(18)
    labels = np.arange(18) % (slab.n_groups + 1)
    for chosen in (labels, np.zeros_like(labels)):
        found = log_evidence(problem.C, problem.y, problem.noise, slab, chosen)
        assert found == pytest.approx(problem.support(slab, chosen).log_evidence(), abs=1e-9)


@every_slab
def test_labels_of_a_copy_move_by_themselves(slab):
    problem = Problem(18)
    support = problem.support(slab, np.arange(18) % 2)
    before, copied = support.log_weights(), support.copy()
    for i in (3, 4, 9):
        copied.move(i, 1 - int(copied.labels[i]))
    assert_array_equal(support.log_weights(), before)
    fresh = problem.support(slab, copied.labels)
    assert_allclose(copied.log_weights(), fresh.log_weights(), atol=1e-9)
    assert_array_equal(copied.afresh().log_weights(), fresh.log_weights())


@pytest.mark.parametrize("kind", ["few", "many"])
@every_slab
def test_labels_that_have_not_moved_count_as_often_as_they_were_met(slab, kind):
    problem, rows = Problem(24), np.array([2, 3, 7, 11])
    both = []
    for again in (False, True):
        support = problem.support(slab, np.arange(24) % 2)
        average = _OfFew(support, rows, 3) if kind == "few" else _OfMany(support, 3)
        average.add()
        average.again() if again else average.add()
        average.part.move(1, 1 - int(average.part.labels[1]))
        average.add()
        both.append(average.moments(np.zeros(24)))
    for name in ("alpha", "precision", "bias", "bias_variance", "labels"):
        assert_allclose(getattr(both[0], name), getattr(both[1], name), atol=1e-10)
