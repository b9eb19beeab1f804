"""The sensor study: its protocol, its data, and that it runs on any CSV."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from biasgp import study
from biasgp.study.methods import Method
from biasgp.study.readings import StudyReadings, built_in, read
from biasgp.study.results import SENSOR_COLUMNS

# The function of that name hides the module.
module = sys.modules["biasgp.study.sensor"]


@pytest.fixture
def table(tmp_path):
    """Forty hourly readings with four flagged ones, and a row without humidity."""
    rng = np.random.default_rng(0)
    lines = ["time,temperature_c,humidity_pct,so2,so2_flag"]
    for i in range(40):
        flag, value = ("#", 50.0 + i) if i % 10 == 3 else ("", 5.0 + np.sin(i / 5.0) + 0.1 * rng.standard_normal())
        humidity = "" if i == 7 else f"{60 + i % 3}"
        lines.append(f"2005-03-{24 + i // 24:02d}T{i % 24:02d}:00:00,{20 + i % 5},{humidity},{value},{flag}")
    path = tmp_path / "readings.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def cell(**values):
    given = {"dataset": "d", "response": "r", "number": 0, "share": 0.2, "replicate": 0, "ard": True, "seed": 0}
    return module.SensorCell(method=Method("m", lambda setting: None), **given | values)


def test_the_protocol_is_the_papers():
    data = built_in(0)["o3_ppb"]
    y, replaced = module.replace_records(data, cell())
    assert replaced.sum() == 280
    assert not np.any(replaced & data.flagged)
    assert set(y[replaced]) <= set(data.y[data.flagged])
    np.testing.assert_array_equal(y[~replaced], data.y[~replaced])
    again, _ = module.replace_records(data, cell(dataset="other"))
    np.testing.assert_array_equal(y, again)
    other, _ = module.replace_records(data, cell(replicate=1))
    assert not np.array_equal(y, other)


def test_a_csv_is_read_as_hours_numbers_and_flags(table):
    data = read(table, ["so2"], ["so2_flag"])["so2"]
    assert isinstance(data, StudyReadings)
    assert data.X.shape == (39, 3)
    assert data.X[0, 0] == 0.0
    assert data.X[-1, 0] == 39.0
    assert data.flagged.sum() == 4
    assert data.f is None


@pytest.mark.parametrize(
    ("responses", "flags", "message"),
    [(["so3"], ["so2_flag"], "no column so3"), (["so2"], [], "one flag column"), (["so2"], ["so2x"], "no column so2x")],
)
def test_wrong_columns_are_named(table, responses, flags, message):
    with pytest.raises(ValueError, match=message):
        study.sensor(table.parent / "out", data=table, responses=responses, flags=flags)


def test_a_csv_goes_through_the_whole_study(tmp_path, table, median):
    methods = ["oracle", "cob", "sparse@auto", median]
    options = {"data": table, "responses": ["so2"], "methods": methods, "replicates": 2, "progress": False}
    results = study.sensor(tmp_path / "study", **options)
    assert tuple(results.rows[0]) == SENSOR_COLUMNS
    assert [row["status"] for row in results.rows] == ["ok"] * len(results.rows)
    scored = [row for row in results.rows if row["share"] > 0]
    assert len(scored) == 2 * 2 * 4
    assert all(np.isfinite(row["mse"]) and np.isnan(row["mse_f"]) for row in scored)
    recorded = {row["method"]: row for row in results.rows if row["share"] == 0}
    assert set(recorded) == {"cob", "sparse@auto", "median"}
    assert recorded["cob"]["n_gross"] == 4
    assert recorded["cob"]["gross_found"] == 1.0
    with pytest.raises(study.ConfigurationError, match="fingerprint"):
        table.write_text(table.read_text().replace("5.", "6.", 1))
        study.sensor(tmp_path / "study", **options)


def test_the_built_in_campaign_has_its_truth(tmp_path, median):
    results = study.sensor(tmp_path, methods=[median], replicates=1, shares=[0.1], progress=False)
    assert {row["response"] for row in results.rows} == {"no_ppb", "o3_ppb"}
    contaminated = [row["mse_f"] for row in results.rows if row["share"] > 0]
    assert len(contaminated) == 2 and np.isfinite(contaminated).all()
    assert len(results.curves["readings/o3_ppb"]["y"]) == 1400
    assert sum(results.curves["readings/o3_ppb"]["flagged"]) == 45


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"responses": ["co"]}, "Unknown response: co"),
        ({"kernel": "rbf"}, "kernel"),
        ({"shares": [0.0]}, "shares"),
        ({"replicates": 0}, "replicates"),
    ],
)
def test_wrong_use_is_named(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        study.sensor(tmp_path / "new", **options)
