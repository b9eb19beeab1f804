"""What every estimator shares: validate → scale → model → attributes in the user's units → predict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from biasgp._typing import Array, Mask
from biasgp.covariance.blocks import MakePool, on_threads
from biasgp.covariance.cluster import on_cluster
from biasgp.covariance.dense import FACTORISATIONS
from biasgp.covariance.threads import blas_threads_for
from biasgp.estimators.averaging import mixed
from biasgp.estimators.categories import Categories
from biasgp.estimators.frames import Given, row_labels
from biasgp.estimators.going_on import KEPT, LastReadings
from biasgp.estimators.predicting import Predictions
from biasgp.estimators.progress import WHOLE_FITS, watching
from biasgp.estimators.validation import (
    MIN_READINGS,
    check_censored,
    check_choice,
    check_number,
    check_positive_integer,
    check_query,
    check_training,
    column_names,
)
from biasgp.estimators.views import FitViews
from biasgp.kernels import Kernel, SquaredExponential, as_kernel
from biasgp.models import strategy
from biasgp.models.diagnosis import Finding
from biasgp.models.own_error import with_chosen_variances, with_own_errors
from biasgp.models.problem import FitResult, Problem
from biasgp.models.strategy import EXACT, Strategy
from biasgp.models.transform_choice import RESPONSES, Weighted, choose_transforms
from biasgp.models.varying_noise import CONSTANT, NOISE_MODELS, PROPORTIONAL
from biasgp.optimize import OUT_OF_TIME
from biasgp.response import ScaledResponse, Scaling
from biasgp.watch import ledger

if TYPE_CHECKING:
    from biasgp.stream import Stream

_NEIGHBOURS_PER_LABEL = 2
"""Least number of nearest neighbours, as a multiple of the labels: readings at one time are equally near."""
_THREADS: MakePool = on_threads


@dataclass(eq=False, repr=False)
class BaseGP(Predictions, FitViews, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A Gaussian process on a robustly scaled, perhaps transformed, response; subclasses supply the model.

    They are dataclasses, so that each parameter is declared once. In their docstrings, {inherited} stands for what the
    same section says here.

    Parameters
    ----------
    kernel : kernel of biasgp.kernels or of scikit-learn, optional
        Covariance of f. Squared exponential with one length-scale per input when left out. Length-scales and periods
        of columns of times are durations, as in `Matern32(length_scale="6h")`, or numbers of seconds.
    response : {"identity", "log", "yeo-johnson", "auto"}
        Transform of y in which the model holds; "auto" takes the one whose rough fit predicts readings best, and where
        several may be the best, predictions are averaged over fits under each (`response_weights_`). Results come back
        in y's units, but for `kernel_`, which is the covariance of the transformed f. "auto" leaves fewer than 20
        readings as they are; beyond the range of the readings a transform goes on as a straight line.
    max_iter : int
        Most iterations of the final search for the parameters (for a start, where they are sampled).

    Attributes
    ----------
    response_ : Transform
        The transform of y that was used; the likeliest, where predictions are averaged over several. What is said of
        parameters is of the fit under this one.
    response_weights_ : dict of str to float
        The transforms that predictions are averaged over, by name, with their weights; as a rule one with weight 1.
    kernel_ : Kernel
        The fitted covariance, in y's unit squared; at the parameters' geometric means, where they are sampled.
        Length-scales and periods of times are floats, in seconds, that are shown as durations.
    noise_variance_ : float
        σ², the noise variance of readings that are not outliers, in y's unit squared; its mean over the readings, where
        it varies (`noise_std`).
    n_iter_ : int
        Iterations of the final search, or draws of each chain.
    time_columns_ : tuple of TimeColumn
        The columns of X that hold times: `index`, `clock` ("zoned", "naive" or "elapsed") and `origin`, from which
        seconds are counted.
    category_columns_ : tuple of CategoryColumn
        The columns of X that hold labels, those that a kernel names with `Same`: `index`, `labels` and `reference`.
    """

    kernel: Any = None
    _: KW_ONLY
    response: str = "identity"
    max_iter: int = 200
    _make_pool = staticmethod(_THREADS)
    _knows_censored = False  # whether readings may be limits

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for section in str(cls.__mro__[1].__doc__).split("----------\n")[1:]:
            if cls.__doc__:  # there is none under python -OO
                cls.__doc__ = cls.__doc__.replace("    {inherited}", section.split("\n\n")[0].rstrip(), 1)

    def _fit_model(self, problem: Problem) -> FitResult:
        """Fit the model to problem.y, without setting any attribute."""
        raise NotImplementedError

    def _unpack(self, model: Any, response: ScaledResponse) -> None:
        """Set the attributes of a fit, in the user's units. Models with more of them than these extend it."""
        # Flagged readings do not tell the range of f.
        clean = ~getattr(self, "outlier_mask_", np.zeros(len(response.y), dtype=bool))
        scaling = response.scaling.supported_by(response.y[clean] if clean.sum() >= MIN_READINGS else response.y)
        self._scaling, self._posterior = scaling, model.posterior
        self._own_noise_variance, self._noise = model.noise_variance, model.noise
        varying = 0.0 if model.noise is None else float(model.noise(model.posterior.X, model.posterior).mean())
        self._scaled_noise_variance = model.noise_variance + varying
        self.response_ = scaling.transform
        self._others, self.response_weights_ = (), {scaling.transform.name: 1.0}
        self.kernel_ = model.kernel.scaled(scaling.scale**2)
        self.noise_variance_ = scaling.spread(self._scaled_noise_variance) ** 2
        self.n_iter_ = max(1, model.report.n_iter)

    def _findings(self, model: Any) -> Iterator[Finding]:
        """What a user should be warned of in a fit."""
        if model.runaway:
            yield Finding("runaway", f"The tuning ran away: {model.runaway}.", ("maximum likelihood",))
        elif model.report.message != OUT_OF_TIME:
            yield from self._not_converged(model)
        if model.posterior.jitter > 0.0:
            text = (
                f"The covariance matrix was singular to working precision: {model.posterior.jitter:.1e} was added to "
                "its diagonal (for readings scaled to 1)."
            )
            yield Finding("jitter", text, ("less smooth kernel",))

    def _not_converged(self, model: FitResult) -> Iterator[Finding]:
        """The finding that the search did not converge, where that is so."""
        if model.report.converged:
            return
        text = "The search for the parameters stopped before it converged"
        if model.report.message == OUT_OF_TIME:
            yield self._out_of_time()
        elif model.report.n_iter >= self.max_iter:
            yield Finding("not-converged", f"{text}, after {self.max_iter} iterations.", ("more iterations",))
        else:
            text += ": the covariance is nearly singular, as for readings without noise."
            yield Finding("not-converged", text, ("less smooth kernel",))

    def _out_of_time(self) -> Finding:
        text = f"The fit was ended after {self.max_time:g} s with the best parameters so far."
        return Finding("time-limit", text, ("more time",))

    def _strategy(self, problem: Problem, *, inverse: bool = False) -> Strategy:
        """Which engine is used for these readings, and how; `inverse` where the model needs all of K⁻¹."""
        return EXACT

    def _watching(self) -> Any:
        """A context with the time limit and the progress messages of a fit."""
        return watching(None, False)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        noise_variance: ArrayLike | None = None,
        *,
        censored: ArrayLike | None = None,
        client: Any = None,
    ) -> Self:
        """Fit to readings y at the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs; a pandas or polars frame brings its column names along. Columns may hold times: those of NumPy,
            pandas and polars, with or without a time zone, dates, durations, and objects of Python's datetime. They
            are counted in seconds of UTC, so that a length-scale of theirs is a duration, such as "6h". What `predict`
            and the others are given must have the same kind of times in the same columns. Columns that the kernel
            names with `Same` hold labels: text, categoricals or numbers, none of them missing.
        y : array-like of shape (n_samples,)
            Readings, some of which may be outliers.
        noise_variance : array-like of shape (n_samples,), optional
            Known variance of each reading's error, in y's unit squared, added to the σ² that is learnt.
        censored : array-like of shape (n_samples,), optional
            For GaussianGP and SparseBiasGP: 0 where a reading was measured, −1 where it is known only to lie below y,
            as below a detection limit, and +1 where above. Such a reading counts by the probability of that.
        client : dask.distributed.Client, optional
            Where the readings live during the fit, if nearest neighbours are used; the result is the same.
        """
        return self._fit_each(lambda each: each._fit_one(X, y, noise_variance, censored, client))

    def _fit_one(self, X: Any, y: Any, noise_variance: Any, censored: Any, client: Any) -> list[Finding]:
        """Fit under one transform; what there is to say about it."""
        with self._prepared(X, y, noise_variance, censored, client) as (problem, response, watch):
            model = self._with_own_errors(self._fit_model(problem), problem)
        return self._concluded(model, response, watch.expired)

    def _fit_each(self, fit: Callable[[Self], list[Finding]]) -> Self:
        """`fit` under each transform that may be the best; the likeliest is this model, which says what it found."""
        limit, began = getattr(self, "max_time", None), monotonic()
        findings = fit(self)
        others = []
        for each in self._transforms[1:]:
            left = None if limit is None else limit - (monotonic() - began)
            if left is not None and left <= 0.0:
                break
            other = clone(self) if left is None else clone(self).set_params(max_time=left)
            other._given_transforms = (Weighted(each.transform),)
            fit(other)
            others.append((each.weight, other))
        if others:
            self._average(others)
        for finding in findings:
            finding.warn(stacklevel=3)
        return self

    def _average(self, others: Sequence[tuple[float, Self]]) -> None:
        """Count the others in predictions, as much as their weights say. Subclasses average their attributes too."""
        self._others = tuple(others)
        self.response_weights_ = {each.response_.name: weight for weight, each in self._members()}

    @contextmanager
    def _prepared(
        self,
        X: ArrayLike,
        y: ArrayLike,
        noise_variance: ArrayLike | None,
        censored: ArrayLike | None,
        client: Any = None,
    ) -> Iterator[tuple[Problem, ScaledResponse, Any]]:
        """The readings, checked and scaled; inside, a model may be fitted to them under the estimator's limits."""
        check_positive_integer("max_iter", self.max_iter)
        check_choice("response", self.response, RESPONSES)
        kernel = SquaredExponential(ard=True) if self.kernel is None else as_kernel(self.kernel)
        X_array, y_array, known = check_training(self, X, y, noise_variance)
        side = self._censored = self._checked_censored(censored, len(y_array))
        measured = np.ones(len(y_array), dtype=bool) if side is None else side == 0.0
        if self.category_columns_:
            labelled = {column.index for column in self.category_columns_}
            kernel = kernel.beside_categories(labelled, column_names(self), X_array.shape[1])
        times = {column.index for column in self.time_columns_}
        kernel = kernel.in_seconds([j in times for j in range(X_array.shape[1])], column_names(self))
        with self._watching() as watch, self._on(client), blas_threads_for(len(y_array)):
            self._transforms = self._given_transforms or choose_transforms(
                self.response, X_array, y_array, kernel, column_names(self), measured
            )
            scaling = Scaling.of(y_array, self._transforms[0].transform).supported_by(y_array)
            if scaling.constant:
                text = f"All readings are {y_array[0]:g}: predictions will be that, and their std means nothing."
                Finding("constant", text, ("right column",)).warn(stacklevel=4)
            response = ScaledResponse(y_array, scaling, side)
            if self.category_columns_:
                self._refuse_nothing_shared(kernel.bind(X_array, column_names(self)), X_array)
                told = self._tells_of_f(X_array, y_array) & measured
                trial = ScaledResponse(y_array[told], scaling)
                kernel = with_chosen_variances(kernel, X_array[told], trial, column_names(self))
            bound = kernel.bind(X_array, column_names(self), scaling.scale**2)
            stated, zero = response.variances(known), response.zero
            problem = Problem(X_array, response.z, bound, stated, scaling.scale, censored=side, zero=zero)
            if self._strategy(problem).exact:
                ledger().expect(FACTORISATIONS, WHOLE_FITS.get(type(self).__name__, 0) * len(problem) ** 3)
            self._given, self._index = Given.of(X, y, y_array, problem.known), row_labels(X, y)
            yield problem, response, watch
            ledger().expect(FACTORISATIONS, 0.0)
            self._last: LastReadings | None = None
            if side is None:  # a limit is no reading to go on from
                self._last = LastReadings.of(bound, X_array, y_array, known, self._strategy(problem).exact)

    def _checked_censored(self, censored: ArrayLike | None, n: int) -> Array | None:
        """Which readings lie below or above y; refused by estimators that cannot use that."""
        side = check_censored(censored, n)
        if side is not None and not self._knows_censored:
            raise ValueError(
                f"{type(self).__name__} cannot use censored readings. Use SparseBiasGP or GaussianGP, or leave these "
                "readings out."
            )
        return side

    def _tells_of_f(self, X: Array, y: Array) -> Mask:
        """Readings by which kernels are compared before the fit."""
        return np.ones(len(y), dtype=bool)

    def _refuse_nothing_shared(self, bound: Kernel, X: Array) -> None:
        """Refuse a kernel by which nothing is left of f where there is no label."""
        if not (bound.diag(Categories(self.category_columns_).at_no_label(X)) > 0.0).any():
            raise ValueError(
                "By this kernel the labels have nothing in common that could be predicted. Add a kernel without Same, "
                "as in Matern32() + Same('sensor') * Matern32()."
            )

    def _with_own_errors(self, model: FitResult, problem: Problem) -> Any:
        """The model with the errors of its own that each label has counted as biases, where there are labels."""
        if not self.category_columns_:
            return model
        return with_own_errors(model, problem, Categories(self.category_columns_).at_no_label(problem.X))

    def _concluded(self, model: FitResult, response: ScaledResponse, expired: bool) -> list[Finding]:
        """The attributes of a fit are set; what there is to warn of."""
        self._unpack(model, response)
        return [*([self._out_of_time()] if expired else []), *self._findings(model)]

    @contextmanager
    def _on(self, client: Any) -> Iterator[None]:
        """Inside, blocks of readings live on the client's cluster."""
        if client is None:
            yield
            return
        self._make_pool = on_cluster(client)
        try:
            yield
        finally:
            del self._make_pool


@dataclass(eq=False, repr=False)
class LargeGP(BaseGP):
    """An estimator that also takes more readings than K⁻¹ can be computed for, and can be given a limit in time.

    Parameters
    ----------
    {inherited}
    approximation : {"auto", "exact", "state-space", "vecchia"}
        "exact" computes with all of K. "state-space" takes the readings in order of time, for kernels of one input that
        are Markov (Exponential, Matern32, Matern52, Constant, Linear, their sums and products): as exact, in time and
        memory that grow as the number of readings. Periodic is accurate to 1e-12 of its variance in it. "vecchia"
        conditions each reading on its nearest neighbours: an approximation, for any kernel and inputs, whose cost grows
        in the same way. "auto" has all of K for up to 1,500 readings, then states where the kernel is Markov, and
        nearest neighbours where it is not; models that have no use for all of K change over at 400.
    neighbors : int
        How many neighbours that is; with one less than there are readings it is exact. (Readings that are flagged as
        outliers are no neighbours.)
    max_time : float, optional
        Seconds after which the search ends with the best parameters so far, and a TimeLimitWarning.
    verbose : bool
        Show where the search stands: on a terminal, or as log records of "biasgp".

    Attributes
    ----------
    {inherited}
    """

    _: KW_ONLY
    approximation: str = "auto"
    neighbors: int = 20
    max_time: float | None = None
    verbose: bool = False
    noise_model = CONSTANT

    _inverse_up_to = strategy.DENSE_UP_TO  # readings up to which "auto" keeps to all of K, where states would do

    def _strategy(self, problem: Problem, *, inverse: bool = False) -> Strategy:
        names = ["auto", *(each.name for each in strategy.APPROXIMATIONS)]
        check_choice("approximation", self.approximation, names)
        neighbours = check_positive_integer("neighbors", self.neighbors)
        case = strategy.Case(problem.kernel, problem.X, strategy.EXACT_UP_TO if inverse else self._inverse_up_to)
        chosen = strategy.choose_strategy(self.approximation, case, neighbours, self._make_pool)
        most = max((len(column.labels) for column in self.category_columns_), default=0)
        needed = min(_NEIGHBOURS_PER_LABEL * most, len(problem) - 1)
        if isinstance(chosen, strategy.NearestNeighbours) and neighbours < needed:
            raise ValueError(
                f"neighbors={neighbours} is too few for {most} labels: a reading's neighbours must be of its own "
                f"sensor and of others. Use neighbors={2 * needed}."
            )
        return chosen

    def noise_std(self, X: ArrayLike) -> Array:
        """Standard deviation of the noise at the rows of X, in y's unit: of readings that are not outliers.

        The same everywhere unless the noise was found, or is said, to vary (`noise_model`).
        """
        check_is_fitted(self)
        array = check_query(self, X)
        weights, each = self._of_members(lambda member: member._own_noise_std(array))
        return np.sqrt(mixed(weights, [std**2 for std in each]))

    def _own_noise_std(self, X: Array) -> Array:
        variance = np.broadcast_to(self._noise_at(X), len(X))
        return np.array([self._scaling.spread(each) for each in variance])

    def _checked_noise_model(self, problem: Problem) -> str:
        """The noise model that is asked for, if it can be had; one σ² where readings are censored."""
        asked = self.noise_model
        check_choice("noise_model", asked, NOISE_MODELS)
        if asked == PROPORTIONAL and problem.zero is None:
            raise ValueError(
                "noise_model='proportional' is about the response as it is, and it is transformed. Use "
                "noise_model='auto', or response='identity'. (Under a logarithm, proportional noise is constant.)"
            )
        return asked if problem.censored is None else CONSTANT

    def _watching(self) -> Any:
        max_time = None if self.max_time is None else check_number("max_time", self.max_time, above=0.0)
        return watching(max_time, self.verbose)

    def stream(self, *, lag: int = 20, memory: int = KEPT, late: str = "raise") -> Stream:
        """The model as a filter that goes on from the last readings of the fit, one new reading after the other.

        For GaussianGP and SparseBiasGP with a kernel of time: Exponential, Matern32, Matern52, Periodic, Constant,
        Linear, their sums and products.

        Parameters
        ----------
        lag : int
            Readings after which the verdict on a reading is settled. Until then those that follow revise it: the first
            reading of a step looks like an outlier.
        memory : int
            Readings that are kept for `Stream.refit`, the last ones.
        late : {"raise", "ignore"}
            What becomes of a reading that is older than the settled ones: an error, or it is counted and left out.
        """
        from biasgp.stream import Stream

        check_is_fitted(self)
        return Stream.of(self, lag=lag, memory=memory, late=late)
