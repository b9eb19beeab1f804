"""Explanations of readings against fits without them, at the same parameters and labels of the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from biasgp import SparseBiasGP
from biasgp.models.episodes import Ordering
from biasgp.models.sparse.kinds import PRIOR
from biasgp.models.sparse.left_out import Exact
from biasgp.models.sparse.search import Search
from biasgp.persistence import load_model, save_model

pytestmark = pytest.mark.filterwarnings("ignore::biasgp.AmbiguousOutliersWarning")
WITHIN = 1e-6


def record(n, seed=0):
    """A smooth signal; every ninth reading is about one unit too high."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0.0, 10.0, n))
    y = np.sin(x) + 0.1 * rng.standard_normal(n)
    y[::9] += rng.normal(1.0, 0.2, len(y[::9]))
    return x[:, None], y


def fitted(n=50, case="plain", **options):
    """A model, and its readings."""
    X, y = record(n)
    if case == "episode":
        y[15:25] += 3.0
    if case == "stuck":
        y[15:25] = 0.4
    if case == "replaced":
        rng = np.random.default_rng(1)
        y[::7] = rng.uniform(-6.0, 6.0, len(y[::7]))
    if case == "log":
        y = np.exp(y)
    model = SparseBiasGP(**{"response": "log"} if case == "log" else {}, **options).fit(X, y)
    return model, X, y


class BruteForce:
    """The model of a fit, with its parameters, episodes and the labels of the others, made anew for each question."""

    def __init__(self, model):
        known = model._readings
        self.model, ended = model, known.model.known
        kept = np.ones(len(known.problem), dtype=bool) if ended.kept is None else ended.kept
        self.index, problem = np.flatnonzero(kept), known.problem.clipped(1e3)[kept]
        self.runs, self.state = ended.explanations[0]
        shared = np.zeros((len(problem), 0))
        if self.runs:
            shared = Ordering(problem.X[:, 0]).scaled_columns(self.runs)
        self.problem = replace(problem, shared=shared, verdict=None)

    def log_odds(self, i, without=None):
        """Of a reading, by the evidence with each of its labels and outside all episodes."""
        i = int(np.searchsorted(self.index, i))
        keep = np.ones(len(self.problem), dtype=bool)
        if without is not None:
            keep[np.searchsorted(self.index, without)] = False
        problem, labels = self.problem[keep], self.state.labels[keep]
        i -= int((~keep[:i]).sum())
        evidence = []
        for label in range(self.state.slab.n_groups + 1):
            labels = labels.copy()
            labels[i] = label
            at = replace(self.state, labels=labels, support=None)
            evidence.append(Search(problem).support(at).log_evidence())
        return logsumexp(evidence[1:]) - evidence[0]

    def f(self, i):
        """Mean and variance of f at a reading from all others, by the whole covariance."""
        at, labels, slab = int(np.searchsorted(self.index, i)), self.state.labels, self.state.slab
        rest = np.delete(np.arange(len(labels)), at)
        if slab.replaced:
            rest = rest[labels[rest] == 0]
        X, y, S = self.problem.X, self.problem.y, self.problem.shared
        kernel = self.problem.kernel.with_theta(self.state.x[:-1])
        Z = slab.loadings[labels][rest]
        noise = np.exp(self.state.x[-1]) + self.problem.known[rest] + slab.added[labels[rest]]
        K = kernel(X[rest]) + S[rest] @ S[rest].T + slab.mean_variance * Z @ Z.T + np.diag(noise)
        c = kernel(X[[at]], X[rest])[0]
        return c @ np.linalg.solve(K, y[rest]), kernel.diag(X[[at]])[0] - c @ np.linalg.solve(K, c)


CASES = ["plain", "episode", "stuck", "replaced", "log"]


@pytest.mark.parametrize("case", CASES)
def test_explanations_are_those_of_fits_without_the_reading(case):
    model, _, y = fitted(case=case)
    brute, columns = BruteForce(model), model.explain_all()
    assert model.replaced_ or case != "replaced"
    assert not model.replaced_ or case != "plain"
    assert bool(model.episodes_) == (case in ("episode", "stuck"))
    inside = {row for episode in model.episodes_ for row in episode.rows}
    scaling = model._scaling
    for i in range(len(y)):
        explanation = model.explain(i)
        stuck = i not in brute.index
        mean, variance = model._posterior.mean_and_variance(model._readings.problem.X[[i]]) if stuck else brute.f(i)
        expected, std = scaling.moments(np.atleast_1d(mean), np.atleast_1d(variance))
        assert explanation.read == y[i]
        assert explanation.expected == pytest.approx(expected[0], abs=WITHIN)
        assert explanation.expected_std == pytest.approx(std[0], abs=WITHIN)
        if i not in inside:
            assert explanation.log_odds == pytest.approx(brute.log_odds(i), abs=WITHIN)
        assert explanation.log_odds == pytest.approx(columns["log_odds"][i], abs=1e-9)
        assert explanation.kind == columns["kind"][i]


@pytest.mark.parametrize("case", ["plain", "episode", "replaced"])
def test_witnesses_are_those_without_which_the_odds_are_others(case):
    model, _, y = fitted(30 if case != "episode" else 50, case)
    brute = BruteForce(model)
    inside = {row for episode in model.episodes_ for row in episode.rows}
    columns = model.explain_all()
    near = np.argsort(np.abs(columns["log_odds"]))
    for i in [row for row in near.tolist() if row not in inside][:3]:
        explanation = model.explain(i)
        without = {j: brute.log_odds(i, j) for j in range(len(y)) if j != i and j in brute.index}
        for row, odds in explanation.witnesses:
            assert odds == pytest.approx(without[row], abs=WITHIN)
        decisive = {
            j
            for j, odds in without.items()
            if (odds > 0.0) != (explanation.log_odds > 0.0) and abs(odds - explanation.log_odds) > 0.1
        }
        assert set(explanation.vouch_for) | set(explanation.vouch_against) == decisive
        assert not (explanation.vouch_for if explanation.log_odds > 0.0 else explanation.vouch_against)


def test_two_readings_that_hold_each_other_up_say_so():
    x = np.linspace(0.0, 10.0, 40)
    y = np.sin(x) + 0.01 * np.random.default_rng(0).standard_normal(40)
    y[[20, 21]] += 0.9
    model = SparseBiasGP(order=None).fit(x[:, None], y)
    told = [model.explain(i) for i in range(40)]
    assert any(each.vouch_for or each.vouch_against for each in told) or model.outlier_mask_[[20, 21]].all()
    for each in told:
        if each.vouch_for:
            assert f"Without {'any one of ' if len(each.vouch_for) > 1 else ''}{each.vouch_for[0]}" in str(each)


def test_the_parts_of_the_odds_add_up_and_the_prior_is_the_share_of_the_others():
    model, _, y = fitted()
    labels = model._readings.model.known.explanations[0][1].labels
    for i in (0, int(model.outlier_mask_.argmax())):
        each = model.explain(i)
        assert each.log_odds == pytest.approx(each.prior + each.if_bad - each.if_good)
        others = np.array([float((np.delete(labels, i) > 0).sum())])
        shares = PRIOR.shares(others, len(y) - 1)
        assert each.prior == pytest.approx(np.log(shares[1] / shares[0]))


def test_what_would_have_to_be_true_for_it_to_be_good():
    model, _, y = fitted()
    i = int(np.abs(model.bias_).argmax())
    each, noise = model.explain(i), np.sqrt(model.noise_variance_)
    # f and noise together make up what was read.
    f = each.expected + each.f_distance * each.expected_std
    assert each.f_if_good == pytest.approx(f)
    noise = np.sqrt(each.reading_std**2 - each.expected_std**2)
    assert f + each.noise_distance * noise == pytest.approx(y[i])


def test_kinds():
    model, _, _ = fitted(case="episode")
    kinds = model.explain_all()["kind"]
    assert set(kinds[list(model.episodes_[0].rows)]) == {model.episodes_[0].kind}
    np.testing.assert_array_equal(kinds == "none", ~model.outlier_mask_)
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 10.0, 120)
    y = np.sin(x) + 0.05 * rng.standard_normal(120)
    y[::9] += 1.0
    alike = SparseBiasGP(order=None).fit(x[:, None], y)
    assert set(alike.explain_all()["kind"][::9]) == {"group"}
    assert alike.explain(9).group_mean == pytest.approx(1.0, abs=0.1)
    y[::9] -= 1.0
    y[40] += 2.0
    single = SparseBiasGP(order=None).fit(x[:, None], y).explain(40)
    assert single.kind == "spike" and np.isnan(single.group_mean)
    assert "a spike, 1.9" in str(single) and "too high" in str(single)
    assert "For it to be good, the truth would have to be" in str(single)
    assert "taken for good" in str(SparseBiasGP(order=None).fit(x[:, None], y).explain(3))


def test_explanations_with_a_verdict_say_what_the_readings_say():
    X, y = record(300)
    y[75] += 2.0
    verdict = np.full(300, np.nan)
    verdict[75] = 0.0
    each = SparseBiasGP().fit(X, y, verdict=verdict).explain(75)
    assert each.log_odds > 5.0 and each.probability == 0.0 and each.verdict == 0.0
    assert "It was judged good, and is held so." in str(each)


def test_explanations_among_many_readings():
    X, y = record(1700)
    y[1000] += 3.0
    model = SparseBiasGP().fit(X, y)
    columns = model.explain_all()
    assert all(len(values) == 1700 for values in columns.values())
    each = model.explain(1000)
    assert each.log_odds > 10.0 and each.kind in ("spike", "group")
    assert each.expected == pytest.approx(np.sin(X[1000, 0]), abs=0.15)
    free = np.isin(columns["kind"], ("none", "spike", "group"))
    # The slab has had one more step since the probabilities were computed.
    np.testing.assert_allclose(expit(columns["log_odds"][free]), columns["probability"][free], atol=2e-3)
    assert all(abs(row - 1000) < 100 for row, _ in each.witnesses)


def test_a_model_from_a_file_explains_as_the_one_that_was_saved(tmp_path):
    model, _, _ = fitted(case="episode")
    save_model(tmp_path / "model.skops", model)
    back = load_model(tmp_path / "model.skops")
    assert str(back.explain(3)) == str(model.explain(3))
    assert str(back.explain(17)) == str(model.explain(17))


@pytest.mark.parametrize("i", [50, -51, 1.0, "3", None, True])
def test_what_is_no_reading_is_refused(i):
    model, _, _ = fitted()
    with pytest.raises(ValueError, match="from 0 to 49"):
        model.explain(i)


def test_indices_may_count_from_the_end():
    model, _, _ = fitted()
    assert model.explain(-1).row == 49


def test_a_look_is_worth_most_where_doubt_about_a_label_moves_the_curve():
    X, y = record(60)
    y[30] += 0.45
    model = SparseBiasGP(order=None).fit(X, y)
    columns = model.explain_all()
    p = columns["probability"]
    best = int(np.argmax(columns["worth"]))
    assert 0.02 < p[best] < 0.98
    assert (columns["worth"] >= 0.0).all()
    verdict = np.full(60, np.nan)
    verdict[best] = 1.0
    assert model.refit(verdict).explain_all()["worth"][best] == 0.0


@pytest.mark.parametrize(("case", "n"), [("plain", 50), ("replaced", 60)])
def test_a_look_is_worth_the_labels_that_would_change(case, n):
    model, _, _ = fitted(n, case, order=None)
    columns, force = model.explain_all(), BruteForce(model)
    p = model.outlier_probability_
    now = expit(columns["log_odds"])
    for i in np.argsort(-columns["worth"])[:3]:
        labels = force.state.labels.copy()
        labels[i] = 0 if labels[i] else 1
        flipped = Exact(force.problem, replace(force.state, labels=labels, support=None))
        moved = np.abs(expit(flipped.all_odds().log_odds) - now)
        moved[i] = 0.0
        # The mean and the share of the group move with the label too, which the column leaves out.
        assert columns["worth"][i] == pytest.approx(min(p[i], 1.0 - p[i]) * (1.0 + moved.sum()), rel=0.35)
