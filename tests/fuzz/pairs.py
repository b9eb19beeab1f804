"""Pairs of a data set and an estimator: each is refused in words, or fitted with results that hold together.

python tests/fuzz/pairs.py SEED INDEX shows one pair and what is wrong with it; with a NAME after these it keeps the
readings as tests/fuzz/kept/NAME.csv, for a case of that name.
"""

from __future__ import annotations

import pickle
import sys
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import estimators
import numpy as np
import pandas as pd
from sklearn.base import clone

from biasgp import BiasGPWarning, SparseBiasGP
from biasgp.kernels import Kernel

LARGEST = 1e100
"""What the estimators accept in X and y."""
FEWEST_READINGS = 3
FURTHEST = 1e3
"""How far from the median a prediction at a reading may lie, in ranges of y: no model has reason to go there."""
SMALLEST = 1e-100
"""The least that a column of X, or y, may vary by, if it varies."""
FARTHEST = 1e60
"""Robust standard deviations from the median up to which readings are accepted."""
LEVELS = (0.001, 0.1, 0.5, 0.9, 0.999)
KEPT = Path(__file__).parent / "kept"
LOOKED_AT_TWICE = 0.15
"""Share of the pairs that are fitted, cloned and pickled a second time."""


@dataclass(frozen=True)
class Pair:
    """A data set and an estimator to be fitted to it."""

    data: datasets.Dataset
    estimator: Any
    twice: bool = False

    @property
    def words(self) -> str:
        return f"{_short(self.estimator)} on {self.data.words}"

    @property
    def X(self) -> np.ndarray:
        return np.asarray(self.data.X, dtype=float)

    @property
    def y(self) -> np.ndarray:
        return np.asarray(self.data.y, dtype=float)


class Wrong(AssertionError):
    """A result that does not hold together."""


def pair(seed: int, index: int) -> Pair:
    """The pair of that number: the same one on every machine."""
    rng = np.random.default_rng([seed, index])
    data = datasets.draw(rng)
    return Pair(data, estimators.draw(rng, np.asarray(data.X).shape[1]), bool(rng.random() < LOOKED_AT_TWICE))


def run(count: int, seed: int) -> list[str]:
    """What is wrong with the first `count` pairs of a seed; nothing, it is to be hoped."""
    found = []
    for index in range(count):
        drawn = pair(seed, index)
        wrong = fault(drawn)
        if wrong:
            found.append(f"{wrong}\n    {drawn.words}\n    python tests/fuzz/pairs.py {seed} {index}")
    return found


def tally(count: int, seed: int) -> Counter[str]:
    """How many pairs there are of each estimator."""
    return Counter(type(pair(seed, index).estimator).__name__ for index in range(count))


def fault(drawn: Pair) -> str:
    """What is wrong with a pair, in a line; empty if nothing is."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", BiasGPWarning)
        try:
            _check(drawn)
        except Exception as error:
            return f"{type(error).__name__}: {error} ({_place(error)})"
    return ""


@np.errstate(invalid="ignore", over="ignore")  # y may be infinite, which is to be refused
def refusals(drawn: Pair) -> list[str]:
    """What the estimator may say of a pair that it cannot fit, any of these; none where it has to fit."""
    options = drawn.estimator.get_params()
    by_hand = any(options.get(name) is not None for name in ("lambdas", "k", "lam"))
    spread = _robust_spread(drawn.y)
    largest_noise = 0.0 if drawn.data.noise_variance is None else np.max(drawn.data.noise_variance)
    exact_only = options.get("lam") == 0.0 or (options.get("tuning") == "paper" and not by_hand)
    reasons = {
        "minimum of 3 is required": len(drawn.y) < FEWEST_READINGS,
        "y contains": not np.all(np.abs(drawn.y) <= LARGEST),
        "X, column": not np.all(np.abs(drawn.X) <= LARGEST) or _hardly_varies(drawn.X),
        "needs all of K": options.get("approximation") in ("vecchia", "state-space") and exact_only,
        "is a finite state": options.get("approximation") == "state-space" and not _has_a_state(drawn),
        "y varies by": 8.0 * np.finfo(float).eps * abs(np.median(drawn.y)) < spread < SMALLEST,
        "noise_variance must be": largest_noise > LARGEST**2,
        "times as far from the median": bool(np.any(np.abs(drawn.y - np.median(drawn.y)) > FARTHEST * spread)),
    }
    return [words for words, holds in reasons.items() if holds]


def _has_a_state(drawn: Pair) -> bool:
    """Whether the kernel has a state-space form; a kernel that data do not fit is refused for that."""
    kernel = drawn.estimator.kernel
    if not isinstance(kernel, Kernel):
        return False  # the default is the squared exponential; scikit-learn's have none
    X = np.atleast_2d(np.asarray(drawn.X, dtype=float))
    return kernel.bind(np.nan_to_num(X)).state_space(X.shape[1]) is not None


def _robust_spread(y: np.ndarray) -> float:
    """By the median absolute deviation, or the mean one where most of y is one value."""
    deviation = np.abs(y - np.median(y))
    return float(1.4826 * np.median(deviation) or np.mean(deviation))


def _hardly_varies(X: np.ndarray) -> bool:
    ranges = np.ptp(X, axis=0)
    return bool(np.any((ranges > 0.0) & (ranges < SMALLEST)))


def _fixes_a_variance(kernel: Any) -> bool:
    parts = [part for part in (getattr(kernel, "left", None), getattr(kernel, "right", None)) if part is not None]
    return "variance" in getattr(kernel, "held", ()) or any(map(_fixes_a_variance, parts))


def _check(drawn: Pair) -> None:
    expected = refusals(drawn)
    before = pickle.dumps((drawn.data.X, drawn.data.y, drawn.data.noise_variance))
    try:
        model = _fit(drawn)
    except ValueError as error:
        if any(words in str(error) for words in expected):
            return
        # Whether a fixed variance suits y depends on the scale of y's transform, which is the estimator's to find.
        if "the variance is fixed at" in str(error) and _fixes_a_variance(drawn.estimator.kernel):
            return
        raise
    _hold(not expected, f"fitted, but should have been refused: {expected}")
    _hold(before == pickle.dumps((drawn.data.X, drawn.data.y, drawn.data.noise_variance)), "the input was changed")
    points = _points(drawn)
    _check_attributes(model, drawn)
    _check_predictions(model, drawn, points)
    _check_other_answers(model, drawn, points)
    if drawn.twice:
        _check_again(model, drawn, points)


def _fit(drawn: Pair) -> Any:
    return clone(drawn.estimator).fit(drawn.data.X, drawn.data.y, drawn.data.noise_variance)


def _hold(condition: Any, message: str) -> None:
    if not condition:
        raise Wrong(message)


def _hold_finite(values: Any, shape: tuple[int, ...], what: str) -> None:
    array = np.asarray(values)
    _hold(array.shape == shape, f"{what} has shape {array.shape}, not {shape}")
    bad = np.flatnonzero(~np.isfinite(array).ravel())
    _hold(len(bad) == 0, f"{what} is {array.ravel()[bad[:1]]} at {bad[:1]} (of {len(bad)})")


def _points(drawn: Pair) -> Any:
    """The readings' own inputs, some between them, and one beyond; a frame where X is one."""
    X = drawn.X
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, len(X), (2, 4))
    share = rng.random((4, 1))
    beyond = np.clip(X.max(axis=0) + np.ptp(X, axis=0), -LARGEST, LARGEST)
    points = np.vstack([X, share * X[first] + (1.0 - share) * X[second], beyond])
    frame = drawn.data.X
    return pd.DataFrame(points, columns=frame.columns) if isinstance(frame, pd.DataFrame) else points


def _check_attributes(model: Any, drawn: Pair) -> None:
    n = len(drawn.y)
    _hold(np.isfinite(model.noise_variance_) and model.noise_variance_ >= 0.0, f"noise is {model.noise_variance_}")
    for name in ("bias_", "bias_std_", "weights_", "outlier_probability_", "bias_variance_"):
        if hasattr(model, name):
            _hold_finite(getattr(model, name), (n,), name)
    if hasattr(model, "outlier_mask_"):
        _hold(model.outlier_mask_.dtype == np.bool_ and model.outlier_mask_.shape == (n,), "outlier_mask_ is no mask")
    if hasattr(model, "outlier_probability_"):
        _hold(np.all((model.outlier_probability_ >= 0.0) & (model.outlier_probability_ <= 1.0)), "odd probabilities")
    for name in ("log_marginal_likelihood_", "log_evidence_", "objective_", "scale_", "degrees_of_freedom_"):
        if hasattr(model, name):
            _hold(np.isfinite(getattr(model, name)), f"{name} is {getattr(model, name)}")
    if isinstance(model.kernel_, Kernel):
        _hold(np.all(np.isfinite(model.kernel_.theta)), f"kernel_ is {model.kernel_}")


def _check_predictions(model: Any, drawn: Pair, points: Any) -> None:
    y, n, m = drawn.y, len(drawn.y), len(points)
    mean, std = model.predict(points, return_std=True)
    _hold_finite(mean, (m,), "mean")
    _hold_finite(std, (m,), "std")
    _hold_finite(model.predict(points), (m,), "mean alone")
    # Readings whose errors are known to be larger than all their differences leave f to its prior.
    error = 0.0 if drawn.data.noise_variance is None else float(np.sqrt(np.min(drawn.data.noise_variance)))
    far = FURTHEST * max(float(np.ptp(y)), error) + 1e-6 * np.abs(y).max()
    worst = int(np.argmax(np.abs(mean[:n] - np.median(y))))
    _hold(
        abs(mean[worst] - np.median(y)) <= far,
        f"mean {mean[worst]:g} at reading {worst}, for y from {y.min():g} to {y.max():g}",
    )
    with_noise = model.predict(points, return_std=True, include_noise=True)[1]
    _hold_finite(with_noise, (m,), "std with noise")
    _hold(np.all(with_noise > 0.0), f"std with noise is {with_noise.min():g}, noise {model.noise_variance_:g}")
    _hold(np.all(with_noise >= std * (1.0 - 1e-9)), "noise lowers the std")
    _check_std_of_f(model, drawn, std, points)
    _check_covariance(model, std, points)


def _check_std_of_f(model: Any, drawn: Pair, std: np.ndarray, points: Any) -> None:
    """f is uncertain wherever its prior is, and at readings as far as their noise leaves it so."""
    prior = model._posterior.kernel.diag(np.asarray(points))
    seen = model._scaled_noise_variance > 1e-6 * prior
    wrong = np.flatnonzero((std <= 0.0) & seen & (prior > 1e-12))
    _hold(len(wrong) == 0, f"std of f is 0 at points {wrong[:5]}, noise {model._scaled_noise_variance:g}")


def _check_covariance(model: Any, std: np.ndarray, points: Any) -> None:
    mean, covariance = model.predict(points, return_cov=True)
    m = len(points)
    _hold_finite(mean, (m,), "mean beside the covariance")
    _hold_finite(covariance, (m, m), "covariance")
    # Two ways to the same variance: each loses digits of the prior's where readings leave little of it.
    room = 1e-6 * max(np.abs(covariance).max(), 1e-300)
    _hold(np.all(np.abs(covariance - covariance.T) <= room), "covariance is not symmetric")
    _hold(np.all(covariance.diagonal() >= -room), "covariance has a negative diagonal")


def _check_other_answers(model: Any, drawn: Pair, points: Any) -> None:
    m = len(points)
    for include_noise in (False, True):
        quantiles = model.predict_quantiles(points, LEVELS, include_noise=include_noise)
        _hold_finite(quantiles, (m, len(LEVELS)), "quantiles")
        _hold(np.all(np.diff(quantiles, axis=1) >= 0.0), "quantiles are out of order")
    _hold_finite(model.sample_y(points, 3, include_noise=True), (m, 3), "sample of readings")
    _hold_finite(model.sample_y(points, 2), (m, 2), "sample of f")
    _hold_finite(model.log_predictive_density(drawn.data.X, drawn.data.y), (len(drawn.y),), "log density")
    if isinstance(model, SparseBiasGP):
        probability = model.outlier_probability(drawn.data.X, drawn.data.y)
        _hold_finite(probability, (len(drawn.y),), "probability of a new reading")
        _hold(np.all((probability >= 0.0) & (probability <= 1.0)), "odd probabilities of new readings")


def _check_again(model: Any, drawn: Pair, points: Any) -> None:
    """A clone has the same options; a pickle and, without a time limit, a second fit predict the same to the bit."""
    _hold(str(clone(model).get_params()) == str(drawn.estimator.get_params()), "a clone has other options")
    expected = np.concatenate(model.predict(points, return_std=True))
    pickled = np.concatenate(pickle.loads(pickle.dumps(model)).predict(points, return_std=True))
    _hold(np.array_equal(expected, pickled), "a pickle predicts otherwise")
    if drawn.estimator.get_params().get("max_time") is None:
        again = np.concatenate(_fit(drawn).predict(points, return_std=True))
        _hold(np.array_equal(expected, again), "a second fit predicts otherwise")


def _short(estimator: Any) -> str:
    """Class and options that differ from the default, on one line."""
    defaults = type(estimator)().get_params(deep=False)
    given = {k: v for k, v in estimator.get_params(deep=False).items() if repr(v) != repr(defaults[k])}
    return " ".join(f"{type(estimator).__name__}({', '.join(f'{k}={v!r}' for k, v in given.items())})".split())


def _place(error: BaseException) -> str:
    """Where in the package (or else here) an error arose."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if f"{Path('src', 'biasgp')}" in frame.filename] or frames
    names = " > ".join(frame.name for frame in inside[-4:-1])
    return f"{names} > {Path(inside[-1].filename).name}:{inside[-1].lineno}"


def keep(data: datasets.Dataset, path: Path) -> None:
    """The columns of X, y, and known variances (0 for none), to every digit."""
    y = np.asarray(data.y, dtype=float)
    noise = np.broadcast_to(0.0 if data.noise_variance is None else data.noise_variance, y.shape)
    np.savetxt(path, np.column_stack([np.asarray(data.X, dtype=float), y, noise]), fmt="%.17g", delimiter=",")


def kept(name: str) -> datasets.Dataset:
    """Readings that were kept under a name."""
    table = np.loadtxt(KEPT / f"{name}.csv", delimiter=",", ndmin=2)
    noise = table[:, -1] if table[:, -1].any() else None
    return datasets.Dataset(table[:, :-2], table[:, -2], noise, name)


def main() -> int:
    drawn = pair(int(sys.argv[1]), int(sys.argv[2]))
    if len(sys.argv) > 3:
        keep(drawn.data, KEPT / f"{sys.argv[3]}.csv")
    wrong = fault(drawn)
    sys.stdout.write(f"{drawn.words}\n{wrong or 'nothing is wrong'}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
