"""The paper's simulated data: two functions, eight scenarios of outliers, and the toy of its Figures 1 to 3.

Beyond the paper, `two_sided` and `STRESSES` try a robust method; the latter have one input and the paper's function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from biasgp._typing import Array, Mask
from biasgp.kernels import Exponential


@dataclass(frozen=True)
class Scenario:
    """A share q of the readings is shifted by mu on average; sigma is the noise of all of them.

    Examples
    --------
    >>> from biasgp.data import Scenario, simulate
    >>> data = simulate("1d", Scenario(q=0.05, mu=4.0, sigma=0.2), n=1000)
    >>> 0.03 < float(data.is_outlier.mean()) < 0.07
    True
    """

    q: float
    mu: float
    sigma: float


_SCENARIOS = (Scenario(q, mu, mu / ratio) for q in (0.1, 0.2) for mu in (3.0, 5.0) for ratio in (6.0, 12.0))
SCENARIOS: dict[int, Scenario] = dict(enumerate(_SCENARIOS, start=1))
"""The paper's eight scenarios: q outermost, then mu, then sigma."""


@dataclass(frozen=True)
class Simulation:
    """Training readings with the truth about them, and test readings without outliers.

    Examples
    --------
    >>> from biasgp.data import simulate
    >>> data = simulate("1d", 8)
    >>> error = data.y - data.f
    >>> bool(error[data.is_outlier].mean() > 4.5 > error[~data.is_outlier].max())
    True
    """

    X: Array
    y: Array
    f: Array
    is_outlier: Mask
    X_test: Array
    y_test: Array
    f_test: Array


def one_dimensional(X: Array) -> Array:
    """The paper's function of one input on [−3, 3].

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.data import one_dimensional
    >>> one_dimensional(np.array([[-3.0], [0.0], [3.0]])).round(3).tolist()
    [-1.275, 1.4, 2.095]
    """
    x = X[:, 0]
    return np.asarray(0.3 + 0.4 * x + 0.5 * np.sin(2.7 * x) + 1.1 / (1.0 + x**2))


def friedman(X: Array) -> Array:
    """Friedman's function of ten inputs on [0, 1], of which five matter.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.data import friedman
    >>> friedman(np.full((1, 10), 0.5)).round(3).tolist()
    [14.571]
    """
    wave = 10.0 * np.sin(np.pi * X[:, 0] * X[:, 1])
    return np.asarray(wave + 20.0 * (X[:, 2] - 0.5) ** 2 + 10.0 * X[:, 3] + 5.0 * X[:, 4])


_DATASETS: dict[str, tuple[Callable[[Array], Array], int, float, float]] = {
    "1d": (one_dimensional, 1, -3.0, 3.0),
    "friedman": (friedman, 10, 0.0, 1.0),
}


def simulate(
    dataset: str,
    scenario: Scenario | int = 1,
    *,
    n: int = 300,
    n_test: int = 1000,
    random_state: int | np.random.Generator = 0,
) -> Simulation:
    """Draw the paper's data set "1d" or "friedman" under a scenario (a number from 1 to 8, or your own).

    Examples
    --------
    >>> from biasgp.data import simulate
    >>> data = simulate("friedman", 3, n=50, n_test=20, random_state=1)
    >>> data.X.shape, data.X_test.shape
    ((50, 10), (20, 10))
    """
    if dataset not in _DATASETS:
        raise ValueError(f"dataset must be one of {', '.join(map(repr, _DATASETS))}, got {dataset!r}.")
    if isinstance(scenario, int):
        if scenario not in SCENARIOS:
            raise ValueError(f"scenario must be a number from 1 to {len(SCENARIOS)} or a Scenario, got {scenario}.")
        scenario = SCENARIOS[scenario]
    function, width, low, high = _DATASETS[dataset]
    rng = np.random.default_rng(random_state)
    X = rng.uniform(low, high, (n, width))
    f = function(X)
    is_outlier = rng.random(n) < scenario.q
    y = f + scenario.mu * is_outlier + scenario.sigma * rng.standard_normal(n)
    X_test = rng.uniform(low, high, (n_test, width))
    f_test = function(X_test)
    y_test = f_test + scenario.sigma * rng.standard_normal(n_test)
    return Simulation(X, y, f, is_outlier, X_test, y_test, f_test)


def toy(*, n: int = 500, random_state: int | np.random.Generator = 0) -> Simulation:
    """The toy of the paper's Figures 1 to 3: a draw from an exponential-kernel GP and two outliers above 2.

    The paper prints no parameters; the noise variance is that of its Figure 3 (0.0268).

    Examples
    --------
    >>> from biasgp.data import toy
    >>> data = toy(n=100)
    >>> data.y[data.is_outlier].tolist()
    [2.3, 3.2]
    """
    rng = np.random.default_rng(random_state)
    n_test, noise = 400, np.sqrt(0.0268)
    x = np.concatenate([np.sort(rng.uniform(0.0, 10.0, n)), np.linspace(0.0, 10.0, n_test)])[:, None]
    C = Exponential(length_scale=3.0, variance=0.5)(x)
    f_all = np.linalg.cholesky(C + 1e-10 * np.eye(len(x))) @ rng.standard_normal(len(x))
    f_all -= f_all[:n].mean()
    f, f_test = f_all[:n], f_all[n:]
    # Capped, so that the two outliers are the only readings above 2, as in the paper.
    y = np.minimum(f + noise * rng.standard_normal(n), 1.95)
    is_outlier = np.zeros(n, dtype=bool)
    is_outlier[rng.choice(n, 2, replace=False)] = True
    y[is_outlier] = [2.3, 3.2]
    y_test = f_test + noise * rng.standard_normal(n_test)
    return Simulation(x[:n], y, f, is_outlier, x[n:], y_test, f_test)


SIGMA, SHIFT = 5.0 / 12.0, 5.0
"""Noise and mean bias of the stresses: those of the paper's fourth scenario."""
RUN_LENGTHS = (10, 16)
"""Shortest run of clustered outliers, and one above the longest."""
CLUSTERED = 0.1
"""Share of the readings that are in clusters of outliers."""


def two_sided(dataset: str, scenario: int, *, random_state: int | np.random.Generator = 0) -> Simulation:
    """One of the paper's scenarios with about half of its outliers shifted down instead of up.

    Examples
    --------
    >>> from biasgp.data import two_sided
    >>> data = two_sided("1d", 8)
    >>> error = (data.y - data.f)[data.is_outlier]
    >>> bool((error > 3.0).any() and (error < -3.0).any())
    True
    """
    rng = np.random.default_rng(random_state)
    data = simulate(dataset, scenario, random_state=rng)
    down = data.is_outlier & (rng.random(len(data.y)) < 0.5)
    return replace(data, y=data.y - 2.0 * SCENARIOS[scenario].mu * down)


def _shifted(rng: np.random.Generator, share: float) -> Simulation:
    """Gaussian noise, and a share of the readings shifted up."""
    return simulate("1d", Scenario(share, SHIFT, SIGMA), random_state=rng)


def _clusters(rng: np.random.Generator) -> Simulation:
    """Runs of 10 to 15 neighbours shifted up, a tenth of the readings in all."""
    data = _shifted(rng, 0.0)
    order = np.argsort(data.X[:, 0])
    is_outlier = np.zeros(len(order), dtype=bool)
    while is_outlier.sum() < CLUSTERED * len(order):
        length = min(int(rng.integers(*RUN_LENGTHS)), int(np.ceil(CLUSTERED * len(order))) - int(is_outlier.sum()))
        start = int(rng.integers(0, len(order) - length))
        is_outlier[order[start : start + length]] = True
    return replace(data, y=data.y + SHIFT * is_outlier, is_outlier=is_outlier)


def _heavy_tails(rng: np.random.Generator) -> Simulation:
    """No outliers as such, but Student-t noise of three degrees of freedom, in the test readings too."""
    data = _shifted(rng, 0.0)
    y = data.f + SIGMA * rng.standard_t(3, len(data.f))
    y_test = data.f_test + SIGMA * rng.standard_t(3, len(data.f_test))
    return replace(data, y=y, y_test=y_test)


def _true_peaks(rng: np.random.Generator) -> Simulation:
    """No outliers, but a positive signal whose logarithm is smooth, with sharp true peaks, and noise in proportion."""
    n, n_test, terms = 300, 1000, 40
    x = np.concatenate([rng.uniform(0.0, 10.0, n), rng.uniform(0.0, 10.0, n_test)])
    frequencies, phases = rng.standard_normal(terms) / 1.2, rng.uniform(0.0, 2.0 * np.pi, terms)
    smooth = np.sqrt(2.0 / terms) * np.cos(np.outer(x, frequencies) + phases).sum(axis=1)
    peaks = sum(2.0 * np.exp(-0.5 * ((x - place) / 0.15) ** 2) for place in rng.uniform(0.5, 9.5, 3))
    f = np.exp(0.7 * smooth + peaks)
    y = f * np.exp(0.1 * rng.standard_normal(n + n_test))
    return Simulation(x[:n, None], y[:n], f[:n], np.zeros(n, dtype=bool), x[n:, None], y[n:], f[n:])


STRESSES: dict[str, Callable[[np.random.Generator], Simulation]] = {
    "no outliers": partial(_shifted, share=0.0),
    "40 % outliers": partial(_shifted, share=0.4),
    "45 % outliers": partial(_shifted, share=0.45),
    "clusters": _clusters,
    "heavy tails": _heavy_tails,
    "true peaks": _true_peaks,
}
"""Each kind of stress, from a generator."""
