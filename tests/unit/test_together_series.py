"""The simulator of co-located sensors."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from biasgp.data.faults import FaultScenario, TogetherScenario


@pytest.mark.parametrize("stays", [False, True])
def test_one_sensor_drifts_and_all_share_the_truth(stays):
    scenario = TogetherScenario(stays=stays)
    for seed in range(5):
        data = scenario.draw(random_state=seed)
        assert len(data.y) == 390 and set(data.sensor) == {"A", "B", "C"}
        assert_array_equal(data.f.reshape(3, 130), np.tile(data.f[:130], (3, 1)))
        assert_array_equal(np.unique(data.sensor[data.bias != 0.0]), [data.drifting])
        own = data.bias[data.sensor == data.drifting]
        assert np.abs(own).max() == pytest.approx(5.0 * 0.3)
        assert np.abs(np.diff(own)).max() < 0.3, "as smooth as f"
        drifting = np.flatnonzero(own)
        assert len(drifting) == 65 or (stays and len(drifting) >= 65 and drifting[-1] == 129)
        assert np.std(data.y - data.f - data.bias) == pytest.approx(0.3, rel=0.15)
        assert_array_equal(data.y, scenario.draw(random_state=seed).y)


def test_times_and_sizes_are_those_of_the_scenario():
    scenario = TogetherScenario(FaultScenario(kind="none", n=50, times="uneven"), sensors=5, size=2.0, share=1.0)
    data = scenario.draw(random_state=np.random.default_rng(0))
    assert len(set(data.sensor)) == 5 and np.ptp(np.diff(data.t[:50])) > 0.1
    assert np.abs(data.bias).max() == pytest.approx(0.6)


@pytest.mark.parametrize("change", [{"sensors": 0}, {"sensors": 27}, {"share": 0.0}, {"share": 1.5}])
def test_what_cannot_be_is_refused(change):
    with pytest.raises(ValueError, match="1 to 26 sensors"):
        TogetherScenario(**change).draw()
