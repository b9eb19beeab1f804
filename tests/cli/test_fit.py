"""`biasgp fit`: what it writes, what it says, and how it refuses."""

from __future__ import annotations

import json
import os

import numpy as np
import pandas as pd
import pytest

from conftest import FEATURES, OUTLIERS, N, logged

FILES = {"cleaned.csv", "model.skops", "report.html", "summary.json"}


def test_four_files_and_nothing_else(done):
    folder, _ = done
    assert {path.name for path in folder.iterdir()} == FILES
    assert {path.name for path in folder.parent.iterdir()} == {"readings.csv", "out"}
    assert folder.stat().st_mode & 0o777 == 0o755 & ~_umask() | 0o700


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_every_row_is_in_the_cleaned_table_with_what_was_found(done):
    cleaned = pd.read_csv(done[0] / "cleaned.csv")
    assert list(cleaned.columns[:5]) == list(logged().columns)
    found = ["mean", "std", "bias", "outlier_probability", "flag", "use", "expected", "log_odds", "episode", "kind"]
    assert list(cleaned.columns[5:]) == found
    assert len(cleaned) == N
    np.testing.assert_array_equal(np.flatnonzero(cleaned["flag"]), OUTLIERS)
    np.testing.assert_allclose(cleaned["bias"][list(OUTLIERS)], 12.0, atol=1.5)
    assert (cleaned["outlier_probability"][list(OUTLIERS)] > 0.9).all()


def test_the_summary_for_machines(done):
    summary = json.loads((done[0] / "summary.json").read_text(encoding="utf-8"))
    assert summary["rows"] == {"read": N, "used": N, "fitted": N, "held_out": 0, "left_out": {}, "censored": 0}
    assert [reading["row"] - 1 for reading in summary["flagged"]] == list(OUTLIERS)
    assert summary["flagged"][0]["time"] == "2026-03-01 11:00"
    assert summary["flag_column"]["recall"] == summary["flag_column"]["precision"] == 1.0
    assert 0.0 < summary["noise_std"] < 0.6
    assert isinstance(summary["trustworthy"], bool)


def test_the_summary_for_people(done):
    _, output = done
    for words in ("80 of 80 rows are used", "ppb (one standard deviation)", "time: ", "4 readings are flagged"):
        assert words in output
    assert "2026-03-01 11:00" in output and "report.html" in output and "s of it for the fit" in output


def test_the_report_tells_the_same(done):
    page = (done[0] / "report.html").read_text(encoding="utf-8")
    assert "Flagged readings: 4" in page and "2026-03-02 07:00" in page
    assert "biasgp fit readings.csv --target no_ppb --features time,temperature_c" in page


def test_guesses_are_printed_and_the_folder_is_named_after_the_table(run, readings, tmp_path):
    result = run("fit", readings, "--method", "gp", "--response", "identity")
    assert result.exit_code == 0
    assert "Target: 'no_ppb'" in result.stderr and "'time', 'temperature_c'" in result.stderr
    assert (tmp_path / "readings-no_ppb" / "report.html").exists()


def test_an_existing_folder_is_kept_without_force_and_its_other_files_with_it(run, readings, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    words = ("fit", readings, *FEATURES, "--method", "gp", "--response", "identity", "--out", "out")
    refused = run(*words)
    assert refused.exit_code == 2 and "--force" in refused.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]
    assert run(*words, "--force").exit_code == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES | {"mine.txt"}
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("method", ["cob", "rab", "ep", "rcgp"])
def test_other_methods_have_a_page_and_a_table_too(run, readings, tmp_path, method):
    result = run(
        "fit", readings, *FEATURES, "--method", method, "--response", "identity", "--kernel", "se", "--out", "o"
    )
    assert result.exit_code == 0, result.output
    flags = pd.read_csv(tmp_path / "o" / "cleaned.csv")["flag"][list(OUTLIERS)]
    # RCGP names but the farthest: the leave-one-out density that its parameters maximise counts outliers in full.
    assert flags.sum() == 1 if method == "rcgp" else flags.all()


def test_rows_held_out_are_scored_and_judged(run, readings, tmp_path):
    result = run("fit", readings, *FEATURES, "--test-fraction", "0.25", "--response", "identity", "--out", "o")
    summary = json.loads((tmp_path / "o" / "summary.json").read_text(encoding="utf-8"))
    assert summary["rows"]["held_out"] == 20 and summary["rows"]["fitted"] == 60
    assert summary["test"]["median_absolute_error"] < 1.5
    assert "readings held out" in result.output
    cleaned = pd.read_csv(tmp_path / "o" / "cleaned.csv")
    assert (cleaned["use"] == "held out").sum() == 20
    assert cleaned["flag"][list(OUTLIERS)].all()


def test_rows_left_out_are_counted_and_predicted_where_possible(run, tmp_path):
    frame = logged().astype({"no_ppb": object, "temperature_c": object})
    frame.loc[3, "no_ppb"], frame.loc[5, "temperature_c"] = -200, ""
    frame.to_csv(tmp_path / "r.csv", index=False)
    words = ("--na", "-200", "--where", "time < '2026-03-04'", "--method", "gp", "--response", "identity", "--out", "o")
    result = run("fit", "r.csv", "--target", "no_ppb", *FEATURES, *words)
    assert result.exit_code == 0, result.output
    assert "70 of 80 rows are used" in result.output
    for reason in (
        "8 rows where --where",
        "1 rows where 'no_ppb' is missing",
        "1 rows where 'temperature_c' is missing",
    ):
        assert reason in result.output
    cleaned = pd.read_csv(tmp_path / "o" / "cleaned.csv")
    assert np.isfinite(cleaned["mean"][3]) and np.isnan(cleaned["mean"][5])
    assert np.isnan(cleaned["flag"][3])


def test_too_many_rows_are_thinned_for_the_fit_and_it_is_said(run, readings, tmp_path):
    result = run("fit", readings, *FEATURES, "--max-rows", "50", "--response", "identity", "--out", "o")
    assert result.exit_code == 0
    assert "fitted to 50 of them" in result.stderr and "fitted to 50 rows" in result.output
    cleaned = pd.read_csv(tmp_path / "o" / "cleaned.csv")
    assert (cleaned["use"] == "judged only").sum() == 30 and cleaned["mean"].notna().all()
    assert cleaned["flag"][list(OUTLIERS)].all()


def test_reads_standard_input(run, readings):
    words = ("--method", "gp", "--response", "identity", "--out", "o")
    assert run("fit", "-", *FEATURES, *words, stdin=readings.read_text()).exit_code == 0


def test_formulas_and_markup_come_out_inert(run, tmp_path):
    frame = logged().rename(columns={"temperature_c": "=T<script>alert(1)</script>"})
    frame.loc[0, "note"] = '=HYPERLINK("http://x","y")'
    frame.loc[1, "note"] = "<script>alert(1)</script>"
    frame.loc[2, "note"] = "@SUM(A1)"
    frame.loc[4, "note"] = "-2+3+cmd|' /C calc'!A0"
    frame["no_ppb"] -= 100.0
    frame.to_csv(tmp_path / "r.csv", index=False)
    names = "time,=T<script>alert(1)</script>"
    words = ("--target", "no_ppb", "--method", "gp", "--response", "identity", "--out", "o")
    result = run("fit", "r.csv", "--features", names, *words)
    assert result.exit_code == 0, result.output
    cleaned = pd.read_csv(tmp_path / "o" / "cleaned.csv")
    assert cleaned.columns[1].startswith("'=")
    assert cleaned["note"][[0, 2, 4]].str.startswith("'").all()
    assert cleaned["no_ppb"].dtype == float and (cleaned["no_ppb"] < 0).all()
    page = (tmp_path / "o" / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page


def test_a_name_that_is_taken_gets_a_prefix(run, tmp_path):
    logged().rename(columns={"note": "mean"}).to_csv(tmp_path / "r.csv", index=False)
    run("fit", "r.csv", *FEATURES, "--target", "no_ppb", "--method", "gp", "--response", "identity", "--out", "o")
    assert "biasgp_mean" in pd.read_csv(tmp_path / "o" / "cleaned.csv").columns


REFUSED = {
    "missing file": (("fit", "reading.csv"), "Did you mean 'readings.csv'"),
    "unknown target": (("fit", "readings.csv", "--target", "no_pbb"), "Did you mean 'no_ppb'"),
    "unknown method": (("fit", "readings.csv", "--method", "magic"), "'magic' is not one of"),
    "constant": (("fit", "readings.csv", "--where", "no_ppb == 1"), "0 usable rows"),
    "unknown option": (("fit", "readings.csv", "--targt", "x"), "--targt"),
    "share": (("fit", "readings.csv", "--test-fraction", "2"), "test-fraction"),
    "out is a file": (("fit", "readings.csv", "--out", "readings.csv"), "is a file"),
    "unwritable": (("fit", "readings.csv", "--out", "/proc/nowhere/out"), "Nothing can be written"),
    "no command": (("fitt",), "fit"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_use_is_one_line_and_exit_code_2(run, readings, tmp_path, case):
    words, message = REFUSED[case]
    result = run(*words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["readings.csv"]
    # Words that are none of the command's get its usage too.
    is_usage = case in {"unknown method", "unknown option", "share", "no command"}
    assert result.stderr.startswith("Usage: " if is_usage else "Error: ")
    assert is_usage or len(result.stderr.strip().splitlines()) == 1


def test_a_failed_fit_is_one_line_and_exit_code_1(run, readings, tmp_path, monkeypatch):
    from biasgp import CovarianceError, GaussianGP

    def fail(*_: object) -> None:
        raise CovarianceError("The covariance matrix is not positive definite.")

    monkeypatch.setattr(GaussianGP, "fit", fail)
    result = run("fit", readings, *FEATURES, "--method", "gp", "--out", "o")
    assert result.exit_code == 1 and result.stderr.splitlines()[-1].startswith("Error: The fit failed")
    assert [path.name for path in tmp_path.iterdir()] == ["readings.csv"]


def test_what_nobody_thought_of_is_still_one_line(run, readings, monkeypatch):
    from biasgp import GaussianGP

    def fail(*_: object) -> None:
        raise KeyError("odd")

    monkeypatch.setattr(GaussianGP, "fit", fail)
    result = run("fit", readings, *FEATURES, "--method", "gp", "--out", "o")
    assert result.exit_code == 1 and "KeyError" in result.stderr and "Traceback" not in result.output


def test_a_fit_that_was_ended_by_max_time_says_so(run, readings, tmp_path):
    result = run("fit", readings, *FEATURES, "--max-time", "0.001", "--out", "o")
    assert result.exit_code == 0, result.output
    words = "ended after 0.001 s"
    assert words in result.output
    summary = json.loads((tmp_path / "o" / "summary.json").read_text(encoding="utf-8"))
    assert any(words in doubt for doubt in summary["doubts"]) and not summary["trustworthy"]
    page = (tmp_path / "o" / "report.html").read_text(encoding="utf-8")
    assert words in page and "--max-time 0.001" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--max-time", "-3"), "--max-time must be a number of seconds above 0, got -3"),
        (("--max-time", "nan"), "--max-time must be a number of seconds above 0, got nan"),
        (("--max-time", "5", "--method", "ep"), "--max-time cannot end a fit by 'ep' early; use --max-rows"),
    ],
)
def test_a_max_time_that_makes_no_sense_is_refused(run, readings, tmp_path, words, message):
    result = run("fit", readings, *FEATURES, *words, "--out", "o")
    assert result.exit_code == 2 and message in result.stderr and len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "o").exists()


def test_a_long_fit_is_announced_from_what_was_measured(run, tmp_path, monkeypatch):
    from biasgp.cli import progress
    from biasgp.runner import progress as lines

    monkeypatch.setattr(progress, "QUICK", 0.0)
    monkeypatch.setattr(progress, "LONG", 0.0)
    monkeypatch.setattr(lines, "SECONDS_BETWEEN_LINES", 0.0)
    rng = np.random.default_rng(0)
    t = np.arange(1700.0)
    table = pd.DataFrame({"t": t, "y": np.sin(t / 100.0) + 0.1 * rng.standard_normal(len(t))})
    table.to_csv(tmp_path / "many.csv", index=False)
    result = run("fit", "many.csv", "--response", "identity", "--kernel", "se", "--out", "o")
    assert result.exit_code == 0, result.output
    assert "beside its nearest neighbours only" in result.stderr
    assert "minute" not in result.stderr
    assert result.stderr.count("--max-rows fits to fewer rows") == 1 and "--max-time ends the search" in result.stderr
    assert "Fitting (all readings): about" in result.stderr and "Fitting (predicting every row): about" in result.stderr


def test_time_alone_is_fitted_exactly_at_any_length(run, tmp_path):
    rng = np.random.default_rng(0)
    t = np.arange(1700.0)
    table = pd.DataFrame({"t": t, "y": np.sin(t / 100.0) + 0.1 * rng.standard_normal(len(t))})
    table.to_csv(tmp_path / "many.csv", index=False)
    result = run("fit", "many.csv", "--response", "identity", "--out", "o")
    assert result.exit_code == 0, result.output
    assert "neighbours" not in result.stderr
    page = (tmp_path / "o" / "report.html").read_text(encoding="utf-8")
    assert "shifts and drifts of up to 150 rows are looked for" in page


def test_no_row_of_the_fit_is_judged_by_another_prediction(run, readings, monkeypatch):
    from biasgp import SparseBiasGP

    asked = []
    judged = SparseBiasGP.outlier_probability
    monkeypatch.setattr(
        SparseBiasGP, "outlier_probability", lambda self, X, y: asked.append(len(X)) or judged(self, X, y)
    )
    assert run("fit", readings, *FEATURES, "--out", "o").exit_code == 0
    assert asked == []
    assert run("fit", readings, *FEATURES, "--test-fraction", "0.25", "--out", "p").exit_code == 0
    assert asked == [20]


def test_findings_are_told_in_the_words_of_the_command(run, readings, tmp_path, monkeypatch):
    from biasgp.models import diagnosis

    monkeypatch.setattr(diagnosis, "POLICY", diagnosis._DiagnosisPolicy(tail=-10.0, far=0.5))
    for response, advice in (("auto", "cob."), ("identity", "cob, or try --response auto.")):
        words = ("--response", response, "--max-rows", "60", "--out", response)
        result = run("fit", readings, *FEATURES, *words)
        assert result.exit_code == 0, result.output
        summary = json.loads((tmp_path / response / "summary.json").read_text(encoding="utf-8"))
        page = (tmp_path / response / "report.html").read_text(encoding="utf-8")
        found = next(note for note in summary["notes"] if note["code"] == "heavy-tail")
        rows = found["rows"]
        assert rows and not set(rows) & {i + 1 for i in OUTLIERS} and max(rows) > 60
        told = f"Outliers may hide among them. Compare with --method {advice} Rows to look at: "
        assert told in page and told in result.output and told in found["text"]
        assert str(rows[0]) in found["text"].rpartition("Rows")[2]
