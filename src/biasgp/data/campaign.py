"""A simulated outdoor campaign like the paper's Section 4, with the truth known.

Three months, 1,400 records of time, temperature and relative humidity, and two gases: NO with five intermittent
spikes, O₃ with 45 readings in four runs where the instrument measured zero air instead of the weather.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from biasgp._typing import Array, Mask

N_RECORDS = 1400
HOURS = 91 * 24
ZERO_AIR_RUNS = (15, 12, 10, 8)
"""Records in each run of zero air."""
NO_SPIKES = (9.0, 13.0, 18.0, 26.0, 40.0)
"""Biases of NO, in ppb."""
NO_NOISE, O3_NOISE = 0.12, 1.0
"""Standard deviations, in ppb."""
PATH_TERMS = 60
"""Cosines in a smooth random path; so many that it is close to Gaussian."""


@dataclass(frozen=True)
class Gas:
    """One gas: readings, what they would be without noise and fault, and which are outliers; in ppb."""

    y: Array
    f: Array
    is_outlier: Mask


@dataclass(frozen=True)
class Campaign:
    """Inputs (hours since the start, °C, %) and the two gases."""

    X: Array
    no: Gas
    o3: Gas

    feature_names: tuple[str, str, str] = ("time_h", "temperature_c", "humidity_pct")


def campaign(*, random_state: int | np.random.Generator = 0) -> Campaign:
    """The whole campaign, from one seed."""
    rng = np.random.default_rng(random_state)
    time = np.sort(rng.choice(HOURS, N_RECORDS, replace=False)).astype(float)
    day = np.sin(2.0 * np.pi * (time - 9.0) / 24.0)
    temperature = 24.0 + 3.5 * day + 2.5 * _wander(time, 90.0, rng) + 0.3 * rng.standard_normal(N_RECORDS)
    humidity = np.clip(
        74.0 - 9.0 * day + 7.0 * _wander(time, 60.0, rng) + 1.0 * rng.standard_normal(N_RECORDS), 25.0, 99.0
    )
    warm, dry = (temperature - 24.0) / 4.0, (74.0 - humidity) / 10.0
    o3 = 31.0 + 4.0 * warm + 2.5 * np.tanh(dry) + 5.0 * _wander(time, 48.0, rng)
    no = np.exp(0.3 - 0.25 * warm + 0.35 * _wander(time, 40.0, rng))
    return Campaign(np.column_stack([time, temperature, humidity]), no=_spiked(no, rng), o3=_with_zero_air(o3, rng))


def _wander(time: Array, hours: float, rng: np.random.Generator) -> Array:
    """A smooth random path of unit variance that varies over about this many hours."""
    frequencies = rng.standard_normal(PATH_TERMS) / hours
    phases = rng.uniform(0.0, 2.0 * np.pi, PATH_TERMS)
    return np.asarray(np.sqrt(2.0 / PATH_TERMS) * np.cos(np.outer(time, frequencies) + phases).sum(axis=1))


def _spiked(f: Array, rng: np.random.Generator) -> Gas:
    y = f + NO_NOISE * rng.standard_normal(len(f))
    is_outlier = np.zeros(len(f), dtype=bool)
    is_outlier[rng.choice(len(f), len(NO_SPIKES), replace=False)] = True
    y[is_outlier] += NO_SPIKES
    return Gas(y, f, is_outlier)


def _with_zero_air(f: Array, rng: np.random.Generator) -> Gas:
    y = f + O3_NOISE * rng.standard_normal(len(f))
    is_outlier = np.zeros(len(f), dtype=bool)
    # One run in each quarter of the campaign, so that runs never touch.
    quarter = len(f) // len(ZERO_AIR_RUNS)
    for i, length in enumerate(ZERO_AIR_RUNS):
        start = i * quarter + int(rng.integers(10, quarter - length - 10))
        is_outlier[start : start + length] = True
    y[is_outlier] = -3.0 + 2.0 * rng.standard_normal(int(is_outlier.sum()))
    return Gas(y, f, is_outlier)
