"""`biasgp predict`, `biasgp compare`."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest

from biasgp.persistence import DIGEST, SEAL
from conftest import FEATURES, OUTLIERS, logged


def test_predictions_equal_those_of_the_fit(run, done, readings, tmp_path):
    result = run("predict", done[0] / "model.skops", readings)
    assert result.exit_code == 0, result.output
    predicted = pd.read_csv(tmp_path / "readings-predicted.csv")
    cleaned = pd.read_csv(done[0] / "cleaned.csv")
    np.testing.assert_array_equal(predicted["mean"], cleaned["mean"])
    np.testing.assert_array_equal(predicted["std"], cleaned["std"])
    assert (predicted["low_95"] < predicted["mean"]).all() and (predicted["mean"] < predicted["high_95"]).all()
    assert (predicted["reading_low_95"] < predicted["low_95"]).all()
    np.testing.assert_array_equal(np.flatnonzero(predicted["flag"]), OUTLIERS)
    assert (predicted["outlier_probability"][list(OUTLIERS)] > 0.9).all()


def test_without_the_target_nothing_is_judged_and_gaps_stay(run, done):
    new = logged(20).drop(columns=["no_ppb", "note"]).astype({"temperature_c": object})
    new.loc[4, "temperature_c"] = ""
    result = run("predict", done[0] / "model.skops", "-", "--out", "-", stdin=new.to_csv(index=False))
    predicted = pd.read_csv(io.StringIO(result.stdout))
    assert len(predicted) == 20 and "flag" not in predicted
    assert np.flatnonzero(predicted["mean"].isna()).tolist() == [4]


@pytest.mark.parametrize("suffix", [".xlsx", ".parquet", ".feather", ".nc"])
def test_predictions_come_in_the_form_of_the_table(run, done, readings, tmp_path, suffix):
    import xarray as xr

    model = done[0] / "model.skops"
    assert run("predict", model, readings, "--out", "text.csv").exit_code == 0
    text = pd.read_csv(tmp_path / "text.csv")
    table = pd.read_csv(readings, parse_dates=["time"])
    table["note"] = [f"n{i}" for i in range(len(table))]
    new = tmp_path / f"new{suffix}"
    if suffix == ".nc":
        about = {"history": "made by hand", "title": "North mast"}
        table.set_index("time").to_xarray().assign_attrs(about).to_netcdf(new, engine="h5netcdf")
    else:
        write = {".xlsx": table.to_excel, ".parquet": table.to_parquet, ".feather": table.to_feather}[suffix]
        write(new, index=False) if suffix != ".feather" else write(new)
    result = run("predict", model, new.name)
    assert result.exit_code == 0, result.output
    out = tmp_path / f"new-predicted{suffix}"
    prefix = "no_ppb_" if suffix == ".nc" else ""
    if suffix == ".nc":
        found = xr.open_dataset(out, engine="h5netcdf").load()
        assert found["no_ppb_low_95"].attrs["units"] == "ppb" and found.attrs["title"] == "North mast"
        first, *others = found.attrs["history"].split("\n")
        assert first.endswith("biasgp predict model.skops new.nc") and others == ["made by hand"]
        assert found["no_ppb"].attrs["ancillary_variables"].split()[0] == "no_ppb_mean"
    else:
        found = {".xlsx": pd.read_excel, ".parquet": pd.read_parquet, ".feather": pd.read_feather}[suffix](out)
        assert list(found.columns) == list(text.columns)
    for name in ("mean", "std", "low_95", "reading_high_95", "outlier_probability"):
        np.testing.assert_allclose(np.asarray(found[prefix + name], dtype=float), text[name], rtol=1e-5)
    np.testing.assert_allclose(np.asarray(found["no_ppb"], dtype=float), table["no_ppb"])
    assert run("predict", model, new.name, "--out", "as-text.csv").exit_code == 0
    assert list(pd.read_csv(tmp_path / "as-text.csv")["mean"]) == list(text["mean"])
    other = "p.parquet" if suffix != ".parquet" else "p.nc"
    result = run("predict", model, new.name, "--out", other)
    assert result.exit_code == 2 and f"ends in {suffix} or .csv" in " ".join(result.stderr.split())
    assert not (tmp_path / other).exists()


def test_detection_limits_are_not_judged_and_that_is_said(run, done, tmp_path):
    new = logged(20).astype({"no_ppb": object})
    new.loc[[3, 5], "no_ppb"] = "<0.5"
    new.to_csv(tmp_path / "new.csv", index=False)
    result = run("predict", done[0] / "model.skops", "new.csv")
    assert result.exit_code == 0 and "2 detection limits" in result.output
    predicted = pd.read_csv(tmp_path / "new-predicted.csv")
    assert np.flatnonzero(predicted["flag"].isna()).tolist() == [3, 5]
    assert predicted["no_ppb"][3] == "<0.5" and predicted["mean"].notna().all()


def test_what_cannot_be_predicted_is_refused(run, done, readings, tmp_path):
    model = done[0] / "model.skops"
    assert "no file" in run("predict", tmp_path / "no.skops", readings).stderr
    broken = tmp_path / "broken.skops"
    broken.write_bytes(model.read_bytes()[:5000])
    result = run("predict", broken, readings)
    assert result.exit_code == 2 and "cut short" in result.stderr
    logged().drop(columns="temperature_c").to_csv(tmp_path / "few.csv", index=False)
    assert "no column 'temperature_c'" in run("predict", model, "few.csv").stderr
    assert run("predict", model, readings, "--out", "p.csv").exit_code == 0
    assert run("predict", model, readings, "--out", "p.csv").exit_code == 2
    assert run("predict", model, readings, "--out", "p.csv", "--force").exit_code == 0
    assert not list(tmp_path.glob(".*"))


def forge(path, out, change):
    """The model file with other notes, and the right checksum."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "biasgp.json":
                note = json.loads(data)
                change(note["about"])
                data = json.dumps(note).encode()
            new.writestr(name, data)
        new.comment = SEAL + b"0" * DIGEST
    body = buffer.getvalue()[:-DIGEST]
    out.write_bytes(body + hashlib.sha256(body).hexdigest().encode())
    return out


FORGERIES = {
    "no target": lambda about: about.pop("target"),
    "a target that is a list": lambda about: about.update(target=["no_ppb"]),
    "features that are a word": lambda about: about.update(features="time"),
    "no features": lambda about: about.update(features=[]),
    "a feature too few": lambda about: about["features"].pop(),
    "another name": lambda about: about["features"][0].update(name="when"),
    "columns that are a word": lambda about: about["features"][1].update(columns="temperature_c"),
    "no columns": lambda about: about["features"][1].update(columns=[]),
    "an unknown field": lambda about: about["features"][0].update(surprise=1),
    "an origin that is no time": lambda about: about["features"][0].update(origin="yesterday or so"),
    "an origin that is a number": lambda about: about["features"][0].update(origin=[1]),
    "an origin in a zone": lambda about: about["features"][0].update(origin="2026-03-01T00:00+02:00"),
    "no ranges": lambda about: about.pop("ranges"),
    "ranges of words": lambda about: about.update(ranges=[["a", "b"], ["c", "d"]]),
    "too few ranges": lambda about: about["ranges"].pop(),
    "ranges without end": lambda about: about.update(ranges=[[0.0, float("inf")], [0.0, 1.0]]),
}


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES)
def test_forged_notes_are_refused_in_one_line(run, done, readings, tmp_path, change):
    path = forge(done[0] / "model.skops", tmp_path / "forged.skops", change)
    result = run("predict", path, readings)
    assert result.exit_code == 2
    assert "forged.skops is damaged or forged" in result.stderr and len(result.stderr.splitlines()) == 1
    assert not list(tmp_path.glob("*predicted*"))


def test_notes_that_are_not_forged_are_not_refused(run, done, readings, tmp_path):
    path = forge(done[0] / "model.skops", tmp_path / "same.skops", lambda about: None)
    assert run("predict", path, readings).exit_code == 0


def test_compare_ranks_the_methods_with_their_errors(run, readings, tmp_path):
    words = ("--methods", "sparse,gp,cob", "--folds", "3", "--response", "identity", "--out", "scores.csv")
    result = run("compare", readings, "--target", "no_ppb", *FEATURES, *words)
    assert result.exit_code == 0, result.output
    scores = pd.read_csv(tmp_path / "scores.csv").set_index("method")
    assert scores.index[0] == "sparse" and scores.loc["sparse", "as_good_as_best"]
    assert scores.loc["sparse", "log_density"] > scores.loc["gp", "log_density"]
    assert (scores[["median_error_se", "trimmed_nlpd_se", "log_density_se"]] > 0).all(axis=None)
    assert "sparse" in result.output and "±" in result.output


def test_compare_goes_on_when_a_method_fails(run, readings, monkeypatch):
    from biasgp import CovarianceError, GaussianGP

    def fail(*_: object) -> None:
        raise CovarianceError("Singular.")

    monkeypatch.setattr(GaussianGP, "fit", fail)
    words = ("--methods", "gp,cob", "--folds", "2", "--response", "identity")
    result = run("compare", readings, "--target", "no_ppb", *FEATURES, *words)
    assert result.exit_code == 0 and "gp failed: Singular." in result.output
    assert run("compare", readings, "--methods", "gp", "--response", "identity").exit_code == 1


@pytest.mark.parametrize("words", [("--methods", "magic"), ("--target", "x"), ("--folds", "1")])
def test_compare_refuses(run, readings, words):
    assert run("compare", readings, *words).exit_code == 2
