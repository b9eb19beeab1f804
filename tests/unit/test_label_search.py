"""The search for labels: its likelihood, its slabs, and the starts that lead out of a trap."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

from biasgp.covariance.dense import factorise
from biasgp.kernels import Matern32, Matern52, SquaredExponential
from biasgp.models import constant_bias
from biasgp.models.episodes import Ordering, Run
from biasgp.models.problem import Problem
from biasgp.models.sparse import fit
from biasgp.models.sparse.average import LabelAverage
from biasgp.models.sparse.explanations import support_without_episodes
from biasgp.models.sparse.kinds import PRIOR, Slab
from biasgp.models.sparse.search import Candidate, LabelledLikelihood, Search
from biasgp.models.sparse.starts import ConstantBias
from biasgp.models.sparse.ways_out import MoreNoise
from biasgp.optimize import minimize

SLABS = {
    "one group": Slab((0.4,), 9.0),
    "two groups": Slab((0.4, 0.7), 9.0),
    "replaced": Slab((2.0,), 9.0, replaced=True, means=(0.0,)),
}
every_slab = pytest.mark.parametrize("slab", SLABS.values(), ids=SLABS.keys())


class Labelled(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    kernel: object
    known: np.ndarray
    labels: np.ndarray


def labelled(slab, seed=0, n=12):
    """Readings with labels; where they are replaced, only those that stay in the GP."""
    rng = np.random.default_rng(seed)
    X, known = rng.uniform(0.0, 4.0, (n, 2)), rng.uniform(0.0, 0.2, n)
    labels = rng.integers(0, slab.n_groups + 1, n)
    labels[: slab.n_groups + 1] = np.arange(slab.n_groups + 1)
    if slab.replaced:
        labels[:] = 0
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n) + np.array([0.0, 3.0, -3.0])[labels]
    return Labelled(X, y, Matern52(ard=True).bind(X), known, labels)


def parameters(problem, slab, log_noise):
    extra = [] if slab.replaced else np.log(slab.variances)
    return np.concatenate([problem.kernel.theta, [log_noise], extra])


@every_slab
@settings(max_examples=15)
@given(seed=st.integers(0, 50), log_noise=st.floats(-3.0, 1.0), step=st.floats(-0.7, 0.7))
def test_gradient_for_given_labels_is_that_of_central_differences(slab, seed, log_noise, step):
    problem = labelled(slab, seed)
    objective = LabelledLikelihood(Problem(*problem[:4]), slab, problem.labels)
    x, h = parameters(problem, slab, log_noise) + step, 1e-5
    numeric = [(objective(x + e)[0] - objective(x - e)[0]) / (2 * h) for e in h * np.eye(len(x))]
    assert_allclose(objective(x)[1], numeric, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["one group", "two groups"])
def test_a_search_goes_on_with_the_inverse_that_moves_of_labels_have_left(name, monkeypatch):
    slab = SLABS[name]
    problem = labelled(slab, n=30)
    search = Search(Problem(*problem[:4]))
    at, _ = search.refit(Candidate(parameters(problem, slab, -1.0)[: -slab.n_groups], slab, problem.labels), 3)
    made = []
    monkeypatch.setattr("biasgp.covariance.dense_engine.factorise", lambda *given: made.append(given))
    monkeypatch.setattr("biasgp.models.sparse.labels.factorise", lambda *given: made.append(given))
    support = search.support(at)
    for i in (4, 5, 6):
        support.move(i, 1 - min(int(support.labels[i]), 1))
    moved = replace(at, labels=support.labels.copy())
    x = np.append(moved.x, np.log(moved.slab.variances))
    objective = LabelledLikelihood(search.problem, moved.slab, moved.labels)
    objective.at_hand = search._at_hand(x, moved)
    value, gradient = objective(x)
    assert not made
    monkeypatch.undo()
    fresh = LabelledLikelihood(search.problem, moved.slab, moved.labels)(x)
    assert value == pytest.approx(fresh[0], abs=1e-9)
    assert_allclose(gradient, fresh[1], atol=1e-8)


def two_noise_levels(problem, slab, noise):
    """K of a GP whose readings have the noise of their label, and the indicators of the groups."""
    extra = np.array([0.0, *slab.variances])[problem.labels]
    Z = (problem.labels[:, None] == np.arange(1, slab.n_groups + 1)).astype(float)
    return problem.kernel(problem.X) + np.diag(noise + problem.known + extra), Z


@every_slab
def test_likelihood_for_given_labels_is_that_of_a_gp_with_two_noise_levels(slab):
    problem, noise = labelled(slab), 0.2
    K, Z = two_noise_levels(problem, slab, noise)
    value = LabelledLikelihood(Problem(*problem[:4]), slab, problem.labels)(parameters(problem, slab, np.log(noise)))[0]
    # The means that the model estimates are those that maximise p(y | m) p(m).
    precision_of_means = Z.T @ np.linalg.solve(K, Z) + np.eye(slab.n_groups) / slab.mean_variance
    means = np.linalg.solve(precision_of_means, Z.T @ np.linalg.solve(K, problem.y))
    expected = -multivariate_normal.logpdf(problem.y, Z @ means, K) + 0.5 * means @ means / slab.mean_variance
    assert value == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("slab", list(SLABS.values())[:2], ids=list(SLABS)[:2])
def test_prediction_for_given_labels_is_that_of_a_gp_with_two_noise_levels(slab):
    problem, noise = labelled(slab), 0.2
    K, Z = two_noise_levels(problem, slab, noise)
    K += slab.mean_variance * Z @ Z.T
    search = Search(Problem(*problem[:4]))
    support = search.support(Candidate(np.append(problem.kernel.theta, np.log(noise)), slab, problem.labels))
    moments = LabelAverage(sweeps=3, burn_in=0, sampled_up_to=-1.0)(support, np.random.default_rng(0))
    assert_allclose(moments.alpha, np.linalg.solve(K, problem.y), atol=1e-9)
    assert_allclose(moments.precision, np.linalg.inv(K), atol=1e-9)


def test_a_slab_is_widened_by_readings_that_join_it_far_from_the_others():
    slab, noise = Slab((0.5, 0.5), 9.0), np.full(6, 0.1)
    residual = np.array([0.0, 0.2, 2.0, 12.0, -3.0, -3.1])
    wider = slab.widened(residual, noise, np.array([0, 0, 1, 1, 2, 2]))
    assert wider.variances == pytest.approx((25.0 - 0.1, 0.5))
    assert slab.widened(residual, noise, np.array([0, 0, 0, 1, 2, 0])) == slab
    replaced = Slab((0.5,), 9.0, replaced=True)
    assert replaced.widened(residual, noise, np.array([0, 0, 1, 1, 1, 1])) == replaced


def test_slabs_to_start_from_take_each_side_apart_where_both_have_outliers():
    residual = np.array([0.0, 5.0, 5.2, -4.0, -4.2, 0.1])
    far = np.abs(residual) > 1
    (one, labels), (two, sides) = ConstantBias().first_slabs(residual, far, 0.01)
    assert one.n_groups == 1
    assert_array_equal(labels, [0, 1, 1, 1, 1, 0])
    assert two.n_groups == 2
    assert_array_equal(sides, [0, 1, 1, 2, 2, 0])
    assert len(ConstantBias().first_slabs(np.abs(residual), far, 0.01)) == 1


def test_more_slab_parameters_cost_more():
    labels = np.array([0, 1, 1, 2, 0])
    assert SLABS["two groups"].bic_penalty(labels) == pytest.approx(2 * SLABS["one group"].bic_penalty(labels))
    assert SLABS["replaced"].bic_penalty(labels) == pytest.approx(SLABS["two groups"].bic_penalty(labels))
    assert SLABS["two groups"].bic_penalty(0 * labels) == 0.0
    constant = Slab((PRIOR.lowest_variance * (1.0 + 1e-12), 0.5), 9.0)
    assert constant.bic_penalty(labels) == pytest.approx(SLABS["one group"].bic_penalty(labels))


@pytest.mark.parametrize(("spread", "constant"), [(0.0, True), (2.0, False)])
def test_outliers_that_are_shifted_alike_have_no_variance_of_their_own(rng, spread, constant):
    X = np.linspace(0.0, 10.0, 120)[:, None]
    out = np.arange(120) % 9 == 4
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(120)
    y[out] += 4.0 + spread * rng.standard_normal(out.sum())
    search = Search(Problem(X, y, SquaredExponential(length_scale=1.5).bind(X), np.zeros(120)))
    slab, labels = Slab((0.05 + spread**2,), 9.0), out.astype(np.intp)
    fitted, _ = search.refit(Candidate(np.append(search.kernel.theta, np.log(0.09)), slab, labels), 50)
    simpler = search.with_constant_shifts(fitted).slab
    assert (simpler.variances[0] <= 1.001 * PRIOR.lowest_variance) == constant
    assert (simpler == fitted.slab) == (not constant)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_replaced_readings_of_any_number_have_a_density(n):
    slab = Slab.of_replaced(np.full(n, 2.0), 9.0, 0.04)
    assert slab.replaced
    assert slab.variances[0] >= 0.04
    assert slab.means == (2.0 if n else 0.0,)


def test_the_fit_is_the_best_that_any_search_came_to(one_d):
    z = (one_d.y - np.median(one_d.y)) / one_d.y.std()
    kernel = SquaredExponential(ard=True).bind(one_d.X)
    found = fit(Problem(one_d.X, z, kernel, np.zeros(len(z))), 200, np.random.default_rng(0))
    best = max(step.evidence for step in found.trace)
    assert found.trace[-1].evidence >= best - 0.5


def test_noise_that_was_lost_is_found_again(one_d):
    z = (one_d.y - np.median(one_d.y)) / one_d.y.std()
    search = Search(Problem(one_d.X, z, Matern32(ard=True).bind(one_d.X), np.zeros(len(z))))
    found = ConstantBias()(search)[0]
    assert MoreNoise()(search, found) is found
    lowest, p = search.bounds[-1, 0], len(found.x)
    at_lower = found.report.at_lower.copy()
    at_lower[p - 1] = True
    x = np.append(found.x[:-1], lowest)
    evidence = search.evidence_at(Candidate(x, found.slab, found.labels))
    assert evidence < found.evidence - 5.0
    lost = replace(found, x=x, evidence=evidence, report=replace(found.report, at_lower=at_lower))
    again = MoreNoise()(search, lost)
    assert again.evidence == pytest.approx(found.evidence, abs=1.0)
    assert again.x[-1] > lowest + 1.0


def counted(monkeypatch):
    """A list that grows with every factorisation."""
    made = []
    for place in ("biasgp.covariance.dense_engine", "biasgp.models.sparse.labels"):
        monkeypatch.setattr(f"{place}.factorise", lambda *given: made.append(given) or factorise(*given))
    return made


def test_another_slab_without_readings_needs_no_factor(monkeypatch):
    problem = labelled(SLABS["one group"], n=30)
    search, nobody = Search(Problem(*problem[:4])), np.zeros(30, dtype=np.intp)
    x = np.append(problem.kernel.theta, -1.0)
    known = search.support(Candidate(x, Slab((0.4,), 9.0), nobody))
    made = counted(monkeypatch)
    other = search.support(Candidate(x, Slab((0.1, 0.2), 9.0), nobody))
    assert not made and other is not known
    monkeypatch.undo()
    fresh = Search(search.problem).support(Candidate(x, Slab((0.1, 0.2), 9.0), nobody))
    assert_allclose(other.log_weights(), fresh.log_weights(), atol=1e-12)
    other.move(3, 1)
    assert_array_equal(
        known.log_weights(), Search(search.problem).support(Candidate(x, known.slab, nobody)).log_weights()
    )


def test_the_evidence_of_a_candidate_is_that_of_its_labels():
    for slab in SLABS.values():
        problem = labelled(slab, n=30)
        search = Search(Problem(*problem[:4]).with_prior())
        at = Candidate(np.append(problem.kernel.theta, -1.0), slab, problem.labels)
        before = search.evidence_at(at)
        assert before == pytest.approx(search.evidence(search.support(at), at.x), abs=1e-9)
        assert search.evidence_at(at) == search.evidence(search.support(at), at.x)


@pytest.mark.parametrize("kind", ["shift", "erratic"])
def test_with_and_without_episodes_one_inverse_follows_from_the_other(kind, monkeypatch):
    rng = np.random.default_rng(0)
    t = np.arange(40.0)
    y = np.sin(0.2 * t) + 0.1 * rng.standard_normal(40) + np.where((t > 9) & (t < 18), 2.0, 0.0)
    problem = Problem(t[:, None], y, Matern32().bind(t[:, None]), np.zeros(40))
    base, slab, labels = Search(problem), Slab((0.4,), 9.0), (t == 30).astype(np.intp)
    columns = Ordering(t).scaled_columns([Run(kind, 10, 18, 3.0)])
    search = Search(replace(problem, shared=columns))
    at = Candidate(np.append(problem.kernel.theta, -2.0), slab, labels)
    expected, expected_bare = (Search(each.problem).support(at) for each in (search, base))
    base.support(at)
    made = counted(monkeypatch)
    search.know_beside(base, at)
    value, _ = search.refit(at, 0)
    found = search.support(value)
    monkeypatch.setattr(base, "_latest", (np.empty(0), None))
    bare = support_without_episodes(base, search, at)
    assert not [C for C, _ in made if len(C) == 40], "nothing of all readings"
    assert_allclose(found.log_weights(), expected.log_weights(), atol=1e-8)
    assert_allclose(bare.log_weights(), expected_bare.log_weights(), atol=1e-8)


def test_residuals_of_a_rough_fit_are_those_of_its_model():
    problem = labelled(SLABS["one group"], n=40)
    given = Problem(*problem[:4])
    objective = constant_bias._objective(given)
    starts, held, _ = constant_bias._starts_and_bounds(given, None, None)
    report = minimize(objective, starts[0], held, 3)
    rough, model = objective.rough(report), objective.model(report)
    assert_allclose(rough.residual, given.y - model.posterior.mean(given.X), atol=1e-9)
    assert rough.noise_variance == pytest.approx(model.noise_variance)
    assert_allclose(rough.x[:-1], model.kernel.theta, atol=1e-12)


def test_no_fit_keeps_numbers_for_every_pair_of_readings_to_itself():
    rng = np.random.default_rng(0)
    t = np.arange(120.0)
    y = np.sin(0.2 * t) + 0.1 * rng.standard_normal(120) + np.where((t > 30) & (t < 55), 3.0, 0.0)
    problem = Problem(t[:, None], y, Matern32().bind(t[:, None]), np.zeros(120))
    for ordering in (None, Ordering(t)):
        known = fit(problem, 50, np.random.default_rng(0), ordering=ordering).known
        states = [state for _, state in known.explanations] + list(known.rivals) + [known.without_episodes]
        assert all(state.support is None for state in states)
