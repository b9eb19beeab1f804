"""SparseBiasGP: sparse bias, the estimator to use when some readings may lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logsumexp
from sklearn.utils.validation import check_is_fitted

from biasgp._typing import Array, Mask
from biasgp.covariance.threads import blas_threads_for
from biasgp.estimators.averaging import mixed, mixed_moments
from biasgp.estimators.base import LargeGP
from biasgp.estimators.categories import Categories
from biasgp.estimators.episode_notes import are_same, in_users_units, notes
from biasgp.estimators.explaining import NONE, SPIKE, Explainer, ReadingExplanation
from biasgp.estimators.validation import (
    check_choice,
    check_column,
    check_events,
    check_query,
    check_readings,
    check_verdict,
    column_names,
)
from biasgp.messages import quantity
from biasgp.models import sparse
from biasgp.models.censored import alternate
from biasgp.models.diagnosis import Finding
from biasgp.models.episodes import CROWD, Episode, Ordering
from biasgp.models.noise_tails import Tails
from biasgp.models.problem import Problem
from biasgp.models.sparse.kinds import PRIOR, Slab, log_cauchy, log_normal
from biasgp.models.sparse.recipe import RECIPE
from biasgp.models.strategy import EXACT_UP_TO
from biasgp.models.varying_noise import AUTO, Noise, ProportionalNoise, beside
from biasgp.response import ScaledResponse

_MIDDLE = (0.05, 0.95)
"""Quantiles of the noise over the readings, between which it is said to be."""


@dataclass(eq=False, repr=False, kw_only=True)
class SparseBiasGP(LargeGP):
    """Gaussian process in which most readings have no bias, and the others share a slab of biases.

    y = f(x) + δ + ε, where δ is 0 for most readings and comes from N(m, τ²) for the rest. Which readings those are, and
    whether their biases are of one kind, of several, or values that have nothing to do with f, is chosen by evidence;
    readings that stay in doubt are averaged over.

    Parameters
    ----------
    {inherited}
    random_state : int
        Seed of the sampling of labels in doubt. The same input gives the same result to the bit.
    order : int, str or None
        The column in whose order biases may last (`episodes_`), by index or name: as a rule, time. "auto" takes the
        only column where there is one, or the only column of dates and times. None looks for single outliers only.
        Columns of labels do not count; each label has episodes of its own.
    reference : str or None
        Where the kernel has `Same` in it, the label of a sensor that has no error of its own and no episodes.
    length_scale_prior : {"weak", None}
        "weak": short length-scales cost something, as by a normal density of log ℓ with standard deviation 2.5, from
        e² times √d times the spread of their column downwards, d the number of inputs. It matters where readings are
        few for the number of inputs. None: maximum likelihood.
    noise_model : {"auto", "constant", "varying", "proportional"}
        What the noise of good readings is. "constant": one σ². "varying": log σ²(x) is a Gaussian process of the same
        inputs. "proportional": σ² + κ²f(x)², for a response that has a zero. "auto": one σ², unless another has clearly
        more evidence. With one σ², readings where the noise is larger are taken for outliers.

    Attributes
    ----------
    {inherited}
    outlier_mask_ : ndarray of bool
        Readings that are more likely an outlier than not.
    outlier_probability_ : ndarray of shape (n_samples,)
        Probability that each reading is an outlier.
    bias_, bias_std_ : ndarray of shape (n_samples,)
        Posterior mean and standard deviation of each reading's bias, in y's unit; that of its episode included, and,
        where the kernel has `Same` in it, the error of its sensor's own: `y − bias_` is f and noise.
    episodes_ : tuple of Episode
        Biases that last: a sensor that is stuck, a shift, a step to the end of the record, a ramp (a drift that ends),
        a sensor that is erratic (its values jump about). Each has its `kind`, `rows`, `start`, `stop`, `bias`,
        `bias_std`, `log_odds` and `sensor`.
    alternatives_ : tuple of tuple of Episode
        Other sets of episodes that explain the readings almost as well.
    verdict_ : ndarray of shape (n_samples,)
        What was said of each reading: good (0), bad (1), or nothing (NaN).
    censored_ : ndarray of shape (n_samples,)
        Which readings are known to lie below y (−1) or above it (+1), and which were measured (0).
    notes_ : tuple of Finding
        What a reader should know, and what by itself does not make the fit untrustworthy: faults that may be signal,
        heavy tails, neighbours that are flagged, noise or a length-scale on its lowest value, verdicts that the
        readings contradict, noise that varies or has heavy tails.
    groups_ : tuple of Group
        The kinds of outlier found: share of the readings, mean and variance of the bias (in the model's units).
    replaced_ : bool
        Whether the outliers' values have nothing to do with f, so that they were left out rather than shifted back.
    log_evidence_ : float
        log p(y, outliers) at the best set of outliers, in y's unit.
    trace_ : tuple of Step
        The path of the search: where from, how many outliers, and the log evidence in the model's units.
    doubt_ : float
        Mean variance of f over what it would be if the labels (and, of few readings, the parameters) were known.
    trustworthy_ : bool
        Whether the fit found no reason to doubt itself.
    diagnosis_ : tuple of Finding
        The reasons, if any: what was seen (`code`, `evidence`), what to try (`remedy`), readings to look at (`rows`).
        `str()` of each is the text of the warning that is issued.

    Examples
    --------
    >>> from biasgp import SparseBiasGP
    >>> from biasgp.data import simulate
    >>> data = simulate("1d", 8)
    >>> model = SparseBiasGP().fit(data.X, data.y)
    >>> bool((model.outlier_mask_ == data.is_outlier).all())
    True
    """

    random_state: int = 0
    order: int | str | None = "auto"
    reference: str | None = None
    length_scale_prior: str | None = "weak"
    noise_model: str = AUTO

    _inverse_up_to = EXACT_UP_TO  # labels are searched for with it
    _knows_censored = True

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        noise_variance: ArrayLike | None = None,
        *,
        events: ArrayLike | None = None,
        verdict: ArrayLike | None = None,
        censored: ArrayLike | None = None,
        client: Any = None,
    ) -> Self:
        """Fit to readings y at the rows of X, as GaussianGP.fit does.

        Parameters
        ----------
        X, y, noise_variance, client
            As in GaussianGP.fit.
        censored : array-like of shape (n_samples,), optional
            As in GaussianGP.fit. A censored reading is never an outlier, and is in no episode.
        events : array-like, optional
            Values of the ordering column at which the sensor was cleaned, calibrated or moved: drifts end and levels
            jump there, and hardly anywhere else.
        verdict : array-like of shape (n_samples,), optional
            What is known of each reading: 0 for a good one, 1 for a bad one, NaN where it is open. A good reading has
            no bias and is in no episode. A bad one has a bias of its own or is in an episode; bad readings that follow
            one another are in one episode together or in none. All other labels, the share of outliers and their slab
            follow from the verdicts too.
        """
        return self._fit_each(lambda each: each._fit_told(X, y, noise_variance, events, verdict, censored, client))

    def _fit_told(
        self, X: Any, y: Any, noise_variance: Any, events: Any, verdict: Any, censored: Any, client: Any
    ) -> list[Finding]:
        """Fit under one transform; what there is to say about it."""
        with self._prepared(X, y, noise_variance, censored, client) as (problem, response, watch):
            problem, serviced = self._told(problem, verdict), self._checked_events(events)
            found, problem = self._fit_to_all(problem, serviced)
            problem = beside(problem, found.noise, found.posterior)
            self._readings = Explainer(problem, _where_it_ended(found), response, serviced)
            model = self._with_own_errors(self._with_sensors(found, problem), problem)
        return self._concluded(model, response, watch.expired)

    def refit(self, verdict: ArrayLike | None = None) -> Self:
        """Fit to the readings of `fit` again with other verdicts, from what the model knows.

        Labels, parameters and episodes move from where they are; readings and hyperparameters of the search must be
        those of `fit`. It takes a fraction of a fit's time, and where the verdicts say what the model knew, nothing
        changes.

        Parameters
        ----------
        verdict : array-like of shape (n_samples,), optional
            As in `fit`; all verdicts, not only new ones. Those of `fit` are `verdict_`.

        Examples
        --------
        >>> from biasgp import SparseBiasGP
        >>> from biasgp.data import simulate
        >>> data = simulate("1d", 8)
        >>> model = SparseBiasGP().fit(data.X, data.y)
        >>> verdict = model.verdict_.copy()
        >>> verdict[3] = 1.0
        >>> bool(model.refit(verdict).outlier_mask_[3])
        True
        """
        others = self._others
        findings = self._refit_one(verdict)
        if others:
            for _, other in others:
                other._refit_one(verdict)
            self._average(others)
        for finding in findings:
            finding.warn(stacklevel=2)
        return self

    def _refit_one(self, verdict: ArrayLike | None) -> list[Finding]:
        """Refit under one transform; what there is to say about it."""
        known = self._known()
        problem = replace(known.problem, verdict=self._checked_verdict(verdict, len(known.problem)))
        with self._watching() as watch, blas_threads_for(len(problem)):
            ordering = self._ordering(problem, known.events)
            rng, strategy = np.random.default_rng(self.random_state), self._strategy(problem)
            before = replace(known.model, trace=self.trace_, episodes=(*self._own_episodes, *self._own_crowds))
            found = replace(sparse.refit(before, problem, self.max_iter, rng, strategy, ordering), noise=before.noise)
            self._readings = replace(known, problem=problem, model=_where_it_ended(found))
            model = self._with_own_errors(self._with_sensors(found, problem), problem)
        return self._concluded(model, known.response, watch.expired)

    def explain(self, i: int) -> ReadingExplanation:
        """Why reading i was flagged, or was not: what was to be expected there without it, and what speaks against it.

        It is exact, from what the fit knows: labels of the others, episodes and parameters are held. Of more readings
        than an exact fit is for, the nearest are asked which of them matter.

        Parameters
        ----------
        i : int
            The index of a reading of `fit`.

        Examples
        --------
        >>> from biasgp import SparseBiasGP
        >>> from biasgp.data import simulate
        >>> data = simulate("1d", 8)
        >>> model = SparseBiasGP().fit(data.X, data.y)
        >>> why = model.explain(int(model.outlier_mask_.argmax()))
        >>> why.log_odds > 0.0 and why.log_odds == why.prior + why.evidence
        True
        """
        known = self._known()
        n = len(known.problem)
        if isinstance(i, bool) or not isinstance(i, int | np.integer) or not -n <= i < n:
            raise ValueError(f"i must be the index of a reading, from 0 to {n - 1}, got {i!r}.")
        if self._censored_of(n)[i]:
            raise ValueError(f"Reading {int(i) % n} is censored: it is a limit, and never taken for an outlier.")
        with blas_threads_for(n):
            return self._explaining()(int(i) % n)

    def _explaining(self) -> Callable[[int], ReadingExplanation]:
        """A function that explains one reading after the other, for whoever asks for several."""
        known = self._known()
        return known.each(self, self._ordering(known.problem, known.events))

    def explain_all(self) -> dict[str, Any]:
        """What `explain` says of each reading, without its witnesses: a dictionary of columns, for a data frame.

        It takes one factorisation, whatever the number of readings. Column `log_odds` is the sum of prior and evidence;
        `median` is that of f, which is `expected` but for a response transform; `worth` says which readings are worth a
        look: the expected number of labels that a verdict on each would change, its own and, by way of f, others.
        """
        known = self._known()
        with blas_threads_for(len(known.problem)):
            columns = known.columns(self, self._ordering(known.problem, known.events))
        for name in ("prior", "if_good", "if_bad", "log_odds"):  # a limit has none
            columns[name] = np.where(self._censored_of(len(known.problem)), np.nan, columns[name])
        return columns

    def _training_inputs(self) -> Array:
        return self._known().problem.X

    def _kinds(self) -> NDArray[np.object_]:
        kinds: NDArray[np.object_] = self.explain_all()["kind"]
        kinds = np.where(self.outlier_mask_, kinds, NONE)  # what the average over fits takes for good
        return np.where(self.outlier_mask_ & (kinds == NONE), SPIKE, kinds)

    def _known(self) -> Explainer:
        """What refit and explanations need of the fit."""
        check_is_fitted(self)
        if not hasattr(self, "_readings"):
            raise ValueError("This model was saved by a version that did not keep its readings. Fit again.")
        return self._readings

    def _told(self, problem: Problem, verdict: ArrayLike | None) -> Problem:
        """The readings with what is known beside them: verdicts, and the prior of the length-scales."""
        check_choice("length_scale_prior", self.length_scale_prior, ("weak", None))
        problem = replace(problem, verdict=self._checked_verdict(verdict, len(problem)))
        return problem if self.length_scale_prior is None else problem.with_prior()

    def _checked_verdict(self, verdict: ArrayLike | None, n: int) -> Array | None:
        """What is known of each reading; a censored one is no outlier."""
        said, censored = check_verdict(verdict, n), self._censored_of(n)
        if not censored.any():
            return said
        if said is not None and (said[censored] == 1.0).any():
            row = int(np.flatnonzero(censored & (said == 1.0))[0])
            raise ValueError(f"verdict, row {row}: a censored reading cannot be bad. Leave the row out instead.")
        return np.where(censored, 0.0, np.full(n, np.nan) if said is None else said)

    def _censored_of(self, n: int) -> Mask:
        """Which of the readings of the fit are only limits."""
        side = getattr(self, "_censored", None)  # models of earlier versions have none
        return np.zeros(n, dtype=bool) if side is None else side != 0.0

    def _fit_to_all(self, problem: Problem, serviced: Array | None) -> tuple[sparse.SparseBiasFit, Problem]:
        """The model, and the readings that it was fitted to: with pseudo-readings for those that are censored."""
        if problem.censored is None:
            return self._fit_model(problem, serviced), problem
        strategy = self._strategy(problem)
        found, pseudo, sites = alternate(problem, lambda each: self._fit_model(each, serviced), strategy)
        return replace(found, log_evidence=found.log_evidence + sites.log_scale_before), pseudo

    def _fit_model(self, problem: Problem, serviced: Array | None = None) -> sparse.SparseBiasFit:
        rng, ordering = np.random.default_rng(self.random_state), self._ordering(problem, serviced)
        recipe = replace(RECIPE, noise_model=self._checked_noise_model(problem))
        return sparse.fit(problem, self.max_iter, rng, self._strategy(problem), recipe, ordering)

    def _with_sensors(self, found: sparse.SparseBiasFit, problem: Problem) -> sparse.SparseBiasFit:
        """A fit whose episodes have the labels of their sensors."""

        def named(episodes: tuple[Episode, ...]) -> tuple[Episode, ...]:
            firsts = [problem.X[each.rows[0]] for each in episodes]
            sensors = list(map(Categories(self.category_columns_).sensor_at, firsts))
            return tuple(replace(each, sensor=sensor) for each, sensor in zip(episodes, sensors, strict=True))

        return replace(found, episodes=named(found.episodes), alternatives=tuple(map(named, found.alternatives)))

    def _tells_of_f(self, X: Array, y: Array) -> Mask:
        told, column = super()._tells_of_f(X, y), self._order_column()
        if column is not None:
            ordering = Ordering(X[:, column], series=Categories(self.category_columns_).series(X))
            told[[row for episode in ordering.stuck_runs(y) for row in episode.rows]] = False
        return told

    def _checked_events(self, events: ArrayLike | None) -> Array | None:
        column = self._order_column()
        if column is None and events is not None:
            raise ValueError("events are values of the ordering column: say which one it is with order=.")
        return None if column is None or events is None else check_events(events, self.time_columns_, column)

    def _ordering(self, problem: Problem, serviced: Array | None) -> Ordering | None:
        """The readings in the order in which biases may last, if there is one."""
        column = self._order_column()
        if column is None:
            return None
        series = Categories(self.category_columns_).series(problem.X)
        return Ordering(problem.X[:, column], serviced, series=series, verdict=problem.verdict)

    def _order_column(self) -> int | None:
        """The index of the ordering column, if there is one."""
        labelled = {column.index for column in getattr(self, "category_columns_", ())}
        if self.order == "auto":
            dated = [time.index for time in self.time_columns_ if time.clock != "elapsed"]
            every = [j for j in range(self.n_features_in_) if j not in labelled]
            return every[0] if len(every) == 1 else dated[0] if len(dated) == 1 else None
        if self.order is None:
            return None
        column = check_column("order", self.order, self.n_features_in_, column_names(self))
        if column in labelled:
            raise ValueError(f"order={self.order!r} is a column of labels (Same): readings are ordered by time, say.")
        return column

    def _unpack(self, model: sparse.SparseBiasFit, response: ScaledResponse) -> None:
        verdict = self._readings.problem.verdict
        censored = self._censored_of(len(response.y))
        self.verdict_ = np.full(len(response.y), np.nan) if verdict is None else np.where(censored, np.nan, verdict)
        self.censored_ = np.zeros(len(response.y)) if response.censored is None else response.censored.copy()
        self._own_probability = model.probability
        self._own_bias = response.bias(model.bias), response.bias_std(model.bias, np.sqrt(model.bias_variance))
        self.outlier_probability_ = self._own_probability
        self.outlier_mask_ = self.outlier_probability_ > 0.5
        self.bias_, self.bias_std_ = self._own_bias
        self.groups_ = model.groups
        self.replaced_ = model.slab.replaced
        self.log_evidence_ = model.log_evidence + response.log_jacobian
        self.trace_ = model.trace
        self._crowds = tuple(each for each in model.episodes if each.kind == CROWD)
        lasting = tuple(each for each in model.episodes if each.kind != CROWD)
        episodes = self._in_users_units(lasting, model, response)
        self._own_episodes = tuple(sorted(episodes, key=lambda each: each.start))
        self.episodes_ = self._own_episodes
        self.alternatives_ = tuple(self._in_users_units(each, model, response) for each in model.alternatives)
        self.doubt_, self._tails = model.doubt, model.tails
        self.diagnosis_ = (*model.findings, *self._not_converged(model))
        self.trustworthy_ = not self.diagnosis_
        super()._unpack(model, response)
        varying = () if model.noise is None else (self._on_varying_noise(model.noise),)
        wide = () if model.tails is None else (_on_tails(model.tails),)
        self._notes_on_readings = (*_on_limits(model.notes, censored), *varying, *wide)
        self._say_notes()

    @property
    def _faults(self) -> tuple[Episode, ...]:
        """All that several readings have in common."""
        return (*self.episodes_, *self._own_crowds)

    @property
    def _own_crowds(self) -> tuple[Episode, ...]:
        """Of this fit alone; model files of earlier versions have none."""
        return getattr(self, "_crowds", ())

    def _say_notes(self) -> None:
        self.notes_ = (*self._notes_on_readings, *notes(self.episodes_, self.alternatives_))

    def _on_varying_noise(self, noise: Noise) -> Finding:
        """That the noise is not the same everywhere, in y's unit."""
        low, high = np.quantile(self._noise_at(self._posterior.X), _MIDDLE)
        ends = [quantity(self._scaling.spread(each), "") for each in (low, high)]
        how = "in proportion to the level" if isinstance(noise, ProportionalNoise) else "with the inputs"
        text = (
            f"The noise of good readings varies {how}: its standard deviation is {ends[0]} to {ends[1]} in nine of ten."
        )
        return Finding("varying-noise", text)

    def _in_users_units(
        self, episodes: tuple[Episode, ...], model: sparse.SparseBiasFit, response: ScaledResponse
    ) -> tuple[Episode, ...]:
        """Episodes in the user's units."""
        if not episodes:
            return ()
        column = self._order_column()
        order = next((time.instants(model.order) for time in self.time_columns_ if time.index == column), model.order)
        found = []
        for each in episodes:
            bias, std = self.bias_, self.bias_std_
            if np.isfinite(each.bias):
                of_z = np.full(len(bias), each.bias)
                bias, std = response.bias(of_z), response.bias_std(of_z, np.full(len(bias), each.bias_std))
            found.append(in_users_units(each, order, bias, std))
        return tuple(found)

    def _findings(self, model: sparse.SparseBiasFit) -> Iterator[Finding]:
        yield from super()._findings(model)
        yield from model.findings

    def _average(self, others: Sequence[tuple[float, Self]]) -> None:
        super()._average(others)
        weights, each = self._of_members(lambda member: (member._own_probability, member._own_bias))
        probabilities, biases = zip(*each, strict=True)
        self.outlier_probability_ = mixed(weights, probabilities)
        self.outlier_mask_ = self.outlier_probability_ > 0.5
        self.bias_, self.bias_std_ = mixed_moments(weights, *zip(*biases, strict=True))
        # Episodes that one fit has and most of the others have not are explanations among others.
        every = [member._own_episodes for _, member in self._members()]
        self.episodes_ = tuple(filter(self._is_borne_out, self._own_episodes))
        self.alternatives_ += tuple(each for each in every if not all(map(self._is_borne_out, each)))
        self.alternatives_ = tuple(each for each in self.alternatives_ if not are_same(each, self.episodes_))
        self._say_notes()

    def _is_borne_out(self, episode: Episode) -> bool:
        """Whether most of its readings are outliers by the average over fits."""
        return bool(self.outlier_mask_[list(episode.rows)].mean() > 0.5)

    def outlier_probability(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Probability that a new reading y at each row of X is an outlier, given the readings of fit."""
        check_is_fitted(self)
        return np.asarray(expit(self._log_odds(X, y)))

    def _log_odds(self, X: ArrayLike, y: ArrayLike) -> Array:
        """That a new reading y at each row of X is an outlier, by all fits."""
        array, readings = check_query(self, X, shared=False), check_readings(y, X)
        weights, each = self._of_members(lambda member: member._log_densities(array, readings))
        clean, out = (logsumexp(part, axis=0, b=np.array(weights)[:, None]) for part in zip(*each, strict=True))
        return np.asarray(out - clean)

    def _log_density(self, X: Array, readings: Array) -> Array:
        """The next reading may be an outlier: (1 − π)·noise + π·slab."""
        return np.logaddexp(*self._log_densities(X, readings))

    def _log_densities(self, X: Array, readings: Array) -> tuple[Array, Array]:
        """log p(y, clean) and log p(y, outlier), of this fit alone."""
        z = self._scaling.forward(readings)
        mean, variance = self._latent(X, include_noise=True)
        unseen = PRIOR.unseen(len(self.outlier_mask_))
        # The other half of what was not seen may have any size, by y's own scale: a transform may make too much of it.
        half = 0.5 * unseen.share
        unseen = replace(unseen, share=half / (1.0 - half))
        slab = Slab.of_groups(self.groups_, self.replaced_).with_unseen(unseen)
        joint = slab.log_predictive(z, mean, variance)
        if self._tails is not None:
            off = z - mean
            joint[:, 0] += self._tails.log_density(off, variance, self._noise_at(X)) - log_normal(off, variance)
        joint = joint + np.log1p(-half) + self._scaling.log_slope(readings)[:, None]
        size = np.sqrt(unseen.variance) * self._scaling.spread(1.0)
        of_any_size = np.log(half) + log_cauchy(readings - self._scaling.backward(mean), size)
        return joint[:, 0], np.asarray(logsumexp(np.column_stack([joint[:, 1:], of_any_size]), axis=1))


def _on_tails(tails: Tails) -> Finding:
    """That the noise is not normal."""
    text = (
        "The noise of good readings has heavier tails than the normal distribution: about "
        f"{tails.share:.0%} of them have {np.sqrt(tails.ratio):.0f} times the noise of the others."
    )
    return Finding("wide-noise", text)


def _on_limits(found: tuple[Finding, ...], censored: Mask) -> Iterator[Finding]:
    """The notes of a fit to which censored readings were good ones, in words that are true of limits."""
    for note in found:
        rows = tuple(row for row in note.rows if censored[row])
        if note.code != "contradicted-verdict" or len(rows) < len(note.rows):
            yield note
        else:
            text = "Readings that are said to lie beyond a limit contradict the others."
            yield Finding("contradicted-limit", text, (), rows)


def _where_it_ended(found: sparse.SparseBiasFit) -> sparse.SparseBiasFit:
    """A fit without what the estimator has as attributes."""
    nothing = np.empty(0)
    arrays = {"probability": nothing, "bias": nothing, "bias_variance": nothing, "order": None}
    told: dict[str, Any] = {"trace": (), "findings": (), "notes": (), "episodes": (), "alternatives": ()}
    return replace(found, posterior=None, **arrays, **told)  # type: ignore[arg-type]
