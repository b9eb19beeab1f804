"""A fitted model that goes on: `model.stream()`, then `push` readings as they come.

Each reading is judged when it comes, and again with every reading after it, until its verdict is settled after a fixed
lag. Time and memory per reading are constant.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from biasgp._typing import Array, Mask
from biasgp.covariance import markov_live as core
from biasgp.covariance.markov import MarkovPosterior
from biasgp.covariance.posterior import PartialPosterior
from biasgp.covariance.vecchia_posterior import VecchiaPosterior
from biasgp.estimators import GaussianGP, SparseBiasGP
from biasgp.estimators.base import LargeGP
from biasgp.estimators.going_on import LastReadings, unfitted
from biasgp.estimators.validation import (
    LARGEST,
    MIN_READINGS,
    InputColumns,
    check_choice,
    check_positive_integer,
    check_values_of_verdict,
    column_names,
)
from biasgp.messages import BiasGPWarning
from biasgp.models.episodes import SHIFT, STEP
from biasgp.models.live import Kind, LiveFilter, LiveReadings, Memory, Pushed
from biasgp.persistence import ModelFileError, read_model, save_model
from biasgp.response import ScaledResponse, Scaling
from biasgp.staging import stage

__all__ = ["Stream", "Verdicts", "load"]

LATE = ("raise", "ignore")
LONGEST_LAG = 1000
"""Readings: the cost of each grows with the lag."""
_LARGEST_MEMORY = 1_000_000
"""Readings that a stream keeps at most."""


@dataclass(frozen=True)
class _Units:
    """How the user's units become the model's, and back."""

    scaling: Scaling
    noise: float
    columns: InputColumns
    time: int

    def readings(self, pushed: Pushed) -> LiveReadings:
        """Readings in the model's units."""
        numbers, X, y, known, verdict = pushed
        there = y == y
        if there.all():
            response, noise = ScaledResponse(y, self.scaling), np.full(len(y), self.noise)
        else:
            response = ScaledResponse(np.where(there, y, self.scaling.backward(np.zeros(1))[0]), self.scaling)
            noise = np.where(there, self.noise, np.inf)
        if known.any():
            noise += response.variances(known)
        return LiveReadings(numbers, y, X, response.z, noise, verdict)

    def instants(self, seconds: Array) -> NDArray[Any]:
        """Times as the user gives them; those of a zone in UTC."""
        of_column = next((each for each in self.columns.times if each.index == self.time), None)
        if of_column is None:
            return seconds
        there = np.isfinite(seconds)
        return np.where(there, of_column.instants(np.where(there, seconds, 0.0)), np.array("NaT", "M8[us]"))


class Verdicts:
    """What is known of some readings, in the user's units: one value per reading in each attribute.

    Attributes
    ----------
    number : ndarray of int
        Which reading it is, from 0 for the first that was pushed.
    time, y : ndarray
        When it was read (times with a zone are in UTC), and its value.
    mean, std : ndarray of float
        Of f there: given the readings up to it, or, for settled ones, up to the lag after it.
    outlier_probability : ndarray of float
        That it is an outlier; NaN for a missing reading. Readings in an episode are outliers only beside that.
    outlier : ndarray of bool
        Whether that is more likely than not.
    bias, bias_std : ndarray of float
        Its bias and the standard deviation of that, the bias of an episode included.
    episode : ndarray of str
        "shift" where it belongs to a bias that lasts, else "".
    episode_start : ndarray
        The time of the first reading of that; NaN (NaT) where there is none.
    settled : Verdicts
        Of `Stream.push`: final verdicts on those readings, of this and of earlier calls, whose lag has passed now.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp import GaussianGP
    >>> from biasgp.kernels import Matern32
    >>> t = np.arange(60.0)
    >>> y = np.sin(t / 10) + 0.1 * np.random.default_rng(0).standard_normal(60)
    >>> stream = GaussianGP(kernel=Matern32()).fit(t[:50, None], y[:50]).stream(lag=4)
    >>> verdicts = stream.push(t[50:], y[50:])
    >>> verdicts.number.tolist() == list(range(10)), verdicts.settled.number.tolist()
    (True, [0, 1, 2, 3, 4, 5])
    """

    def __init__(self, values: Array, units: _Units, settled: Verdicts | None = None) -> None:
        self._values, self._units = values, units
        self.settled = self if settled is None else settled

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        outliers, lasting = int(self.outlier.sum()), int((self.episode != "").sum())
        return f"<Verdicts: {len(self)} readings, {outliers} outliers, {lasting} in episodes>"

    @cached_property
    def _of_f(self) -> tuple[Array, Array]:
        return self._units.scaling.moments(self._values[:, core.MEAN], self._values[:, core.VARIANCE])

    @property
    def number(self) -> NDArray[np.int64]:
        return self._values[:, core.WHICH].astype(np.int64)

    @property
    def time(self) -> NDArray[Any]:
        return self._units.instants(self._values[:, core.AT])

    @property
    def y(self) -> Array:
        return self._values[:, core.RAW]

    @property
    def mean(self) -> Array:
        return self._of_f[0]

    @property
    def std(self) -> Array:
        return self._of_f[1]

    @property
    def outlier_probability(self) -> Array:
        return np.asarray(expit(self._values[:, core.LOG_ODDS]))

    @property
    def outlier(self) -> Mask:
        return np.asarray(self._values[:, core.LOG_ODDS] > 0.0)

    @property
    def _response(self) -> ScaledResponse:
        return ScaledResponse(self.y, self._units.scaling)

    @property
    def bias(self) -> Array:
        return self._response.bias(self._values[:, core.BIAS])

    @property
    def bias_std(self) -> Array:
        return self._response.bias_std(self._values[:, core.BIAS], np.sqrt(self._values[:, core.BIAS_VARIANCE]))

    @property
    def episode(self) -> NDArray[np.str_]:
        return np.where(self._values[:, core.LASTING] > 0.0, SHIFT, "")

    @property
    def episode_start(self) -> NDArray[Any]:
        return self._units.instants(self._values[:, core.BEGAN])


class _Learnt(NamedTuple):
    """A model of the last readings, these, and what was pending then."""

    model: LargeGP
    readings: Pushed
    pending: Array


class Stream:
    """A fitted model that goes on, from `model.stream()`.

    Readings within the lag may come in any order. One that is older than the settled readings is refused, or counted
    and left out (`late="ignore"`). A second reading at the same time is a reading like any other. A missing one (NaN)
    is predicted, and nothing learns from it; an infinite one is refused. A gap in time costs nothing: the uncertainty
    of f grows over it. What is refused changes nothing.

    Attributes
    ----------
    lag : int
        Readings after which a verdict is settled.
    n_readings : int
        Readings that were pushed, those left out included.
    n_ignored : int
        Readings that were left out because they came too late.
    about : dict
        Notes of the user, of what JSON can hold, which are saved with the stream: where in a file it stands, say.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp import SparseBiasGP
    >>> from biasgp.kernels import Matern32
    >>> rng = np.random.default_rng(0)
    >>> t = np.arange(230.0)
    >>> y = np.sin(t / 20) + 0.1 * rng.standard_normal(230)
    >>> y[[50, 90, 220]] += 3.0
    >>> model = SparseBiasGP(kernel=Matern32()).fit(t[:200, None], y[:200])
    >>> stream = model.stream(lag=8)
    >>> verdicts = stream.push(t[200:], y[200:])
    >>> verdicts.number[verdicts.outlier].tolist()
    [20]
    >>> len(verdicts.settled)
    22
    """

    _learning: Future[_Learnt] | None = None

    def __init__(self, live: LiveFilter, units: _Units, estimator: LargeGP, memory: Memory, late: str) -> None:
        self._live, self._units, self._estimator, self._memory, self.late = live, units, estimator, memory, late
        self.n_readings, self.n_ignored = 0, 0
        self.about: dict[str, Any] = {}

    @classmethod
    def of(cls, model: LargeGP, *, lag: int, memory: int, late: str) -> Self:
        """As `model.stream` does."""
        check_choice("late", late, LATE)
        if check_positive_integer("lag", lag) > LONGEST_LAG:
            raise ValueError(f"lag must be at most {LONGEST_LAG} readings, got {lag}.")
        least = max(lag, MIN_READINGS)
        if not least <= check_positive_integer("memory", memory) <= _LARGEST_MEMORY:
            raise ValueError(f"memory must be {least} to {_LARGEST_MEMORY} readings, got {memory}.")
        last = _last_of(model)
        columns = InputColumns(last.X.shape[1], tuple(model.time_columns_), _names_of(model))
        kept = Memory(memory, last.X.shape[1])
        numbers = np.arange(-len(last.y), 0, dtype=np.int64)
        kept.add(_as_pushed(model, last, numbers))
        live, units = _begun(model, numbers, columns, lag, min(lag, len(last.y)))
        return cls(live, units, unfitted(model, live.column), kept, late)

    @property
    def lag(self) -> int:
        return self._live.lag

    @property
    def last_time(self) -> Any:
        """The time of the last reading, as `Verdicts.time` has it."""
        return self._units.instants(np.array([self._live.last_time]))[0]

    def push(
        self, t: Any, y: ArrayLike, noise_variance: ArrayLike | None = None, verdict: ArrayLike | None = None
    ) -> Verdicts:
        """Take in one reading or many, and say what is known of each, with what is settled now in `.settled`.

        Parameters
        ----------
        t : number, time or array-like
            When they were read: in the unit, or of the kind of times, of the fit. A table with the columns of the fit
            where that had several. They need not be in order; verdicts are in the order given.
        y : float or array-like
            Readings; NaN where one is missing.
        noise_variance : float or array-like, optional
            Known variance of each reading's error, as in fit.
        verdict : float or array-like, optional
            Whether each is good (0), bad (1) or open (NaN), as in fit. A good reading ends an episode.
        """
        self._go_on_with_what_was_learnt()
        X, values, known = self._checked(t, y, noise_variance)
        said = self._checked_verdict(verdict, len(X))
        times = self._live.times(X)
        too_late = times < self._live.settled_time
        any_late = bool(too_late.any())
        if self.late == "raise" and any_late:
            row = int(np.flatnonzero(too_late)[0])
            at, settled = self._units.instants(np.array([times[row], self._live.settled_time]))
            raise ValueError(
                f"Row {row}: the reading at {at} is older than {settled}, up to which readings are settled (the lag is "
                f"{self.lag} readings). Leave it out, or make the stream with a larger lag or late='ignore'."
            )
        numbers = np.arange(self.n_readings, self.n_readings + len(X), dtype=np.int64)
        pushed = Pushed(numbers, X, values, known, said)
        found, settled = self._live.push(self._units.readings(pushed))
        self._memory.add(pushed.rows(~too_late) if any_late else pushed)
        self.n_readings += len(X)
        self.n_ignored += int(too_late.sum())
        if len(settled) and settled[:, core.WHICH].min() < 0.0:
            settled = settled[settled[:, core.WHICH] >= 0.0]  # those of the fit were judged there
        return Verdicts(found, self._units, Verdicts(settled, self._units))

    def _checked(self, t: Any, y: Any, noise_variance: Any) -> tuple[Array, Array, Array]:
        """X, y and known variances as arrays. One plain number is checked at once: streams are made of those."""
        plain = isinstance(t, float) and isinstance(y, float) and noise_variance is None
        if plain and self._units.columns.plain and abs(t) <= LARGEST and (y != y or abs(y) <= LARGEST):
            return np.array([[t]]), np.array([y]), np.zeros(1)
        X = self._units.columns.check(t)
        return X, *self._units.columns.check_coming(y, noise_variance, len(X))

    def _checked_verdict(self, verdict: Any, n: int) -> Array:
        """NaN where nothing is said."""
        if verdict is None:
            return np.full(n, np.nan)
        if not self._live.kinds:
            raise ValueError("verdict needs a stream of a SparseBiasGP: to a GaussianGP no reading is an outlier.")
        return check_values_of_verdict(np.atleast_1d(np.asarray(verdict)), n)

    def judge(self, number: ArrayLike, verdict: ArrayLike) -> Self:
        """Say of readings that came before whether they are good (0), bad (1) or open again (NaN).

        Those that are pending are held so at once, and the others of the window are judged anew; of those that are
        settled, `refit` knows it.

        Parameters
        ----------
        number : int or array-like of int
            Which readings, as `Verdicts.number` has them.
        verdict : float or array-like
            One for each.
        """
        self._go_on_with_what_was_learnt()
        numbers = np.atleast_1d(np.asarray(number))
        if numbers.dtype.kind not in "iu" or numbers.ndim != 1:
            raise ValueError(f"number must be whole numbers, as Verdicts.number has them; got {number!r}.")
        said = self._checked_verdict(verdict, len(numbers))
        here = np.isin(numbers, self._memory.readings().number)
        if not here.all():
            raise ValueError(
                f"Reading {numbers[~here][0]} is not among the last {self._memory.count} that the stream remembers. "
                "Make the stream with a larger memory."
            )
        self._memory.judge(numbers, said)
        self._live.judge(numbers, said)
        return self

    def pending(self) -> Verdicts:
        """What is known by now of the readings that are not settled."""
        found = self._live.open_verdicts()
        return Verdicts(found[found[:, core.WHICH] >= 0.0], self._units)

    def refit(self, *, background: bool = False) -> Self:
        """Learn the parameters again, from the last readings (at most `memory` of them, those of the fit included).

        Settled verdicts stay; those that are pending are made anew. With `background` it returns at once: a thread
        learns while readings are pushed, the first `push` after it has ended goes on with the new parameters, and
        `refitting` says whether it is under way. One at a time: until then, another call changes nothing. Where the
        fit fails, `push` warns and goes on with what it had. Saving does not wait for it, and does not keep it.
        """
        if self.refitting:
            return self
        last, pending, estimator = self._memory.readings(), self._live.open_verdicts(), deepcopy(self._estimator)
        used = last.rows(last.y == last.y)
        told = {} if np.isnan(used.verdict).all() else {"verdict": used.verdict}

        def learn() -> _Learnt:
            return _Learnt(estimator.fit(used.X, used.y, used.known, **told), last, pending)

        if background:
            pool = ThreadPoolExecutor(1, "biasgp-refit")
            self._learning = pool.submit(learn)
            pool.shutdown(wait=False)  # the thread ends with the fit
        else:
            self._go_on_with(learn())
        return self

    @property
    def refitting(self) -> bool:
        """Whether parameters are being learnt, or were and the next `push` goes on with them."""
        return self._learning is not None

    def _go_on_with_what_was_learnt(self) -> None:
        """If it is at hand."""
        learning = self._learning
        if learning is None or not learning.done():
            return
        self._learning = None
        error = learning.exception()
        if error is None:
            self._go_on_with(learning.result())
        else:
            text = f"The parameters could not be learnt again, and the stream goes on as it was: {error}"
            warnings.warn(BiasGPWarning(text), stacklevel=3)

    def _go_on_with(self, learnt: _Learnt) -> None:
        """New parameters; readings that have come since they were begun to be learnt are taken in once more."""
        model, last, pending = learnt
        there = last.y == last.y
        numbers = last.number[there][_last_of(model).rows]
        n_open = int(np.isfinite(pending[:, core.RAW]).sum())
        live, units = _begun(model, numbers, self._units.columns, self.lag, n_open)
        now = self._memory.readings()
        missing = last.rows(~there & np.isin(last.number, pending[:, core.WHICH]))
        for again in (missing, now.rows(now.number > last.number.max())):
            live.push(units.readings(again))
        said = now.verdict == now.verdict
        if said.any():  # perhaps since the fit began
            live.judge(now.number[said], now.verdict[said])
        self._live, self._units, self._estimator = live, units, unfitted(model, live.column)

    def __getstate__(self) -> dict[str, Any]:
        """Without a fit that is under way."""
        return {name: value for name, value in vars(self).items() if name != "_learning"}

    def save(self, path: str | Path) -> None:
        """Write the stream to a file, which is whole or not there; `load` reads it."""
        target = Path(path)
        with stage(target) as folder:
            save_model(folder / "stream", self)
            (folder / "stream").replace(target)


def load(path: str | Path) -> Stream:
    """The stream of a file made by `Stream.save`, which goes on where that was; a ModelFileError says what is wrong.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from biasgp import GaussianGP
    >>> from biasgp.kernels import Matern32
    >>> from biasgp.stream import load
    >>> t = np.arange(60.0)
    >>> y = np.sin(t / 10) + 0.1 * np.random.default_rng(0).standard_normal(60)
    >>> stream = GaussianGP(kernel=Matern32()).fit(t[:50, None], y[:50]).stream(lag=4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stream.save(Path(folder) / "stream.skops")
    ...     again = load(Path(folder) / "stream.skops")
    >>> len(again.push(t[50:], y[50:]))
    10
    """
    found: Stream = read_model(path, check=_check_stream).estimator
    return found


def _last_of(model: LargeGP) -> LastReadings:
    """The last readings of a fit, if a stream can go on from it."""
    if not isinstance(model, GaussianGP | SparseBiasGP):
        raise TypeError(f"{type(model).__name__} has no stream: use SparseBiasGP, or GaussianGP for clean readings.")
    kernel, last = model._posterior.kernel, getattr(model, "_last", None)
    if kernel.state_space(model.n_features_in_) is None:
        raise ValueError(
            f"A stream needs a kernel of time that is a finite state, and {model.kernel_!r} has none. These have: "
            "Exponential, Matern32, Matern52, Periodic, Constant and Linear, their sums and products. Instead of "
            "SquaredExponential take Matern52, which is nearly as smooth, and fit again."
        )
    if getattr(model, "_censored", None) is not None:
        raise ValueError("Some readings of the fit are censored: a stream cannot go on from limits. Fit without them.")
    if not isinstance(last, LastReadings):
        raise ValueError("The model is of an earlier version, which kept no readings to go on from. Fit again.")
    if model._scaling.constant:
        raise ValueError("All readings of the fit are equal: a stream cannot tell what is unusual. Fit to others.")
    return last


def _names_of(model: LargeGP) -> tuple[str, ...] | None:
    names = column_names(model)
    return None if names is None else tuple(names)


def _begun(
    model: LargeGP, numbers: NDArray[np.int64], columns: InputColumns, lag: int, n_open: int
) -> tuple[LiveFilter, _Units]:
    """The filter after the last readings of a fit, which have these numbers, with so many of them open."""
    last = _last_of(model)
    kinds: tuple[Kind, ...] = ()
    if isinstance(model, SparseBiasGP):
        kinds = Kind.all_of(model.groups_, model.replaced_, len(model.outlier_mask_))
    live = LiveFilter(model._posterior.kernel, last.X.shape[1], kinds, lag)
    units = _Units(model._scaling, model._scaled_noise_variance, columns, live.column)
    readings = units.readings(_as_pushed(model, last, numbers))
    cut, step = len(last.y) - n_open, _open_step(model, last)
    if step is not None:
        cut = min(cut, step[0])
    live.begin_after(*_before(model, last, readings, cut))
    if step is not None:
        live.begin_episode(step[1], step[2])
    live.push(readings.rows(slice(cut, None)))
    return live, units


def _as_pushed(model: LargeGP, last: LastReadings, numbers: NDArray[np.int64]) -> Pushed:
    """The last readings of a fit, with what was said of them there."""
    verdict = model.verdict_[last.rows] if isinstance(model, SparseBiasGP) else np.full(len(last.y), np.nan)
    return Pushed(numbers, last.X, last.y, last.known, verdict)


def _open_step(model: LargeGP, last: LastReadings) -> tuple[int, float, float] | None:
    """Of a step that lasts to the end of the fit: its first place among the last readings, its start, and V."""
    for episode in getattr(model, "episodes_", ()):
        inside = np.isin(last.rows, episode.rows)
        if episode.kind == STEP and inside.any():
            first = int(np.flatnonzero(inside)[0])
            z = model._scaling.forward(np.array([last.y[inside].mean(), last.y[inside].mean() - episode.bias]))
            column = model._posterior.kernel.state_space(last.X.shape[1]).column or 0
            return first, float(last.X[first, column]), float((z[0] - z[1]) ** 2) or 1.0
    return None


def _before(model: LargeGP, last: LastReadings, readings: LiveReadings, cut: int) -> tuple[Array, Array, Array]:
    """X, y and noise of the readings that come before a place among the last, with the labels of the fit."""
    posterior: Any = model._posterior
    kept = getattr(posterior, "kept", None)
    if isinstance(posterior, PartialPosterior):
        posterior = posterior.posterior
    if isinstance(posterior, MarkovPosterior | VecchiaPosterior):
        rows = np.arange(len(posterior.X)) if kept is None else np.flatnonzero(kept)
        mine = ~np.isin(rows, last.rows[cut:])
        return posterior.X[mine], posterior.residual[mine], posterior.noise[mine]
    out = np.zeros(len(last.y), dtype=bool)
    if isinstance(model, SparseBiasGP):
        out = model.outlier_mask_[last.rows].copy()
        out |= np.isin(last.rows, [row for episode in model.episodes_ for row in episode.rows])
    noise = np.where(out, np.inf, readings.noise)
    return readings.X[:cut], readings.z[:cut], noise[:cut]


def _check_stream(thing: Any) -> None:
    """Refuse what is no stream, or one whose parts do not fit together; its next prediction must be a number."""
    if not isinstance(thing, Stream):
        raise ModelFileError(f"holds a {type(thing).__name__}, not a stream. Make one with model.stream().")
    live, units, memory = thing._live, thing._units, thing._memory
    kinds = isinstance(live, LiveFilter) and isinstance(units, _Units) and isinstance(memory, Memory)
    kinds = kinds and isinstance(thing._estimator, GaussianGP | SparseBiasGP) and isinstance(thing.about, Mapping)
    kinds = kinds and thing.late in LATE and type(thing.n_readings) is int and type(thing.n_ignored) is int
    if not kinds or not live.is_sound() or live.width != units.columns.width or memory.width != live.width:
        raise ModelFileError("is damaged or forged: its parts do not belong together. Make the stream again.")
    trial = deepcopy(thing)
    at = trial._live.last_time
    X = np.full((1, live.width), at if at == at else 0.0)
    nothing = np.full(1, np.nan)
    found = trial._live.push(units.readings(Pushed(np.zeros(1, dtype=np.int64), X, nothing, np.zeros(1), nothing)))[0]
    mean, std = units.scaling.moments(found[:, core.MEAN], found[:, core.VARIANCE])
    if not (np.isfinite(mean).all() and np.isfinite(std).all()):
        raise ModelFileError("is damaged or forged: its predictions are not numbers. Make the stream again.")
