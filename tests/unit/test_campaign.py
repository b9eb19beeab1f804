"""The simulated campaign: what recorded studies rest on, and the truth of its faults."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from biasgp.data import campaign

RECORDED = {
    0: ("ea707c47c69f699d", "b770432ea5196aff", "f75a2fd1bf8ba3ff"),
    7: ("404d865ed8453769", "f0e8e390a6782a27", "0537d7a14743d98f"),
}
"""SHA-256 of X and of the readings of NO and O₃, by seed, as the recorded studies had them, to a millionth: processors
differ in the last digits."""


def _to_a_millionth(values: np.ndarray) -> np.ndarray:
    return np.round(values * 1e6).astype(np.int64)


@pytest.mark.parametrize("seed", RECORDED)
def test_what_recorded_studies_rest_on_does_not_change(seed):
    data = campaign(random_state=seed)
    arrays = (data.X, data.no.y, data.o3.y)
    assert tuple(hashlib.sha256(_to_a_millionth(a).tobytes()).hexdigest()[:16] for a in arrays) == RECORDED[seed]


def test_the_gas_with_faults_takes_nothing_from_the_callers_generator():
    rng = np.random.default_rng(3)
    campaign(random_state=rng)
    assert rng.random() == 0.43970599133347976


@pytest.mark.parametrize("seed", range(5))
def test_the_truth_of_every_reading_is_known(seed):
    gas = campaign(random_state=seed).no2
    assert [fault.kind for fault in gas.faults] == ["stuck", "ramp", "shift"]
    stuck, ramp, shift = (slice(fault.first, fault.stop) for fault in gas.faults)
    assert len(set(gas.y[stuck])) == 1 and np.diff(gas.f[stuck]).any()
    np.testing.assert_allclose(gas.bias[stuck], gas.y[stuck] - gas.f[stuck])
    assert (np.diff(gas.bias[ramp]) > 0.0).all() and gas.bias[ramp][-1] == pytest.approx(4.8)
    assert set(gas.bias[shift]) == {4.0}
    np.testing.assert_array_equal(gas.is_outlier, gas.bias != 0.0)
    assert gas.is_outlier.sum() == 25 + 60 + 30 + 5
    noise = (gas.y - gas.f - gas.bias)[~np.isin(np.arange(len(gas.y)), np.arange(stuck.start, stuck.stop))]
    assert noise.std() == pytest.approx(0.4, rel=0.1) and abs(noise.mean()) < 0.05


@pytest.mark.parametrize("seed", range(5))
def test_a_service_ends_the_drift_and_none_falls_into_a_fault(seed):
    data = campaign(random_state=seed)
    rows = np.searchsorted(data.X[:, 0], data.no2.services)
    stuck, ramp, shift = data.no2.faults
    assert rows[1] == ramp.stop and len(rows) == 3
    assert all(not fault.first < row < fault.stop for fault in (stuck, ramp, shift) for row in rows)


def test_the_other_gases_know_their_biases():
    data = campaign()
    assert sorted(data.no.bias[data.no.is_outlier]) == [9.0, 13.0, 18.0, 26.0, 40.0]
    for gas in (data.no, data.o3):
        assert not gas.bias[~gas.is_outlier].any() and gas.faults == ()
