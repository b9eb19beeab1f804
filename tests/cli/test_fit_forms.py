"""From the command: results in the form of the table, flags that other tools know, and options in a file."""

from __future__ import annotations

import json
import tomllib

import numpy as np
import pandas as pd
import pytest

N = 40
QUICK = ("--response", "identity", "--no-episodes", "--kernel", "matern32")


def record():
    rng = np.random.default_rng(3)
    y = 20 + 4 * np.sin(np.arange(N) / 6) + rng.normal(0, 0.3, N)
    y[12] += 9.0
    y[30] = np.nan
    return pd.DataFrame({"time": pd.date_range("2024-05-01", periods=N, freq="h"), "ozone": np.round(y, 3)})


def dataset():
    found = record().set_index("time").to_xarray()
    found["ozone"].attrs = {
        "units": "1e-9",
        "long_name": "ozone",
        "standard_name": "mole_fraction_of_ozone_in_air",
    }
    found["time"].attrs = {"standard_name": "time", "long_name": "time", "axis": "T"}
    found["time"].encoding = {
        "units": "hours since 2024-05-01",
        "calendar": "standard",
        "dtype": "f8",
        "_FillValue": None,
    }
    about = {"institution": "a", "source": "b", "references": "c", "comment": "d"}
    found.attrs = {"Conventions": "CF-1.8", "title": "North mast", "history": "made by hand", **about}
    return found


@pytest.fixture
def fitted(run, tmp_path):
    def fitted(name, *words):
        result = run("fit", name, "--target", "ozone", "--features", "time", *QUICK, "--out", "o", *words)
        assert result.exit_code == 0, result.output
        return result

    return fitted


def test_netcdf_in_netcdf_out_with_flags_that_the_compliance_checker_takes(fitted, tmp_path):
    import xarray as xr
    from compliance_checker.runner import CheckSuite, ComplianceChecker

    dataset().to_netcdf(tmp_path / "in.nc", engine="h5netcdf")
    fitted("in.nc", "--flags", "qartod")
    out = tmp_path / "o" / "cleaned.nc"
    before = xr.open_dataset(tmp_path / "in.nc", engine="h5netcdf", decode_cf=False).load()
    after = xr.open_dataset(out, engine="h5netcdf", decode_cf=False).load()
    for name in before.variables:
        np.testing.assert_array_equal(after[name].values, before[name].values)
        kept = {key: value for key, value in after[name].attrs.items() if key != "ancillary_variables"}
        assert kept.keys() == before[name].attrs.keys() and after[name].dtype == before[name].dtype
    assert after.attrs["history"].endswith("made by hand") and "biasgp fit in.nc" in after.attrs["history"]
    flags = after["ozone_qartod"]
    assert flags.attrs["flag_meanings"] == "pass not_evaluated suspect fail missing"
    assert flags.values[12] == 4 and flags.values[30] == 9 and (np.delete(flags.values, [12, 30]) == 1).all()
    assert "ozone_qartod" in after["ozone"].attrs["ancillary_variables"].split()
    CheckSuite.load_all_available_checkers()
    report = tmp_path / "report.json"
    _, errors = ComplianceChecker.run_checker(
        str(out), ["cf:1.8"], 0, "normal", output_filename=str(report), output_format="json"
    )
    found = json.loads(report.read_text())["cf:1.8"]
    assert not errors and found["high_count"] == 0 and found["medium_count"] == 0, found["high_priorities"]


@pytest.mark.parametrize("kind", ["parquet", "feather", "xlsx"])
def test_tables_are_answered_in_their_own_form(fitted, tmp_path, kind):
    table = record()
    write = {"parquet": table.to_parquet, "feather": table.to_feather, "xlsx": lambda p: table.to_excel(p, index=False)}
    read = {"parquet": pd.read_parquet, "feather": pd.read_feather, "xlsx": pd.read_excel}
    write[kind](tmp_path / f"t.{kind}")
    fitted(f"t.{kind}", "--flags", "cf")
    after = read[kind](tmp_path / "o" / f"cleaned.{kind}")
    pd.testing.assert_frame_equal(after[["time", "ozone"]], table, check_dtype=False)
    assert after["ozone_cf"][12] == 1 and after["ozone_cf"][30] == 9 and after["ozone_cf"][0] == 0
    summary = json.loads((tmp_path / "o" / "summary.json").read_text(encoding="utf-8"))
    assert summary["flags"]["meanings"]["1"] == "spike" and summary["flags"]["rows"]["missing"] == 1
    assert (tmp_path / "o" / "cleaned.csv").exists()


def test_flags_that_the_table_has_are_compared_with(fitted, tmp_path):
    table = record().assign(ozone_qc=1)
    table.loc[[12, 13], "ozone_qc"] = 4
    table.to_csv(tmp_path / "t.csv", index=False)
    result = fitted("t.csv", "--flags", "qartod")
    assert "The table flags 2 of the readings used; 1 of these are flagged here as well." in result.output
    after = pd.read_csv(tmp_path / "o" / "cleaned.csv")
    assert after["ozone_qc"].tolist() == table["ozone_qc"].tolist() and after["ozone_qartod"][12] == 4


def test_thresholds_that_make_no_sense_are_refused(run, tmp_path):
    record().to_csv(tmp_path / "t.csv", index=False)
    result = run("fit", "t.csv", "--flags", "qartod", "--fail-at", "0.3")
    assert result.exit_code == 2 and "--suspect-at must be above 0" in result.output


def test_options_go_to_a_file_and_come_back(fitted, run, tmp_path):
    record().to_csv(tmp_path / "t.csv", index=False)
    fitted("t.csv", "--method", "gp", "--na", "-200", "--na", "bad", "--no-marks", "--save-config", "s.toml", "-q")
    said = tomllib.loads((tmp_path / "s.toml").read_text(encoding="utf-8"))
    assert said["na"] == ["-200", "bad"] and said["marks"] is False and said["method"] == "gp" and "quiet" not in said
    result = run("fit", "t.csv", "--config", "s.toml", "--out", "again", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["method"] == "gp" and "--no-marks" in summary["command"]
    # The command line comes first.
    result = run("fit", "t.csv", "--config", "s.toml", "--out", "third", "--response", "log", "--json")
    assert json.loads(result.stdout)["response"] == "log"


BAD_FILES = {
    "unknown": ('tagret = "y"', "there is no option 'tagret'. Did you mean 'target'?"),
    "list": ('target = ["a", "b"]', "target must be text, a number, or true or false"),
    "table": ("[target]\na = 1", "target must be text"),
    "no TOML": ("target = [1", "is no TOML"),
    "the table itself": ('config = "x"', "there is no option 'config'"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_file_of_options_that_makes_no_sense_is_refused(run, tmp_path, case):
    content, message = BAD_FILES[case]
    (tmp_path / "s.toml").write_text(content)
    result = run("fit", "t.csv", "--config", "s.toml")
    assert result.exit_code == 2 and message in " ".join(result.output.split())


def test_quiet_and_verbose(fitted, run, tmp_path):
    record().to_csv(tmp_path / "t.csv", index=False)
    assert fitted("t.csv", "--method", "gp", "--quiet").output == ""
    said = fitted("t.csv", "--method", "gp", "--verbose", "--force").output
    assert "Command: biasgp fit t.csv" in said and "Kernel: " in said
    result = run("fit", "t.csv", "--quiet", "--json")
    assert result.exit_code == 2 and "choose one" in result.output


def test_several_files_and_detection_limits(fitted, tmp_path):
    table = record().astype({"ozone": object})
    table.loc[5, "ozone"] = "<15.5"
    table[:20].to_csv(tmp_path / "a1.csv", index=False)
    table[20:].to_csv(tmp_path / "a2.csv", index=False)
    result = fitted("a*.csv")
    assert "Of 1 of them only a limit is known" in " ".join(result.output.split())
    after = pd.read_csv(tmp_path / "o" / "cleaned.csv")
    assert len(after) == N and after["ozone"][5] == "<15.5" and after["censored"][5] == -1
