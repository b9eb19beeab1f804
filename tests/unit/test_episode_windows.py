"""Episodes among many readings: windows where the level jumps."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from biasgp import BiasGPWarning, SparseBiasGP
from biasgp.data.faults import FaultScenario
from biasgp.kernels import Matern32
from biasgp.models.episodes import Ordering
from biasgp.models.sparse.episode_windows import POLICY, _windows

MANY = FaultScenario(n=2400, count=2, size=10.0, outliers=0.02, length_scale=20.0)


@pytest.fixture(scope="module")
def data():
    return MANY.draw(random_state=2)


def test_episodes_are_found_with_nearest_neighbours_and_leave_the_fit(data):
    X = data.t[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BiasGPWarning)  # single outliers that are neighbours by chance, ends of faults
        model, single = (SparseBiasGP(Matern32(), order=order).fit(X, data.y) for order in ("auto", None))
    found = sorted((each.rows[0], each.rows[-1] + 1) for each in model.episodes_)
    assert np.abs(np.array(found) - np.sort(data.faults, axis=0)).max() <= 2
    faulty = data.bias != 0.0
    assert model.outlier_mask_[faulty].mean() > 0.99 and model.outlier_mask_[~faulty].mean() < 0.002
    error, without = (np.mean((each.predict(X) - data.f) ** 2) for each in (model, single))
    assert error < 0.5 * without
    for episode in model.episodes_:
        rows = list(episode.rows)
        assert episode.bias == pytest.approx(data.bias[rows].mean(), abs=0.6)
        np.testing.assert_allclose(model.bias_[rows], data.y[rows] - model.predict(X[rows]), atol=1e-8)


def test_windows_hold_every_fault_and_are_few(data):
    windows = [rows for rows, _ in _windows(data.y, Ordering(data.t), POLICY)]
    assert 0 < len(windows) <= len(data.t) // POLICY.per_window
    for first, stop in data.faults:
        assert any(rows[0] < first and stop - 1 < rows[-1] for rows in windows)


def test_a_long_record_without_a_jump_has_no_window():
    t = np.arange(3000.0)
    assert list(_windows(np.sin(t / 50.0), Ordering(t), POLICY)) == []
    assert list(_windows(np.zeros(3000), Ordering(t), POLICY)) == []
