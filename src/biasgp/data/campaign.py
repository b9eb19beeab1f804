"""A simulated outdoor campaign like the paper's Section 4, with the truth known.

Three months, 1,400 records of time, temperature and relative humidity, and three gases: NO with five intermittent
spikes, O₃ with 45 readings in four runs where the instrument measured zero air instead of the weather, and NO₂ with
spikes and with faults that last: in the first half of the campaign its sensor is stuck, drifts until a service, and
reads too high for a while.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from biasgp._typing import Array, Mask

if TYPE_CHECKING:
    import pandas as pd

N_RECORDS = 1400
HOURS = 91 * 24
START = "2026-06-01T00:00:00"
"""Where tables of a campaign begin."""
_ZERO_AIR_RUNS = (15, 12, 10, 8)
"""Records in each run of zero air."""
_NO_SPIKES = (9.0, 13.0, 18.0, 26.0, 40.0)
"""Biases of NO, in ppb."""
_NO2_SPIKES = (-6.0, 5.0, 7.0, 9.0, 14.0)
_NO_NOISE, _O3_NOISE, _NO2_NOISE = 0.12, 1.0, 0.4
"""Standard deviations, in ppb."""
_NO2_RESOLUTION = 0.01
"""Of the readings of NO₂, in ppb."""
_STUCK_READINGS, _DRIFT_READINGS, _SHIFT_READINGS = 25, 60, 30
_DRIFT_SIZE, _SHIFT_SIZE = 12.0, 10.0
"""Biases of NO₂ at the end of the drift and during the shift, in standard deviations of its noise."""
_MARGIN_SHARE = 10
"""One part in so many of the records that a fault may lie in is between it and their ends."""
_PATH_TERMS = 60
"""Cosines in a smooth random path; so many that it is close to Gaussian."""


@dataclass(frozen=True)
class _Fault:
    """A bias that lasts: what an episode of it is called ("stuck", "ramp", "shift"), its first row, and its end."""

    kind: str
    first: int
    stop: int
    """The row after its last."""


@dataclass(frozen=True)
class Gas:
    """One gas: readings, what they would be without noise and fault, and which are outliers; in ppb.

    Readings of a fault are outliers too. `bias` is what each reading has beyond f and its noise; where the reading has
    nothing to do with f (zero air, a stuck sensor), all of y − f. `services` are the hours at which somebody saw to the
    sensor.

    Examples
    --------
    >>> from biasgp.data import campaign
    >>> gas = campaign().no2
    >>> [(fault.kind, fault.stop - fault.first) for fault in gas.faults]
    [('stuck', 25), ('ramp', 60), ('shift', 30)]
    >>> len(gas.log_book())
    3
    """

    y: Array
    f: Array
    is_outlier: Mask
    bias: Array
    faults: tuple[_Fault, ...] = ()
    services: tuple[float, ...] = ()

    def log_book(self) -> pd.DataFrame:
        """When somebody saw to the sensor, as a log book has it."""
        import pandas as pd

        return pd.DataFrame({"time": _stamps(self.services)})


@dataclass(frozen=True)
class Campaign:
    """Inputs (hours since the start, °C, %) and the three gases.

    Examples
    --------
    >>> from biasgp.data import campaign
    >>> list(campaign().table().columns[:5])
    ['time', 'temperature_c', 'humidity_pct', 'no_ppb', 'no_flag']
    """

    X: Array
    no: Gas
    o3: Gas
    no2: Gas

    feature_names: tuple[str, str, str] = ("time_h", "temperature_c", "humidity_pct")

    def table(self) -> pd.DataFrame:
        """All of it as a data logger would have written it, with the true outliers flagged."""
        import pandas as pd

        columns: dict[str, Any] = {
            "time": _stamps(self.X[:, 0]),
            "temperature_c": np.round(self.X[:, 1], 3),
            "humidity_pct": np.round(self.X[:, 2], 3),
        }
        for name, gas in (("no", self.no), ("o3", self.o3), ("no2", self.no2)):
            columns[f"{name}_ppb"] = np.round(gas.y, 4)
            columns[f"{name}_flag"] = np.where(gas.is_outlier, "#", "")
        return pd.DataFrame(columns)


def campaign(*, random_state: int | np.random.Generator = 0) -> Campaign:
    """The whole campaign, from one seed.

    Examples
    --------
    >>> from biasgp.data import campaign
    >>> data = campaign(random_state=1)
    >>> data.X.shape, [int(gas.is_outlier.sum()) for gas in (data.no, data.o3, data.no2)]
    ((1400, 3), [5, 45, 120])
    """
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
    X = np.column_stack([time, temperature, humidity])
    no_gas, o3_gas = _spiked(no, rng), _with_zero_air(o3, rng)
    # A generator of its own, so that the other gases, and what the caller draws next, do not depend on this one.
    (own,) = rng.spawn(1)
    no2 = 18.0 - 2.0 * warm + 3.0 * _wander(time, 60.0, own)
    return Campaign(X, no=no_gas, o3=o3_gas, no2=_faulty(time, no2, own))


def _stamps(hours: Any) -> Any:
    """Hours since the start as the text of times."""
    import pandas as pd

    times = pd.Timestamp(START) + pd.to_timedelta(hours, unit="h")
    return times.strftime("%Y-%m-%dT%H:%M:%S")


def _wander(time: Array, hours: float, rng: np.random.Generator) -> Array:
    """A smooth random path of unit variance that varies over about this many hours."""
    frequencies = rng.standard_normal(_PATH_TERMS) / hours
    phases = rng.uniform(0.0, 2.0 * np.pi, _PATH_TERMS)
    return np.asarray(np.sqrt(2.0 / _PATH_TERMS) * np.cos(np.outer(time, frequencies) + phases).sum(axis=1))


def _spiked(f: Array, rng: np.random.Generator) -> Gas:
    y = f + _NO_NOISE * rng.standard_normal(len(f))
    is_outlier = np.zeros(len(f), dtype=bool)
    is_outlier[rng.choice(len(f), len(_NO_SPIKES), replace=False)] = True
    y[is_outlier] += _NO_SPIKES
    bias = np.zeros(len(f))
    bias[is_outlier] = _NO_SPIKES
    return Gas(y, f, is_outlier, bias)


def _with_zero_air(f: Array, rng: np.random.Generator) -> Gas:
    y = f + _O3_NOISE * rng.standard_normal(len(f))
    is_outlier = np.zeros(len(f), dtype=bool)
    # One run in each quarter of the campaign, so that runs never touch.
    quarter = len(f) // len(_ZERO_AIR_RUNS)
    for i, length in enumerate(_ZERO_AIR_RUNS):
        start = i * quarter + int(rng.integers(10, quarter - length - 10))
        is_outlier[start : start + length] = True
    y[is_outlier] = -3.0 + 2.0 * rng.standard_normal(int(is_outlier.sum()))
    return Gas(y, f, is_outlier, np.where(is_outlier, y - f, 0.0))


def _faulty(time: Array, f: Array, rng: np.random.Generator) -> Gas:
    """A stuck stretch, a drift and a shift, and a service after each: all in the first half, a third of it for each."""
    third = len(f) // 2 // 3
    margin = third // _MARGIN_SHARE
    lengths = {"stuck": _STUCK_READINGS, "ramp": _DRIFT_READINGS, "shift": _SHIFT_READINGS}
    firsts = [i * third + int(rng.integers(margin, third - n - margin)) for i, n in enumerate(lengths.values())]
    faults = tuple(_Fault(kind, first, first + lengths[kind]) for kind, first in zip(lengths, firsts, strict=True))
    stuck, drift, shift = (slice(fault.first, fault.stop) for fault in faults)
    bias = np.zeros(len(f))
    since = time[drift] - time[drift.start - 1]
    bias[drift] = _DRIFT_SIZE * _NO2_NOISE * since / since[-1]
    bias[shift] = _SHIFT_SIZE * _NO2_NOISE
    in_fault = bias != 0.0
    in_fault[stuck] = True
    is_outlier = in_fault.copy()
    is_outlier[rng.choice(np.flatnonzero(~in_fault[: 3 * third]), len(_NO2_SPIKES), replace=False)] = True
    bias[is_outlier & ~in_fault] = rng.permutation(_NO2_SPIKES)
    y = np.round((f + bias + _NO2_NOISE * rng.standard_normal(len(f))) / _NO2_RESOLUTION) * _NO2_RESOLUTION
    y[stuck] = y[stuck.start]
    bias[stuck] = y[stuck] - f[stuck]
    # A routine service a while after the first and the last fault, and the one that ended the drift.
    visits = [stuck.stop + margin // 2, drift.stop, shift.stop + margin // 2]
    services = tuple(float(0.5 * (time[row - 1] + time[row])) for row in visits)
    return Gas(y, f, is_outlier, bias, faults, services)
