"""The sensor study: its protocol, its data, and that it runs on any CSV."""

from __future__ import annotations

import numpy as np
import pytest

from biasgp import study
from biasgp.data import campaign
from biasgp.inputs import POINTS
from biasgp.report.study_figures import pictures
from biasgp.study import Execution, SensorDesign
from biasgp.study.results import COLUMNS

QUIET = Execution(progress=False)


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


def test_the_protocol_is_the_papers(tmp_path, median):
    data = campaign(random_state=0).o3
    shown = np.array([float(f"{value:.5g}") for value in data.y])  # as curves have it
    design = SensorDesign(responses=["o3_ppb"], shares=[0.2], replicates=2, methods=[median])
    results = study.sensor(tmp_path, design, QUIET)
    curve = results.curves["campaign/o3_ppb/0.2/r00/median"]
    y, replaced = np.array(curve["y"]), np.array(curve["replaced"]) > 0
    assert replaced.sum() == 280
    assert not np.any(replaced & data.is_outlier)
    assert set(y[replaced]) <= set(shown[data.is_outlier])
    np.testing.assert_array_equal(y[~replaced], shown[~replaced])
    first, second = (row["mse"] for row in results.rows if row["share"] > 0)
    assert first != second


def test_the_replaced_records_do_not_depend_on_the_name_of_the_file(tmp_path, table, median):
    other = table.with_name("other.csv")
    other.write_text(table.read_text())
    curves = []
    for path in (table, other):
        design = SensorDesign(data=path, responses=["so2"], shares=[0.2], replicates=1, methods=[median])
        results = study.sensor(tmp_path / path.stem, design, QUIET)
        curves.append(results.curves[f"{path.stem}/so2/0.2/r00/median"])
    assert curves[0] == curves[1]


def test_the_fit_over_a_gap_is_drawn_with_its_own_band(tmp_path, registered):
    """A method that predicts the temperature shows at which inputs the fit was asked for."""

    class Temperature:
        def fit(self, X, y):
            return self

        def predict(self, X, return_std=False):
            return X[:, 1].copy(), 1.0 + X[:, 2]

    registered("temperature", lambda setting: Temperature())
    hours = [*range(20), *range(44, 64)]
    rows = [f"{h},{10 + h},{0.5 * h},{h % 7}.5,{'#' if h % 9 == 4 else ''}" for h in hours]
    path = tmp_path / "readings.csv"
    path.write_text("\n".join(["time,temperature_c,humidity_pct,so2,so2_flag", *rows]) + "\n")
    design = SensorDesign(data=path, responses=["so2"], shares=[0.2], replicates=1, methods=["temperature"])
    results = study.sensor(tmp_path / "study", design, QUIET)
    curve = results.curves["readings/so2/0.2/r00/temperature"]
    inside = np.array(curve["gap_time"])
    assert len(inside) == POINTS and inside.min() > 19.0 and inside.max() < 44.0
    np.testing.assert_allclose(curve["gap_mean"], 10.0 + inside, rtol=1e-4)
    np.testing.assert_allclose(curve["gap_std"], 1.0 + 0.5 * inside, rtol=1e-4)
    picture = next(each for each in pictures(results) if each.name == "figure12")
    assert "interpolated linearly" in picture.caption
    solid, dashed = picture.figure.axes[0].lines[-2:]
    assert np.isnan(solid.get_ydata()).sum() == 1  # broken off, and the gap has its own line
    days, drawn = dashed.get_data()
    assert 24.0 * days[np.isfinite(drawn)][[0, -1]] == pytest.approx([19.0, 44.0])
    assert len(picture.figure.axes[0].collections) == 2
    for name in ("gap_time", "gap_mean", "gap_std"):  # as studies of earlier versions have it
        del curve[name]
    picture = next(each for each in pictures(results) if each.name == "figure12")
    assert "interpolated" not in picture.caption and len(picture.figure.axes[0].collections) == 1


def test_a_csv_is_read_as_hours_numbers_and_flags(tmp_path, table, registered, median):
    seen = []

    def recording(setting):
        seen.append((setting.n_readings, setting.n_features))
        raise RuntimeError("seen")

    registered("recording", recording)
    design = SensorDesign(data=table, responses=["so2"], methods=["recording", median], replicates=1, shares=[0.1])
    data = study.sensor(tmp_path / "study", design, QUIET).curves["readings/so2"]
    assert set(seen) == {(39, 3)}
    assert (data["time"][0], data["time"][-1]) == (0.0, 39.0)
    assert (len(data["y"]), sum(data["flagged"]), data["f"]) == (39, 4, None)


@pytest.mark.parametrize(
    ("responses", "flags", "message"),
    [(["so3"], ["so2_flag"], "no column so3"), (["so2"], [], "one flag column"), (["so2"], ["so2x"], "no column so2x")],
)
def test_wrong_columns_are_named(table, responses, flags, message):
    with pytest.raises(ValueError, match=message):
        study.sensor(table.parent / "out", SensorDesign(data=table, responses=responses, flags=flags))


def test_a_csv_goes_through_the_whole_study(tmp_path, table, median):
    methods = ["oracle", "cob", "sparse@auto", median]
    design = SensorDesign(data=table, responses=["so2"], methods=methods, replicates=2)
    results = study.sensor(tmp_path / "study", design, QUIET)
    assert tuple(results.rows[0]) == COLUMNS["sensor"]
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
        study.sensor(tmp_path / "study", design, QUIET)


def test_the_built_in_campaign_has_its_truth(tmp_path, median):
    results = study.sensor(tmp_path, SensorDesign(methods=[median], replicates=1, shares=[0.1]), QUIET)
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
        study.sensor(tmp_path / "new", SensorDesign(**options))
