"""Verdicts: readings that somebody knows to be good or bad are held so, count, and teach."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from biasgp import SparseBiasGP
from biasgp.data import simulate
from biasgp.kernels import SquaredExponential
from biasgp.models.episodes import SHIFT, Ordering, Run
from biasgp.models.problem import Problem
from biasgp.models.sparse.kinds import Slab
from biasgp.models.sparse.labels import Support
from biasgp.models.sparse.search import Candidate, LabelledLikelihood, Search
from biasgp.models.sparse.ways_out import Pairs
from biasgp.persistence import load_model, save_model

pytestmark = pytest.mark.filterwarnings("ignore::biasgp.AmbiguousOutliersWarning")
RESULTS = ("outlier_probability_", "bias_", "bias_std_", "log_evidence_", "doubt_", "noise_variance_")


def record(n, seed=0, noise=0.1):
    """A smooth signal with outliers of both signs, among them doubtful ones."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0.0, 10.0, n))
    y = np.sin(x) + noise * rng.standard_normal(n)
    bad = rng.uniform(size=n) < 0.15
    y[bad] += rng.normal(0.5, 0.6, bad.sum())
    return x[:, None], y, bad


def some_verdicts(bad, seed=0):
    """Of a third of the readings, every fifth of them against the truth."""
    rng = np.random.default_rng(seed)
    verdict = np.where(rng.uniform(size=len(bad)) < 0.33, bad.astype(float), np.nan)
    wrong = rng.uniform(size=len(bad)) < 0.2
    return np.where(wrong, 1.0 - verdict, verdict)


def assert_held(model, verdict):
    known = np.isfinite(verdict)
    np.testing.assert_array_equal(model.outlier_probability_[known], verdict[known])
    np.testing.assert_array_equal(model.outlier_mask_[known], verdict[known] == 1.0)
    np.testing.assert_array_equal(model.bias_[verdict == 0.0], 0.0)
    np.testing.assert_array_equal(model.bias_std_[verdict == 0.0], 0.0)
    np.testing.assert_array_equal(model.verdict_, verdict)


@pytest.mark.parametrize("n", [30, 60, 220])
@pytest.mark.parametrize("order", [None, "auto"])
def test_verdicts_are_held_exactly_by_a_fit_and_by_a_refit(n, order):
    X, y, bad = record(n)
    verdict = some_verdicts(bad)
    model = SparseBiasGP(order=order).fit(X, y, verdict=verdict)
    assert_held(model, verdict)
    other = some_verdicts(bad, seed=1)
    assert_held(model.refit(other), other)


def test_verdicts_are_held_among_many_readings():
    X, y, bad = record(1600)
    verdict = some_verdicts(bad)
    model = SparseBiasGP(approximation="vecchia").fit(X, y, verdict=verdict)
    assert_held(model, verdict)
    other = some_verdicts(bad, seed=1)
    assert_held(model.refit(other), other)


def test_with_all_labels_given_the_objective_is_the_plain_density():
    X, y, bad = record(40)
    verdict = bad.astype(float)
    problem = Problem(
        X, y, SquaredExponential(length_scale=1.5, variance=0.8).bind(X), np.linspace(0.0, 0.02, 40), verdict=verdict
    )
    slab, V = Slab((0.3,), 9.0), 9.0
    labels = problem.held(np.random.default_rng(1).integers(0, 2, 40))
    np.testing.assert_array_equal(labels, bad)
    objective = LabelledLikelihood(problem, slab, labels)
    x = np.append(problem.kernel.theta, np.log([0.04, 0.3]))
    value, gradient = objective(x)
    C, D2 = problem.kernel(X), (X - X.T) ** 2
    K = C + np.diag(0.04 + problem.known + 0.3 * verdict)
    Q = np.linalg.inv(K)
    m = verdict @ Q @ y / (verdict @ Q @ verdict + 1.0 / V)
    assert value == pytest.approx(-multivariate_normal(m * verdict, K).logpdf(y) + 0.5 * m**2 / V, abs=1e-8)
    names = problem.kernel.parameter_names
    by = {name: C * D2 / 1.5**2 if "length" in name else C for name in names}
    changes = [*(by[name] for name in names), 0.04 * np.eye(40), 0.3 * np.diag(verdict)]
    alpha = Q @ (y - m * verdict)
    expected = [0.5 * np.sum((Q - np.outer(alpha, alpha)) * change) for change in changes]
    np.testing.assert_allclose(gradient, expected, atol=1e-8)
    fitted = SparseBiasGP().fit(X, y, verdict=verdict)
    np.testing.assert_array_equal(fitted.outlier_probability_, verdict)


@pytest.mark.parametrize("n", [60, 300])
@pytest.mark.parametrize("episode", [False, True])
def test_verdicts_that_say_what_the_fit_is_sure_of_change_nothing(n, episode):
    X, y, _ = record(n)
    y[n // 5] += 8.0
    if episode:
        y[n // 3 : n // 2] += 3.0
    model = SparseBiasGP().fit(X, y)
    assert bool(model.episodes_) == episode
    before = {name: np.array(getattr(model, name)) for name in RESULTS}
    prediction, episodes, sure = model.predict(X, return_cov=True), model.episodes_, model.outlier_probability_.copy()
    verdict = np.where(sure < 1e-12, 0.0, np.where(sure > 1.0 - 1e-12, 1.0, np.nan))
    assert np.isfinite(verdict).any()
    model.refit(verdict)
    for name, value in before.items():
        np.testing.assert_allclose(getattr(model, name), value, rtol=0.0, atol=1e-10, err_msg=name)
    for now, then in zip(model.predict(X, return_cov=True), prediction, strict=True):
        np.testing.assert_allclose(now, then, rtol=0.0, atol=1e-10)
    assert [(each.kind, each.rows) for each in model.episodes_] == [(each.kind, each.rows) for each in episodes]


def test_a_refit_ends_where_a_fit_with_the_same_verdicts_does():
    X, y, bad = record(220)
    model = SparseBiasGP(order=None).fit(X, y)
    doubtful = np.argsort(np.abs(model.outlier_probability_ - 0.5))[:5]
    verdict = np.full(220, np.nan)
    verdict[doubtful] = bad[doubtful]
    model.refit(verdict)
    fresh = SparseBiasGP(order=None).fit(X, y, verdict=verdict)
    assert model.log_evidence_ > fresh.log_evidence_ - 0.05
    np.testing.assert_allclose(model.predict(X), fresh.predict(X), atol=0.02)


def test_a_refit_without_verdicts_forgets_them():
    X, y, bad = record(60)
    plain = SparseBiasGP().fit(X, y)
    model = SparseBiasGP().fit(X, y, verdict=bad.astype(float)).refit()
    assert np.isnan(model.verdict_).all()
    np.testing.assert_array_equal(model.outlier_mask_, plain.outlier_mask_)


def test_bad_readings_teach_the_slab_and_the_share():
    rng = np.random.default_rng(3)
    X, y = np.linspace(0.0, 10.0, 120)[:, None], 0.05 * rng.standard_normal(120)
    y[::10] += 0.13  # hardly more than noise by itself
    verdict = np.full(120, np.nan)
    verdict[::10] = 1.0
    plain, taught = SparseBiasGP(order=None).fit(X, y), SparseBiasGP(order=None).fit(X, y, verdict=verdict)
    assert taught.groups_[0].share > plain.groups_[0].share
    scale = taught._scaling.scale
    assert taught.groups_[0].mean * scale == pytest.approx(0.13, abs=0.04)
    # A new reading of that size is now more likely one of them.
    assert taught.outlier_probability([[5.04]], [0.16]) > plain.outlier_probability([[5.04]], [0.16])


def test_moves_of_pairs_do_not_move_what_is_held():
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 5.0, 40)[:, None]
    y = np.sin(x[:, 0])
    y[[10, 11]] += 2.0
    labels = np.zeros(40, dtype=np.intp)
    C = SquaredExponential(length_scale=0.4, variance=1.0)(x)
    free = Support(C, y, np.full(40, 0.01), Slab((1.0,), 9.0), labels)
    held = free.copy().holding(np.where(np.isin(np.arange(40), [10, 11]), 0.0, np.nan))
    pairs = Pairs()
    assert any(set(rows) == {10, 11} for rows, _ in pairs.promising(free))
    assert not any(new[rows.index(i)] for rows, new in pairs.promising(held) for i in {10, 11} & set(rows))
    held.sweep(rng.permutation(40), rng, temperature=50.0)
    assert not held.labels[[10, 11]].any()


def test_a_search_starts_from_labels_that_verdicts_want():
    X, y, _ = record(40)
    verdict = np.full(40, np.nan)
    verdict[:3], verdict[3:6] = 1.0, 0.0
    search = Search(
        Problem(X, y, SquaredExponential(length_scale=1.0, variance=1.0).bind(X), np.zeros(40), verdict=verdict)
    )
    x = np.append(search.kernel.theta, np.log(0.01))
    support = search.support(Candidate(x, Slab((1.0,), 9.0), np.ones(40, dtype=np.intp)))
    assert support.labels[:3].all() and not support.labels[3:6].any()
    state = search.improve("test", Candidate(x, Slab((1.0,), 9.0), np.zeros(40, dtype=np.intp)))
    assert state.labels[:3].all() and not state.labels[3:6].any()


def shifted(n=150, noise=0.1):
    X, y, _ = record(n, noise=noise)
    y[60:80] += 2.0
    return X, y


def test_a_good_reading_is_in_no_episode():
    X, y = shifted()
    model = SparseBiasGP().fit(X, y)
    (episode,) = model.episodes_
    assert len(episode.rows) >= 19
    verdict = np.full(150, np.nan)
    verdict[episode.rows[8]] = 0.0
    for judged in (SparseBiasGP().fit(X, y, verdict=verdict), model.refit(verdict)):
        assert all(episode.rows[8] not in each.rows for each in judged.episodes_)
        assert_held(judged, verdict)


def test_an_interval_judged_bad_is_an_episode():
    X, y, _ = record(150)
    y[60:66] += 0.35  # too little to be one by itself
    verdict = np.full(150, np.nan)
    verdict[60:66] = 1.0
    plain = SparseBiasGP().fit(X, y)
    assert not plain.episodes_
    for judged in (SparseBiasGP().fit(X, y, verdict=verdict), plain.refit(verdict)):
        assert_held(judged, verdict)
        for each in judged.episodes_:
            assert set(range(60, 66)) <= set(each.rows) or not set(range(60, 66)) & set(each.rows)


def test_runs_that_verdicts_allow():
    verdict = np.full(20, np.nan)
    verdict[4], verdict[9:13] = 0.0, 1.0
    ordering = Ordering(np.arange(20.0), verdict=verdict)

    def possible(first, stop):
        return ordering.log_prior_of([Run(SHIFT, first, stop)]) > -np.inf

    assert possible(0, 4) and possible(5, 9) and possible(9, 13) and possible(8, 14) and possible(13, 17)
    assert not possible(2, 5) and not possible(4, 8) and not possible(7, 10) and not possible(10, 14)
    np.testing.assert_array_equal(np.flatnonzero(ordering.bad_stretches()), [9, 10, 11, 12])
    covering = ordering.covering(Run(SHIFT, 8, 13))
    assert covering[8, 13 - 8 - 3] and covering[9, 13 - 9 - 3] and not covering[4, 0]
    two = Ordering(np.tile(np.arange(10.0), 2), series=np.repeat([0, 1], 10), verdict=np.repeat([np.nan, 1.0], 10))
    assert not two.bad_stretches()[:10].any() and two.bad_stretches()[10:].all()


def test_a_good_reading_breaks_a_run_of_equal_ones():
    rng = np.random.default_rng(0)
    y = rng.standard_normal(100)
    y[40:60] = 0.5
    verdict = np.full(100, np.nan)
    assert [each.rows for each in Ordering(np.arange(100.0)).stuck_runs(y)] == [tuple(range(40, 60))]
    verdict[40] = 0.0
    found = Ordering(np.arange(100.0), verdict=verdict).stuck_runs(y)
    assert [each.rows for each in found] == [tuple(range(41, 60))]
    X = np.arange(100.0)[:, None]
    model = SparseBiasGP().fit(X, y)
    assert_held(model.refit(verdict), verdict)
    assert [each.rows for each in model.episodes_ if each.kind == "stuck"] == [tuple(range(41, 60))]


def test_a_verdict_that_the_readings_contradict_is_kept_and_said():
    X, y, _ = record(150)
    y[75] += 5.0
    verdict = np.full(150, np.nan)
    verdict[75] = 0.0
    for model in (SparseBiasGP().fit(X, y, verdict=verdict), SparseBiasGP().fit(X, y).refit(verdict)):
        assert_held(model, verdict)
        (note,) = (each for each in model.notes_ if each.code == "contradicted-verdict")
        assert note.rows == (75,)
        assert "contradict" in str(note) and "verdicts again" in str(note)
    verdict[75] = 1.0
    assert all(each.code != "contradicted-verdict" for each in SparseBiasGP().fit(X, y, verdict=verdict).notes_)


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (np.zeros(29), "one value per reading"),
        (np.zeros((30, 1)), "one value per reading"),
        (np.append(np.full(29, np.nan), 2.0), "verdict, row 29: 2"),
        (np.append(np.full(29, np.nan), -1.0), "0 \\(good\\), 1 \\(bad\\) or NaN"),
        (["good"] * 30, "verdict, row 0: 'good' is not a number"),
        (np.ones(30), "30 of 30 readings are bad"),
        (np.append(np.ones(28), [0.0, np.nan]), "28 of 30 readings are bad"),
    ],
)
def test_what_is_no_verdict_is_refused(verdict, words):
    X, y, _ = record(30)
    with pytest.raises(ValueError, match=words):
        SparseBiasGP().fit(X, y, verdict=verdict)
    model = SparseBiasGP().fit(X, y)
    with pytest.raises(ValueError, match=words):
        model.refit(verdict)


def test_open_verdicts_may_be_none_or_masked_and_bad_ones_true():
    X, y, _ = record(30)
    said = [None] * 30
    said[3], said[4] = True, False
    model = SparseBiasGP().fit(X, y, verdict=said)
    assert model.verdict_[3] == 1.0 and model.verdict_[4] == 0.0 and np.isnan(np.delete(model.verdict_, [3, 4])).all()
    masked = np.ma.masked_array(np.ones(30), mask=np.arange(30) != 7)
    np.testing.assert_array_equal(np.flatnonzero(SparseBiasGP().fit(X, y, verdict=masked).verdict_ == 1.0), [7])


def test_verdicts_go_through_pipelines_by_metadata_routing():
    X, y, bad = record(60)
    verdict = np.where(bad, 1.0, np.nan)
    with config_context(enable_metadata_routing=True):
        model = make_pipeline(StandardScaler(), SparseBiasGP().set_fit_request(verdict=True))
        model.fit(X, y, verdict=verdict)
    np.testing.assert_array_equal(model[-1].verdict_, verdict)
    assert model[-1].outlier_mask_[bad].all()


def test_a_model_from_a_file_is_refitted_as_the_one_that_was_saved(tmp_path):
    X, y, bad = record(150)
    y[60:80] += 2.0
    model = SparseBiasGP().fit(X, y)
    save_model(tmp_path / "model.skops", model)
    back = load_model(tmp_path / "model.skops")
    verdict = some_verdicts(bad)
    for name in RESULTS:
        np.testing.assert_array_equal(getattr(model.refit(verdict), name), getattr(back.refit(verdict), name))


def test_a_model_of_an_older_file_says_that_it_cannot_be_refitted():
    X, y, _ = record(30)
    model = SparseBiasGP().fit(X, y)
    del model._readings
    with pytest.raises(ValueError, match="did not keep its readings"):
        model.refit()


def test_simulated_data_with_all_labels_known_have_the_oracle_error():
    data = simulate("1d", 7)
    model = SparseBiasGP(order=None).fit(data.X, data.y, verdict=data.is_outlier.astype(float))
    np.testing.assert_array_equal(model.outlier_mask_, data.is_outlier)
