"""A fleet whose models go on: readings of all groups into their streams."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from biasgp import SparseBiasGP, fleet
from biasgp.fleet import FleetExecution, fit_groups
from biasgp.kernels import Matern32
from biasgp.runner import Execution


def readings(first: int, count: int) -> pd.DataFrame:
    rng, hours = np.random.default_rng(first), np.arange(first, first + count, dtype=float)
    frames = []
    for number, name in enumerate(("north", "south")):
        y = number + np.sin(hours / 12.0) + 0.1 * rng.standard_normal(count)
        y[::25] += 3.0
        frames.append(pd.DataFrame({"station": name, "hour": hours, "ppb": y}))
    return pd.concat(frames, ignore_index=True)


@pytest.fixture
def stations(tmp_path):
    model = SparseBiasGP(Matern32(), order=None)
    execution = FleetExecution(folder=tmp_path / "fleet")
    return fit_groups(
        readings(0, 150), by="station", target="ppb", features=["hour"], estimator=model, execution=execution
    )


def verdicts(stations, results) -> list[pd.DataFrame]:
    return [pd.read_csv(stations.folder / name) for name in results["verdicts"]]


def test_streams_go_on_from_call_to_call(stations):
    model = stations.model("north")
    first, second = readings(150, 60), readings(210, 60)
    for batch in (first, second):
        results = stations.push(batch, target="ppb")
        assert results["status"].tolist() == ["ok", "ok"] and results["readings"].tolist() == [60, 60]
    north, south = verdicts(stations, results)
    alone = model.stream()
    settled = [alone.push(batch.hour[:60], batch.ppb[:60]).settled for batch in (first, second)]
    np.testing.assert_allclose(north["mean"], np.concatenate([each.mean for each in settled]), rtol=1e-12)
    assert north["time"].tolist() == np.arange(150.0, 250.0).tolist() == south["time"].tolist()
    assert (north["outlier_probability"] > 0.5).sum() == results["flagged"][0] + settled[0].outlier.sum() == 5


def test_verdicts_go_with_the_readings(stations):
    batch = readings(150, 60).assign(said=np.nan)
    batch.loc[[0, 70], "said"] = [0.0, 1.0]
    north, south = verdicts(stations, stations.push(batch, target="ppb", verdict="said"))
    assert north["outlier_probability"][0] == 0.0 and south["outlier_probability"][10] == 1.0


def test_the_same_readings_are_taken_in_once(stations):
    batch = readings(150, 60)
    once = stations.push(batch, target="ppb")
    kept = [frame.copy() for frame in verdicts(stations, once)]
    (stations.folder / fleet.FINISHED).unlink()  # the run was ended before it noted what was done
    again = stations.push(batch, target="ppb")
    assert again["settled"].tolist() == once["settled"].tolist()
    for before, after in zip(kept, verdicts(stations, again), strict=True):
        pd.testing.assert_frame_equal(before, after)


def test_a_run_that_ends_between_its_two_files_repeats_nothing(stations, monkeypatch):
    stations.push(readings(150, 60), target="ppb")

    def killed(self, path):
        raise OSError("killed")

    batch = readings(210, 60)
    with monkeypatch.context() as patch:
        patch.setattr(fleet.Stream, "save", killed)
        assert stations.push(batch, target="ppb")["status"].tolist() == ["failed", "failed"]
    results = stations.push(batch, target="ppb", execution=Execution(retry_failed=True, progress=False))
    for frame in verdicts(stations, results):
        assert frame["time"].tolist() == np.arange(150.0, 250.0).tolist()


def test_on_two_processes_it_is_the_same(stations, tmp_path):
    batch = readings(150, 60)
    one = verdicts(stations, stations.push(batch, target="ppb"))
    for file in [*stations.folder.glob("*.stream"), *stations.folder.glob("*.csv"), stations.folder / fleet.FINISHED]:
        file.unlink()
    two = verdicts(stations, stations.push(batch, target="ppb", execution=Execution(jobs=2, progress=False)))
    for before, after in zip(one, two, strict=True):
        pd.testing.assert_frame_equal(before, after)


def test_groups_without_a_model_are_left_out(stations):
    batch = readings(150, 10)
    batch.loc[0, "station"] = "west"
    results = stations.push(batch, target="ppb")
    assert results["group"].tolist() == ["north", "south"] and results["readings"].tolist() == [9, 10]
