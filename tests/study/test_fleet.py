"""One model per group: the same as fitting each alone, in parallel, resumable, with failures as rows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from biasgp import GaussianGP, SparseBiasGP
from biasgp.data.faults import FaultScenario
from biasgp.fleet import FINISHED, FleetExecution, FleetGroup, WithEvents, fit_groups

FEATURES = ["t"]


def readings(n_groups: int = 3, n: int = 40, seed: int = 0) -> pd.DataFrame:
    """One sine per group, with a few gross outliers."""
    rng = np.random.default_rng(seed)
    tables = []
    for g in range(n_groups):
        t = np.sort(rng.uniform(0.0, 6.0, n))
        y = np.sin(t + g) + 0.1 * rng.standard_normal(n)
        y[rng.choice(n, 3, replace=False)] += 4.0
        tables.append(pd.DataFrame({"station": f"s{g}", "t": t, "y": y}))
    return pd.concat(tables).sample(frac=1.0, random_state=1).reset_index(drop=True)


def fleet(table: pd.DataFrame, estimator=None, **execution: object):
    options = {"estimator": estimator, "execution": FleetExecution(**execution)}
    return fit_groups(table, by="station", target="y", features=FEATURES, **options)


def test_each_group_is_fitted_as_if_alone():
    table = readings()
    found = fleet(table)
    assert list(found.results["group"]) == ["s0", "s1", "s2"]
    assert (found.results["status"] == "ok").all()
    for name in ("s0", "s2"):
        rows = table[table["station"] == name]
        alone = SparseBiasGP().fit(rows[FEATURES], rows["y"])
        np.testing.assert_array_equal(found.model(name).outlier_mask_, alone.outlier_mask_)
        np.testing.assert_array_equal(found.model(name).predict(rows[FEATURES]), alone.predict(rows[FEATURES]))
        assert int(found.results.set_index("group").loc[name, "flagged"]) == alone.outlier_mask_.sum() == 3


def test_predict_uses_the_model_of_each_row():
    table = readings()
    found = fleet(table, estimator=GaussianGP())
    new = pd.DataFrame({"station": ["s2", "s0", "nowhere"], "t": [1.0, 1.0, 1.0]}, index=[7, 8, 9])
    told = found.predict(new)
    assert told.index.tolist() == [7, 8, 9]
    assert told.loc[7, "mean"] == found.model("s2").predict(new[FEATURES].iloc[:1])[0]
    assert told.loc[8, "mean"] != told.loc[7, "mean"]
    assert told.loc[9].isna().all()


def test_a_group_that_cannot_be_fitted_is_a_row_with_its_reason():
    table = readings()
    table = pd.concat([table, pd.DataFrame({"station": ["lonely"], "t": [1.0], "y": [np.inf]})])
    found = fleet(table, estimator=GaussianGP())
    row = found.results.set_index("group").loc["lonely"]
    assert row["status"] == "failed"
    assert "infinity" in row["message"]
    assert (found.results["status"] == "ok").sum() == 3
    with pytest.raises(ValueError, match="lonely"):
        found.model("lonely")


def test_rows_without_a_value_are_left_out():
    table = readings()
    table.loc[table.index[:10], "y"] = np.nan
    assert fleet(table, estimator=GaussianGP()).results["readings"].sum() == len(table) - 10


def test_two_workers_give_the_same_as_one(tmp_path):
    table = readings(4)
    one = fleet(table, folder=tmp_path / "one")
    two = fleet(table, folder=tmp_path / "two", jobs=2)
    columns = ["group", "status", "readings", "flagged", "noise_std", "trustworthy"]
    pd.testing.assert_frame_equal(one.results[columns], two.results[columns])


def test_a_second_run_does_only_what_changed(tmp_path):
    table = readings()
    first = fleet(table, folder=tmp_path, estimator=GaussianGP())
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.skops")}
    table.loc[table["station"] == "s1", "y"] += 1.0
    second = fleet(table, folder=tmp_path, estimator=GaussianGP())
    changed = [path.name for path in written if path.stat().st_mtime_ns != written[path]]
    assert changed == [second.results.set_index("group").loc["s1", "file"]]
    unchanged = ["s0", "s2"]
    seconds = [r.results.set_index("group").loc[unchanged, "seconds"] for r in (first, second)]
    pd.testing.assert_series_equal(*seconds)


def test_a_model_that_was_deleted_is_made_again(tmp_path):
    table = readings()
    fleet(table, folder=tmp_path, estimator=GaussianGP())
    next(tmp_path.glob("s0*.skops")).unlink()
    assert fleet(table, folder=tmp_path, estimator=GaussianGP()).model("s0").n_iter_ > 0


def test_killed_in_the_middle_it_goes_on(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_fleet import fleet, readings
        if __name__ == "__main__":
            fleet(readings(12), folder={str(tmp_path / "out")!r}, jobs=2)
        """)
    )
    process = subprocess.Popen([sys.executable, str(script)], start_new_session=True)
    store = tmp_path / "out" / FINISHED
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline and not (store.exists() and store.read_bytes().count(b"\n") >= 3):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = store.read_bytes().count(b"\n")
    assert done >= 3
    found = fleet(readings(12), folder=tmp_path / "out")
    whole = fleet(readings(12), folder=tmp_path / "whole")
    columns = ["group", "status", "readings", "flagged", "noise_std"]
    pd.testing.assert_frame_equal(found.results[columns], whole.results[columns])
    assert store.read_bytes().count(b"\n") == 12
    models = {path.name for path in (tmp_path / "out").glob("*.skops")}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {FINISHED, *models}
    assert len(models) == 12


def test_names_of_groups_are_safe_file_names_and_differ():
    groups = FleetGroup.all_in(["a/b", "a b", "../../etc", "", "é", "x" * 300, None, "a/b"])
    slugs = [group.slug for group in groups]
    assert len(set(slugs)) == len(slugs) == 6
    assert all("/" not in slug and "." not in slug and len(slug) < 60 for slug in slugs)
    assert {group.name: len(group.rows) for group in groups}["a/b"] == 2


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="'depth'"):
        fit_groups(readings(), by="station", target="y", features=["depth"])


def drifting(seed: int) -> tuple[pd.DataFrame, float]:
    """Readings with a drift, and when it was ended."""
    scenario = FaultScenario(kind="ramp", size=10.0, lengths=(25, 30), count=1, n=120)
    series = scenario.draw(random_state=seed)
    return pd.DataFrame({"t": series.t, "y": series.y}), float(series.t[series.faults[0][1]])


def test_each_group_has_its_own_events_and_its_number_of_episodes(tmp_path):
    (first, end), (second, _) = drifting(1), drifting(2)
    table = pd.concat([first.assign(station="a"), second.assign(station="b")], ignore_index=True)
    model = SparseBiasGP(order="t")
    services = pd.DataFrame({"when": [end], "station": ["a"]})
    found = fleet(table, WithEvents(model, services), folder=tmp_path)
    assert list(found.results["episodes"]) == [len(found.model(name).episodes_) for name in "ab"]
    alone = SparseBiasGP(order="t").fit(first[FEATURES], first["y"], events=[end])
    assert found.model("a").episodes_ == alone.episodes_ != ()
    assert found.model("b").episodes_ == SparseBiasGP(order="t").fit(second[FEATURES], second["y"]).episodes_
    written = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.skops")}
    fleet(table, WithEvents(model, services.assign(when=end + 1.0)), folder=tmp_path)
    changed = [name for name in written if (tmp_path / name).stat().st_mtime_ns != written[name]]
    assert changed == [found.results["file"][0]], "the other's have not changed"


def test_events_in_a_list_are_those_of_all_groups():
    (table, end), model = drifting(1), SparseBiasGP(order="t")
    found = fleet(table.assign(station="a"), WithEvents(model, [end]))
    assert found.model("a").episodes_ == model.fit(table[FEATURES], table["y"], events=[end]).episodes_


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ({"station": ["s0", "s9"], "t": [1.0, 2.0]}, "events, column 'station', row 1: the table has no group 's9'"),
        ({"station": ["s0", None], "t": [1.0, 2.0]}, "row 1: an event without a group"),
        ({"t": [1.0]}, "events has no column 'station'"),
        ({"station": ["s0"], "a": [1.0], "b": [1.0]}, r"one with the name of a feature; it has \['a', 'b'\]"),
        ({"station": ["s0"]}, "must have one column beside 'station'"),
    ],
)
def test_events_that_make_no_sense_are_named(events, complaint):
    with pytest.raises(ValueError, match=complaint):
        fleet(readings(), WithEvents(SparseBiasGP(order="auto"), pd.DataFrame(events)))


def test_an_estimator_that_takes_no_events_is_refused():
    with pytest.raises(ValueError, match="GaussianGP takes no events"):
        fleet(readings(), WithEvents(GaussianGP(), [1.0]))


def test_verdicts_are_a_column_of_the_table():
    table = readings(2)
    row = int(np.flatnonzero(table["station"] == "s1")[4])
    table["judged"] = np.where(np.arange(len(table)) == row, 1.0, np.nan)
    found = fleet(table, WithEvents(SparseBiasGP(order=None), verdict="judged"))
    assert np.isnan(found.model("s0").verdict_).all()
    assert list(np.flatnonzero(found.model("s1").outlier_probability_ == 1.0)).count(4) == 1
    assert found.model("s1").verdict_[4] == 1.0
    with pytest.raises(ValueError, match="no column 'said'"):
        fleet(table, WithEvents(SparseBiasGP(), verdict="said"))
    with pytest.raises(ValueError, match="GaussianGP takes no verdict"):
        fleet(table, WithEvents(GaussianGP(), verdict="judged"))
