"""Starts of the search for labels, each on data that it is there for; the prior, and the average over parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from biasgp import GaussianGP, SparseBiasGP
from biasgp.data import two_sided
from biasgp.data.regimes import exactly
from biasgp.data.simulate import one_dimensional
from biasgp.kernels import Constant, Linear, Matern32, Periodic, Same, SquaredExponential
from biasgp.models.problem import LengthScalePrior, Problem
from biasgp.models.sparse import fit, kinds
from biasgp.models.sparse import labels as labels_module
from biasgp.models.sparse.average import ParameterAverage
from biasgp.models.sparse.kinds import Slab
from biasgp.models.sparse.recipe import RECIPE
from biasgp.models.sparse.residual_levels import best_cut
from biasgp.models.sparse.search import Candidate, LabelledLikelihood, Search, State
from biasgp.models.sparse.starts import ForgottenInputs, PlainResiduals
from biasgp.models.sparse.ways_out import Annealed, LeastLikely, OtherLevel
from biasgp.response import Identity, Scaling


def wave(seed, share=0.42):
    """120 readings of sin(8x) with a share of them one unit, or ten standard deviations of the noise, too high."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(120, 1))
    out = np.isin(np.arange(120), rng.choice(120, round(share * 120), replace=False))
    return X, np.sin(8.0 * X[:, 0]) + 0.1 * rng.standard_normal(120) + out, out


def searched(X, y, kernel):
    z = (y - np.median(y)) / y.std()
    return Search(Problem(X, z, kernel.bind(X), np.zeros(len(z))))


def settled(search, x, labels, variance=0.01):
    """The state that labels lead to when no label may move first."""
    slab = Slab((variance,), 9.0)
    fitted, report = search.refit(Candidate(x, slab, labels), 50)
    support = search.support(replace(fitted, labels=labels))
    evidence = search.record("test", support, fitted.x)
    return State(fitted.x, fitted.slab, labels, evidence=evidence, report=report)


@pytest.mark.parametrize("seed", range(3))
def test_many_outliers_on_one_side_are_found(seed):
    X, y, out = wave(seed)
    model = SparseBiasGP().fit(X, y)
    assert_array_equal(model.outlier_mask_, out)
    assert model.trustworthy_
    grid = np.linspace(0.0, 1.0, 200)[:, None]
    oracle = GaussianGP().fit(X[~out], y[~out])
    truth = np.sin(8.0 * grid[:, 0])
    error, of_oracle = (float(np.mean((each.predict(grid) - truth) ** 2)) for each in (model, oracle))
    assert error < 3.0 * of_oracle


def test_the_residuals_of_a_plain_gp_show_two_levels():
    X, y, out = wave(0)
    search = searched(X, y, SquaredExponential())
    none = np.zeros(len(y), dtype=np.intp)
    stuck = settled(search, np.append(search.kernel.theta, np.log(0.3)), none)
    found = PlainResiduals()(search, stuck)
    assert_array_equal(found.labels > 0, out)
    assert found.evidence > stuck.evidence + 30.0


def test_the_smaller_of_two_levels_is_that_of_the_outliers():
    X, y, out = wave(0)
    search = searched(X, y, SquaredExponential())
    x = np.append(search.kernel.stretched(0.7).theta, np.log(0.02))
    wrong = settled(search, x, (~out).astype(np.intp))
    found = OtherLevel()(search, wrong)
    assert found.evidence > wrong.evidence
    assert_array_equal(found.labels > 0, out)
    assert OtherLevel()(search, found) is found


@given(st.lists(st.floats(-5.0, 5.0), min_size=4, max_size=20), st.integers(1, 2))
def test_values_are_cut_where_the_least_is_left_within(values, least):
    values = np.sort(np.round(values, 3))

    def within(cut):
        return values[:cut].var() * cut + values[cut:].var() * (len(values) - cut)

    cut = best_cut(values, least)
    assert within(cut) == pytest.approx(min(map(within, range(least, len(values) - least + 1))), abs=1e-9)
    assert best_cut(values[: 2 * least - 1], least) is None


def test_an_input_that_was_given_up_comes_back():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (80, 3))
    y = X[:, 0] + 2.0 * X[:, 1] ** 2 + 0.05 * rng.standard_normal(80)
    search = searched(X, y, SquaredExponential(ard=True))
    x = np.append(search.kernel.theta, np.log(0.2))
    x[2] = search.bounds[2, 1]  # a length-scale far beyond the inputs: no gradient is left
    none = np.zeros(80, dtype=np.intp)
    trapped = settled(search, x, none)
    assert trapped.x[2] > search.kernel.theta[2] + 2.0
    found = ForgottenInputs()(search, trapped)
    assert found.evidence > trapped.evidence + 20.0
    assert found.x[2] < trapped.x[2] - 1.0
    assert ForgottenInputs()(search, found) is found


def test_labels_that_vouch_for_one_another_are_left():
    # Twelve labels are wrong, those of readings near one another, and no pair of moves raises the evidence.
    data = two_sided("friedman", 7, random_state=np.random.default_rng([1, 1, 7, 4]))
    scaled = Scaling.of(data.y, Identity()).forward(data.y)
    problem = Problem(data.X, scaled, SquaredExponential(ard=True).bind(data.X), np.zeros(len(scaled))).with_prior()
    alike = replace(RECIPE, noise_model="constant")  # noise that varies would be another way out
    others = tuple(start for start in RECIPE.with_all if not isinstance(start, Annealed))
    trapped, found = (
        fit(problem, 100, np.random.default_rng(0), recipe=recipe)
        for recipe in (replace(alike, with_all=others), alike)
    )
    wrong = [int(((each.labels > 0) != data.is_outlier).sum()) for each in (trapped, found)]
    assert found.log_evidence > trapped.log_evidence + 5.0
    assert wrong[0] > 8
    assert wrong[1] < 4


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (SquaredExponential(), [np.nan, "joint"]),
        (SquaredExponential(ard=True, length_scale=9.0), [np.nan, 0, 1]),
        (Constant() + Linear(), [np.nan, np.nan]),
        (Matern32().on(1) + Periodic(period=2.0).on(0), [np.nan, "own", np.nan, "circle", np.nan]),
        (Same(0) * Matern32().on(1), [np.nan, np.nan, "own"]),
    ],
    ids=["one for all", "one per input", "none", "sum", "product"],
)
def test_usual_length_scales_are_those_that_the_inputs_suggest(kernel, expected):
    X = np.random.default_rng(0).uniform(size=(50, 2)) * [1.0, 10.0]
    suggested = np.log(SquaredExponential(ard=True).bind(X).length_scale)
    values = {"joint": suggested.mean(), "own": suggested[1] - 0.5 * np.log(2.0), "circle": 0.0}
    values |= {0: suggested[0], 1: suggested[1]}
    found = kernel.bind(X).usual_length_scales(X)
    wanted = [value if isinstance(value, float) else values[value] for value in expected]
    assert len(found) == len(kernel.bind(X).theta) == len(wanted)
    assert_allclose(found, wanted)


def test_the_prior_grows_with_the_number_of_inputs():
    rng = np.random.default_rng(0)
    few, many = (rng.uniform(size=(40, d)) for d in (4, 16))
    usual = [SquaredExponential(ard=True).bind(X).usual_length_scales(X)[1:].mean() for X in (few, many)]
    assert usual[1] - usual[0] == pytest.approx(np.log(2.0), abs=0.1)


def problem_with_prior(seed=0, n=15):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 4.0, (n, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n)
    y[::4] += 3.0
    kernel = Matern32(ard=True).bind(X)
    return Problem(X, y, kernel, np.full(n, 0.01)).with_prior(), (np.arange(n) % 4 == 0).astype(np.intp)


def differences(value, x, h=1e-5):
    return [(value(x + e) - value(x - e)) / (2 * h) for e in h * np.eye(len(x))]


@settings(max_examples=10)
@given(st.integers(0, 30))
def test_gradients_with_a_prior_are_those_of_central_differences(seed):
    problem, labels = problem_with_prior(seed)
    slab, rng = Slab((0.4,), 9.0), np.random.default_rng(seed)
    x = np.concatenate([problem.kernel.theta, [-1.0, -0.5]]) + 0.3 * rng.standard_normal(5)
    objective = LabelledLikelihood(problem, slab, labels)
    assert_allclose(objective(x)[1], differences(lambda x: objective(x)[0], x), rtol=1e-5, atol=1e-6)
    search, average = Search(problem), ParameterAverage()

    def log_density(x):
        return average._evaluate(search, slab, labels, x).log_density

    assert_allclose(
        average._evaluate(search, slab, labels, x).gradient, differences(log_density, x), rtol=1e-5, atol=1e-6
    )


def test_the_prior_is_part_of_the_evidence():
    problem, labels = problem_with_prior()
    at = Candidate(np.append(problem.kernel.theta, -1.0), Slab((0.4,), 9.0), labels)
    cost = problem.cost_of(problem.kernel.theta)[0]
    assert cost == pytest.approx(2 * 0.5 * (2.0 / 2.5) ** 2)  # two length-scales at the usual one, two below the mode
    without = Search(replace(problem, prior=None)).evidence_at(at)
    assert Search(problem).evidence_at(at) == pytest.approx(without - cost)


def test_the_prior_can_be_switched_off_and_is_harmless_with_many_readings():
    rng = np.random.default_rng(3)
    X = rng.uniform(0.0, 10.0, (300, 1))
    y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(300)
    y[::10] += 3.0
    weak, none = (SparseBiasGP(length_scale_prior=prior, order=None).fit(X, y) for prior in ("weak", None))
    assert weak.kernel_.theta != pytest.approx(none.kernel_.theta, abs=1e-6)
    assert_array_equal(weak.outlier_mask_, none.outlier_mask_)
    assert_allclose(weak.predict(X), none.predict(X), atol=0.01)
    with pytest.raises(ValueError, match="length_scale_prior must be one of 'weak', None, got 'strong'"):
        SparseBiasGP(length_scale_prior="strong").fit(X, y)


def test_short_length_scales_cost_and_long_ones_do_not():
    prior = LengthScalePrior(np.array([np.nan, 0.0]))
    for free in (2.0, 9.0):
        assert prior(np.array([5.0, free])) == (0.0, pytest.approx(np.zeros(2)))
    value, gradient = prior(np.array([5.0, -0.5]))
    assert value == pytest.approx(0.5)
    assert_allclose(gradient, [0.0, -1.0 / 2.5])


@pytest.mark.filterwarnings("ignore::biasgp.UntrustworthyFitWarning")
def test_few_readings_are_averaged_over_their_parameters():
    rng = np.random.default_rng(0)
    X = np.sort(rng.standard_normal((60, 1)), axis=0)
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(60)
    y[::5] += rng.standard_normal(12)
    model = SparseBiasGP(order=None).fit(X, y)
    parts = model._posterior.parts
    assert len(parts) == ParameterAverage().draws
    lengths = [part.kernel.length_scale for part in parts]
    assert np.std(np.log(lengths)) > 0.01
    again = SparseBiasGP(order=None).fit(X, y)
    assert_array_equal(again.predict(X), model.predict(X))


def test_the_average_is_for_few_readings_of_few_inputs():
    average = ParameterAverage()

    def problem(n, d):
        X = np.random.default_rng(0).uniform(size=(n, d))
        return Problem(X, X[:, 0], SquaredExponential(ard=True).bind(X), np.zeros(n))

    assert average.is_for(problem(100, 1))
    assert not average.is_for(problem(300, 1))
    assert not average.is_for(problem(40, 5))


def of_all_sizes(seed, share):
    """100 readings of the paper's function at normal inputs, σ = .1, a share of them with a bias N(0, 1)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((100, 1))
    y = one_dimensional(X) + 0.1 * rng.standard_normal(100)
    bias, out = rng.standard_normal(100), exactly(share, 100, rng)
    return X, y + np.where(out, bias, 0.0), out


def error_over_that_of_the_clean_readings(model, X, y, out):
    grid = np.linspace(-2.2, 2.2, 200)[:, None]
    oracle = GaussianGP().fit(X[~out], y[~out])
    error, of_oracle = (np.sqrt(np.mean((each.predict(grid) - one_dimensional(grid)) ** 2)) for each in (model, oracle))
    return error / of_oracle


@pytest.mark.parametrize("draw", [37, 46])
def test_many_small_outliers_are_not_taken_for_noise(draw):
    # One noise for all readings has the better single labelling; the others have many that are as good.
    X, y, out = of_all_sizes([5, 9, draw], 0.45)
    search = searched(X, y, SquaredExponential())
    (alone,) = replace(RECIPE.begin, narrower=0.0)(search)
    found, without = RECIPE.begin(searched(X, y, SquaredExponential()))
    assert without.evidence == alone.evidence < found.evidence - 2.0
    assert np.mean(found.labels[out] > 0) > 0.5 > np.mean(alone.labels[out] > 0)


def test_an_average_begins_where_labels_have_most_evidence_together():
    X, y, _ = of_all_sizes([5, 9, 61], 0.45)
    search = searched(X, y, SquaredExponential())
    best = RECIPE.complete(search, RECIPE.first(search, RECIPE.beam))
    found = ParameterAverage.beginning(search, best)

    def together(state):
        return state.evidence + search.support(state).log_volume()

    assert found.evidence < best.evidence and together(found) > together(best) + 1.0
    assert (found.labels > 0).sum() > 2 * (best.labels > 0).sum()


def test_the_volume_is_what_other_labels_of_readings_in_doubt_add(monkeypatch):
    # Far apart, with given parameters, no common mean and a given share, labels are independent of one another.
    X = 100.0 * np.arange(6.0)[:, None]
    search, slab = searched(X, np.array([0.1, 2.0, -1.0, 0.4, 1.4, -0.2]), SquaredExponential()), Slab((4.0,), 1e-9)
    monkeypatch.setattr(kinds, "PRIOR", replace(kinds.PRIOR, outliers=2e6, clean=8e6, spotless=0.0))
    monkeypatch.setattr(labels_module, "PRIOR", kinds.PRIOR)
    x = np.append(SquaredExponential(length_scale=1.0).bind(X).theta, np.log(0.5))

    def support(labels):
        return search.support(Candidate(x, slab, np.array(labels)))

    every = np.logaddexp.reduce([support(labels).log_evidence() for labels in np.ndindex(*(2,) * 6)])
    for labels in ([0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 1, 0], [1, 1, 1, 0, 1, 1]):
        found = support(labels)
        assert found.log_evidence() + found.log_volume() == pytest.approx(every, abs=1e-4)


def test_an_outlier_at_the_end_is_found_by_all_readings():
    X, y, out = of_all_sizes([5, 6, 92], 0.05)
    model = SparseBiasGP().fit(X, y)
    assert error_over_that_of_the_clean_readings(model, X, y, out) < 1.5
    assert not model.episodes_


def test_episodes_are_compared_with_a_fit_without_that_is_worked_out():
    X, y, out = of_all_sizes([5, 7, 27], 0.15)
    model = SparseBiasGP().fit(X, y)
    assert not model.episodes_
    assert error_over_that_of_the_clean_readings(model, X, y, out) < 2.0


def test_the_least_likely_readings_are_let_go():
    # Labels of two readings are wrong, and with them f is so far off that no single move is uphill.
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (60, 4))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.05 * rng.standard_normal(60)
    y[:9] += rng.choice([-1.0, 1.0], 9) * rng.uniform(1.0, 3.0, 9)
    search = searched(X, y, SquaredExponential(ard=True))
    best = settled(search, np.append(search.kernel.stretched(0.35).theta, np.log(0.2)), np.zeros(60, dtype=np.intp))
    found = LeastLikely()(search, best)
    assert found.evidence > best.evidence + 5.0 and (found.labels[:9] > 0).sum() > (best.labels[:9] > 0).sum()
    assert LeastLikely(up_to=59)(search, best) is best
