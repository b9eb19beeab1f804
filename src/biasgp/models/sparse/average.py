"""What is known of f and of the biases when some labels stay in doubt: a Gibbs run over those labels alone.

Given the labels of all others, the readings in doubt are the same model in fewer readings, so a move costs what a
small matrix costs. With K their covariance given the others and E = Q_{·D}·K, the inverse for any labels of theirs is
Q = Q_rest + E q Eᵀ, where q is the small one: averages over labels are averages of small matrices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from biasgp._typing import Array
from biasgp.messages import CovarianceError
from biasgp.models.problem import Problem
from biasgp.models.sparse.kinds import PRIOR, Labels, Slab
from biasgp.models.sparse.labels import Support
from biasgp.models.sparse.search import Candidate, Search, State
from biasgp.samplers import Metric, StepSize, transition


@dataclass(frozen=True)
class Moments:
    """f and δ given the readings, averaged over labels.

    With α = K⁻¹(y − δ̂) and Q of each sample of labels, E f* = c*ᵀᾱ and Var f* = c** − c*ᵀ(Q̄ − Cov α)c*: both moments
    of the mixture are exact, and one N×N matrix holds them. `labels` are those of the last sample.
    """

    alpha: Array
    precision: Array
    probability: Array
    bias: Array
    bias_variance: Array
    labels: Labels


@dataclass(frozen=True)
class LabelAverage:
    """Gibbs sampling of the labels that are in doubt; probabilities are averages of exact conditional odds."""

    sweeps: int = 30
    burn_in: int = 5
    sampled_up_to: float = 7.0
    """Log odds. A more certain label is not drawn in a sweep: it would change once in a thousand."""
    settled_from: float = 9.0
    """Log odds. A label more certain at the start is left out of the run: the others cannot bring it into doubt."""
    up_to: int = 500
    fewest: int = 10
    """Readings up to which there are all sweeps, and how many there are at least: of more readings, a sweep of which
    costs N³, each matters less to f."""
    many: float = 0.5
    """Share of the readings from which all of them are in the run: what it takes to leave the others out, some products
    of matrices, then costs more than it saves."""

    def __call__(self, support: Support, rng: np.random.Generator) -> Moments:
        weights = support.log_weights()
        probability, doubt = _probability_of_bias(weights), _log_odds(weights)
        rows = np.flatnonzero(doubt <= self.settled_from)
        if not len(rows):  # at least one: the least certain
            rows = np.array([int(doubt.argmin())])
        average: _Average
        sweeps = min(self.sweeps, max(self.fewest, self.sweeps * self.up_to // len(doubt)))
        average = _OfMany(support, sweeps) if len(rows) > self.many * len(doubt) else _OfFew(support, rows, sweeps)
        rows, part = average.rows, average.part
        probability[rows] = 0.0
        weights = part.log_weights()
        doubtful, of_bias, counted = self._in_doubt(weights), _probability_of_bias(weights), False
        for sweep in range(self.burn_in + sweeps):
            if part.sweep(rng.permutation(doubtful), rng, weights=weights):
                weights, counted = part.log_weights(), False
                doubtful, of_bias = self._in_doubt(weights), _probability_of_bias(weights)
            if sweep >= self.burn_in:
                average.again() if counted else average.add()
                probability[rows] += of_bias / sweeps
                counted = True
        return average.moments(probability)

    def _in_doubt(self, weights: Array) -> NDArray[np.intp]:
        """Readings that are drawn, by their odds, so that neither the order of the rows nor the sign of y matters."""
        doubt = _log_odds(weights)
        rows = np.flatnonzero(doubt < self.sampled_up_to)
        return rows[np.argsort(doubt[rows])]


class _Average(ABC):
    """Sums of what follows from the labels that `part`, a model of some readings given the others, has had."""

    part: Support
    U: Array
    alpha: Array
    """Of all readings at present: Q times the group means' columns, and Q(y − δ̂)."""

    def __init__(self, whole: Support, rows: NDArray[np.intp], size: int) -> None:
        self.rows, self.n, self.labels = rows, 0, whole.labels.copy()
        self.alphas, self.biases, self.variances = (np.zeros((size, len(whole.y))) for _ in range(3))

    def add(self) -> None:
        """Count the labels as they are now."""
        part, n = self.part, self.n
        means, covariance = part.posterior_of_means()
        self._work_out(means, covariance)
        self._count()
        self.alphas[n] = self.alpha
        self.labels[self.rows] = part.labels
        out = np.flatnonzero(self.labels)
        biases = self._replaced(out) if part.slab.replaced else self._shifted(out, means, covariance)
        self.biases[n, out], self.variances[n, out] = biases
        self.n += 1

    def again(self) -> None:
        """Count the same labels as the last time."""
        self._count()
        for each in (self.alphas, self.biases, self.variances):
            each[self.n] = each[self.n - 1]
        self.n += 1

    def moments(self, probability: Array) -> Moments:
        """The average."""
        alpha = self.alphas.mean(axis=0)
        spread = self.alphas - alpha
        precision = self._precision()
        precision -= spread.T @ spread / self.n
        bias_variance = self.variances.mean(axis=0) + self.biases.var(axis=0)
        return Moments(alpha, precision, probability, self.biases.mean(axis=0), bias_variance, self.labels.copy())

    @abstractmethod
    def _work_out(self, means: Array, covariance: Array) -> None:
        """What U, α, and all that is to be counted are at present."""

    @abstractmethod
    def _count(self) -> None:
        """Count Q."""

    @abstractmethod
    def _precision(self) -> Array:
        """Mean of Q less what is known of the group means."""

    @abstractmethod
    def _diagonal(self, out: NDArray[np.intp]) -> Array:
        """Of Q at present."""

    @abstractmethod
    def _replaced(self, out: NDArray[np.intp]) -> tuple[Array, Array]:
        """The bias of a replaced reading is its distance from f given the readings in the GP, and noise."""

    def _shifted(self, out: NDArray[np.intp], means: Array, covariance: Array) -> tuple[Array, Array]:
        """δᵢ = m_g + its own part of variance τ²; its covariance with y is V·Z_g + τ²·eᵢ."""
        part, labels, U = self.part, self.labels, self.U
        own, V, extra = labels[out] - 1, part.slab.mean_variance, part.added[labels[out]]
        A = part.loadings[labels].T @ U
        PZ = (U - U @ covariance @ A)[out, own]
        ZPZ = (A - A @ covariance @ A).diagonal()[own]
        precision = self._diagonal(out) - np.einsum("ij,ij->i", U[out] @ covariance, U[out])
        variance = V + extra - V**2 * ZPZ - 2.0 * V * extra * PZ - extra**2 * precision
        return means[own] + extra * self.alpha[out], np.maximum(variance, 0.0)


class _OfFew(_Average):
    """All readings given the labels of a part of them."""

    def __init__(self, whole: Support, rows: NDArray[np.intp], size: int) -> None:
        super().__init__(whole, rows, size)
        labels = whole.labels[rows]
        if not whole.inside[rows].all():
            clean = whole.labels.copy()
            clean[rows] = 0
            whole = Support(whole.C, whole.y, whole.clean_noise, whole.slab, clean).holding(whole.verdict)
        self.whole = whole
        self.block = whole.Q[np.ix_(rows, rows)]
        self.part, K = whole.part(rows, labels)
        self.E = whole.Q[:, rows] @ K
        self.rest_Qy = whole.Qy - self.E @ whole.Qy[rows]
        self.rest_U = whole.U - self.E @ whole.U[rows]
        self.rest_diagonal = whole.Q.diagonal() - np.einsum("ij,ij->i", self.E @ self.block, self.E)
        n_means = self.rest_U.shape[1]
        self.cores, self.crosses = np.zeros_like(K), np.zeros((n_means, len(rows)))
        self.covariances = np.zeros((n_means, n_means))

    def _work_out(self, means: Array, covariance: Array) -> None:
        part, cross = self.part, covariance @ self.part.U.T
        self.present = part.Q - part.U @ cross, cross, covariance
        self.U = self.rest_U + self.E @ part.U
        self.alpha = self.rest_Qy - self.rest_U @ means + self.E @ (part.Qy - part.U @ means)

    def _count(self) -> None:
        for total, present in zip((self.cores, self.crosses, self.covariances), self.present, strict=True):
            total += present

    def _precision(self) -> Array:
        n, E, U = self.n, self.E, self.rest_U
        mixed = U @ (self.crosses / n) @ E.T
        precision = self.whole.Q + E @ (self.cores / n - self.block) @ E.T - U @ (self.covariances / n) @ U.T
        return np.asarray(precision - mixed - mixed.T)

    def _diagonal(self, out: NDArray[np.intp]) -> Array:
        E = self.E[out]
        return np.asarray(self.rest_diagonal[out] + np.einsum("ij,ij->i", E @ self.part.Q, E))

    def _replaced(self, out: NDArray[np.intp]) -> tuple[Array, Array]:
        whole, cross = self.whole, self.whole.C[out]
        seen = cross @ self.E
        explained = np.einsum("ij,ij->i", cross @ whole.Q, cross)
        explained += np.einsum("ij,ij->i", seen @ (self.part.Q - self.block), seen)
        variance = np.maximum(whole.C.diagonal()[out] - explained, 0.0) + whole.clean_noise[out]
        return whole.y[out] - cross @ self.alpha, variance


class _OfMany(_Average):
    """All readings as they are: where most are in doubt, to condition on the others costs more than it saves."""

    def __init__(self, whole: Support, size: int) -> None:
        super().__init__(whole, np.arange(len(whole.y)), size)
        self.part = whole.copy()
        self.sum = np.zeros_like(whole.C)
        self.by_means: list[Array] = []

    def _work_out(self, means: Array, covariance: Array) -> None:
        part = self.part
        self.U, self.alpha = part.U.copy(), part.Qy - part.U @ means
        self.present = self.U @ np.linalg.cholesky(covariance)

    def _count(self) -> None:
        self.sum += self.part.Q
        self.by_means.append(self.present)

    def _precision(self) -> Array:
        by_means = np.hstack(self.by_means)
        self.sum -= by_means @ by_means.T
        self.sum /= self.n
        return self.sum

    def _diagonal(self, out: NDArray[np.intp]) -> Array:
        return np.asarray(self.part.diagonal[out])

    def _replaced(self, out: NDArray[np.intp]) -> tuple[Array, Array]:
        part = self.part
        variance = np.maximum(part.C.diagonal()[out] - part.explained(out), 0.0) + part.clean_noise[out]
        return part.y[out] - part.C[out] @ self.alpha, variance


@dataclass(frozen=True)
class _Draw:
    """Parameters (θ, log σ², and log τ² of each group whose biases vary) with the evidence and its gradient."""

    x: Array
    log_density: float
    gradient: Array
    support: Support | None = None


@dataclass(frozen=True)
class ParameterAverage:
    """Hamiltonian Monte Carlo over the parameters, in turn with Gibbs sampling of the labels, from the best state.

    Where readings are few, neither follows from them: a fit at the best parameters is too sure of its labels, and one
    with the best labels of its parameters. The uncertainty of parameters falls as 1/N while the cost of a draw grows
    as N³, so that this is for few readings.
    """

    up_to: int = 150  # readings
    per_parameter: int = 10
    """Least number of readings per parameter. With fewer, most of what is averaged over is the prior's, and inputs that
    matter are forgotten in some of the draws (benchmarks/shapes.py --only few)."""
    burn_in: int = 24
    draws: int = 32
    every: int = 3
    """Transitions from one draw to the next: labels that hold one another move together only now and then, while each
    draw is one more part of every prediction. With 24 draws of one transition each the error is up to 4 % higher on the
    rows of benchmarks/shapes.py --only sizes, and of 45 % outliers 17 of 100 fits are bad without a word, instead of
    10."""
    labels: LabelAverage = LabelAverage(sweeps=2, burn_in=0)
    noise: tuple[float, float] = (-4.0, 3.0)
    """Mean and standard deviation of log σ² a priori, in units of y's robust variance: noise may be anything from
    nothing to all that there is. Without it the average never leaves a noise of nothing."""
    slab: tuple[float, float] = (0.0, 2.0)  # the same of log τ²: biases are about as large as the signal
    several_kinds: float = 5.0  # nats by which several kinds of outlier must be better than one to be kept
    widest: float = 1.0  # standard deviation of a direction in which the density hardly falls
    first_step: float = 0.5  # of a trajectory, in standard deviations

    def is_for(self, problem: Problem) -> bool:
        """Whether readings are so few that parameters are open, and so many that they are not at large."""
        return self.per_parameter * (len(problem.kernel.theta) + 2) <= len(problem) <= self.up_to

    def __call__(self, search: Search, state: State, rng: np.random.Generator) -> tuple[list[Moments], list[Array]]:
        """Moments of f and of the biases at each draw of the parameters, and these."""
        state = self._one_group(search, state)
        free = _varying(state.slab)
        at = self._evaluate(search, state.slab, state.labels, np.append(state.x, np.log(state.slab.variances)[free]))
        labels = state.labels

        def evaluate(x: Array) -> _Draw:
            return self._evaluate(search, state.slab, labels, x)

        metric = Metric.of_curvature(lambda x: evaluate(x).gradient, at.x, self.widest)
        step, each, parameters = StepSize(self.first_step), [], []
        for i in range(self.burn_in + self.draws * self.every):
            tuning = i < self.burn_in
            at, acceptance = transition(evaluate, at, metric, step.current if tuning else step.settled, rng)
            if tuning:
                step.learn(acceptance)
            assert at.support is not None
            moments = self.labels(at.support, rng)
            if not np.array_equal(moments.labels, labels):
                labels = moments.labels
                at = evaluate(at.x)
            if not tuning and (i - self.burn_in) % self.every == self.every - 1:
                each.append(moments)
                parameters.append(at.x[: len(state.x)])
        return each, parameters

    @staticmethod
    def beginning(search: Search, best: State) -> State:
        """Where the average begins: where a search ended around which labels have most evidence together.

        The best labels of all may be alone, as those that take all readings for noise are, while of many small outliers
        each has many labels that are nearly as good.
        """

        def together(state: State) -> float:
            return state.evidence + search.support(state).log_volume()

        least = best.evidence - search.policy.hopeless_gap
        near = [state for state in search.ended if state.evidence > least]
        found = max(near, key=together, default=best)
        return found if together(found) > together(best) else best

    def _one_group(self, search: Search, state: State) -> State:
        """The state with one kind of outlier, unless several are clearly better.

        Between two groups of small variance there is a gap that few readings do not show.
        """
        slab, out = state.slab, state.labels > 0
        if not out.any() or (slab.n_groups == 1 and not slab.replaced):
            return state
        bias = search.bias(state)[out] if not slab.replaced else search.y[out]
        simple = Slab((max(float(np.var(bias)), PRIOR.lowest_variance),), slab.mean_variance)
        found = search.improve("one group", Candidate(state.x, simple, out.astype(np.intp), state.curvature))
        return found if found.evidence > state.evidence - self.several_kinds else state

    def _evaluate(self, search: Search, slab: Slab, labels: Labels, x: Array) -> _Draw:
        """log p(y, labels, x) with the group means integrated out, and its gradient in x."""
        p = len(search.bounds)
        own, variances = x[:p], np.array(slab.variances)
        free = _varying(slab)
        variances[free] = np.exp(x[p:])
        limits = np.log([PRIOR.lowest_variance, PRIOR.highest_variance])
        outside = (own < search.bounds[:, 0]) | (own > search.bounds[:, 1])
        if outside.any() or (x[p:] < limits[0]).any() or (x[p:] > limits[1]).any():
            return _Draw(x, -np.inf, np.zeros(len(x)))
        C, pullback = search.kernel.with_theta(own[:-1]).vjp(search.X)
        noise, slab = float(np.exp(own[-1])), replace(slab, variances=tuple(variances.tolist()))
        try:
            support = Support(C, search.y, noise + search.known, slab, labels).holding(search.problem.fixed)
        except CovarianceError:  # K is singular: no density
            return _Draw(x, -np.inf, np.zeros(len(x)))
        means, covariance = support.posterior_of_means()
        alpha = support.Qy - support.U @ means
        by_K = 0.5 * (np.outer(alpha, alpha) - support.Q + support.U @ covariance @ support.U.T)
        by_noise = by_K.diagonal()
        cost, by_theta = search.problem.cost_of(own[:-1])
        priors = [self.noise] + [self.slab] * len(free)
        z = np.array([(value - mean) / std for value, (mean, std) in zip(x[p - 1 :], priors, strict=True)])
        by_groups = [variances[g] * by_noise[labels == g + 1].sum() for g in free]
        gradient = np.concatenate([pullback(by_K) - by_theta, [noise * by_noise.sum()], by_groups])
        gradient[p - 1 :] -= z / np.array([std for _, std in priors])
        return _Draw(x, support.log_evidence() - cost - 0.5 * float(z @ z), gradient, support)


def _varying(slab: Slab) -> list[int]:
    """Groups whose biases have a variance of their own."""
    return [g for g in range(slab.n_groups) if not (slab.replaced or slab.is_constant(g))]


def _log_odds(weights: Array) -> Array:
    """Of each reading's most probable label against the next."""
    ordered = np.sort(weights, axis=1)
    return np.asarray(ordered[:, -1] - ordered[:, -2])


def _probability_of_bias(weights: Array) -> Array:
    return np.asarray(1.0 - softmax(weights, axis=1)[:, 0])
