"""Data that try a robust method beyond the paper's scenarios; all of one input, on the paper's function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from biasgp.data.simulate import SCENARIOS, Scenario, Simulation, simulate

SIGMA, SHIFT = 5.0 / 12.0, 5.0
RUN_LENGTHS = (10, 16)


def two_sided(dataset: str, scenario: int, *, random_state: int | np.random.Generator = 0) -> Simulation:
    """One of the paper's scenarios with about half of its outliers shifted down instead of up."""
    rng = np.random.default_rng(random_state)
    data = simulate(dataset, scenario, random_state=rng)
    down = data.is_outlier & (rng.random(len(data.y)) < 0.5)
    return replace(data, y=data.y - 2.0 * SCENARIOS[scenario].mu * down)


def no_outliers(rng: np.random.Generator) -> Simulation:
    """Gaussian noise and nothing else."""
    return simulate("1d", Scenario(0.0, SHIFT, SIGMA), random_state=rng)


def many_outliers(rng: np.random.Generator, share: float = 0.4) -> Simulation:
    """A large share of the readings shifted up."""
    return simulate("1d", Scenario(share, SHIFT, SIGMA), random_state=rng)


def clusters(rng: np.random.Generator) -> Simulation:
    """Runs of 10 to 15 neighbours shifted up, a tenth of the readings in all."""
    data = simulate("1d", Scenario(0.0, SHIFT, SIGMA), random_state=rng)
    order = np.argsort(data.X[:, 0])
    is_outlier = np.zeros(len(order), dtype=bool)
    while is_outlier.sum() < 0.1 * len(order):
        length = min(int(rng.integers(*RUN_LENGTHS)), int(np.ceil(0.1 * len(order))) - int(is_outlier.sum()))
        start = int(rng.integers(0, len(order) - length))
        is_outlier[order[start : start + length]] = True
    return replace(data, y=data.y + SHIFT * is_outlier, is_outlier=is_outlier)


def heavy_tails(rng: np.random.Generator) -> Simulation:
    """No outliers as such, but Student-t noise of three degrees of freedom, in the test readings too."""
    data = simulate("1d", Scenario(0.0, SHIFT, SIGMA), random_state=rng)
    y = data.f + SIGMA * rng.standard_t(3, len(data.f))
    y_test = data.f_test + SIGMA * rng.standard_t(3, len(data.f_test))
    return replace(data, y=y, y_test=y_test)


def true_peaks(rng: np.random.Generator) -> Simulation:
    """No outliers, but a positive signal whose logarithm is smooth, with sharp true peaks, and noise in proportion."""
    n, n_test = 300, 1000
    x = np.concatenate([rng.uniform(0.0, 10.0, n), rng.uniform(0.0, 10.0, n_test)])
    frequencies, phases = rng.standard_normal(40) / 1.2, rng.uniform(0.0, 2.0 * np.pi, 40)
    smooth = np.sqrt(2.0 / 40.0) * np.cos(np.outer(x, frequencies) + phases).sum(axis=1)
    peaks = sum(2.0 * np.exp(-0.5 * ((x - place) / 0.15) ** 2) for place in rng.uniform(0.5, 9.5, 3))
    f = np.exp(0.7 * smooth + peaks)
    y = f * np.exp(0.1 * rng.standard_normal(n + n_test))
    nobody = np.zeros(n, dtype=bool)
    return Simulation(x[:n, None], y[:n], f[:n], nobody, x[n:, None], y[n:], f[n:])


STRESSES: dict[str, Callable[[np.random.Generator], Simulation]] = {
    "no outliers": no_outliers,
    "40 % outliers": many_outliers,
    "45 % outliers": lambda rng: many_outliers(rng, 0.45),
    "clusters": clusters,
    "heavy tails": heavy_tails,
    "true peaks": true_peaks,
}
"""Each kind of stress, from a generator."""
