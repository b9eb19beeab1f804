"""The study on tables: its rows, what it says of them, and the command."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from biasgp import study
from biasgp.cli.study import _REGIMES, app
from biasgp.data import REGIMES
from biasgp.study import Execution, TablesDesign, beside_oracle
from biasgp.study.results import COLUMNS, RESULTS, TASKS

QUIET = Execution(progress=False)
TIMES = ("fit_s", "predict_s")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two small tables, and a file that is none."""
    place = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    for name, d in (("wide", 3), ("narrow", 1)):
        X = rng.uniform(-2.0, 2.0, (70, d))
        y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(70)
        np.savetxt(place / f"{name}.csv", np.column_stack([X, y]), delimiter=",")
    (place / "README.txt").write_text("no table")
    return place


def without_times(rows):
    return [{name: str(value) for name, value in row.items() if name not in TIMES} for row in rows]


def test_every_method_on_every_table_and_regime(folder, tmp_path, median):
    design = TablesDesign(folder, regimes=["shift", "none"], replicates=2, methods=["oracle", "gp", median])
    results = study.dirty_tables(tmp_path, design, QUIET)
    assert tuple((tmp_path / RESULTS).read_text().splitlines()[0].split(",")) == COLUMNS["tables"]
    places = {(row["dataset"], row["regime"], row["replicate"], row["method"]) for row in results.rows}
    assert len(places) == len(results.rows) == 2 * 2 * 2 * 3
    assert [row["regime"] for row in results.rows[:7]] == ["none"] * 6 + ["shift"]  # in their own order
    assert {row["status"] for row in results.rows} == {"ok"}
    described = json.loads((tmp_path / "study.json").read_text())
    assert [text.split()[0] for text in described["configuration"]["tables"]] == ["narrow", "wide"]
    assert str(folder) not in (tmp_path / "study.json").read_text()
    rows = {(row["dataset"], row["regime"], row["replicate"], row["method"]): row for row in results.rows}
    for table in ("wide", "narrow"):
        clean, dirty = rows[table, "none", 0, "gp"], rows[table, "shift", 0, "gp"]
        assert clean["mae"] == rows[table, "none", 0, "oracle"]["mae"]
        assert clean["nlpd_dirty"] == pytest.approx(clean["nlpd_exact"])  # nothing is dirtied
        assert dirty["mae"] > 2.0 * rows[table, "shift", 0, "oracle"]["mae"]
        # The oracle knows of no outliers: readings four standard deviations out cost it dear.
        assert rows[table, "shift", 0, "oracle"]["nlpd_dirty"] > 10.0 > dirty["nlpd_dirty"]


def test_it_goes_on_where_it_was_and_any_part_gives_the_same_numbers(folder, tmp_path, registered, median):
    whole = TablesDesign(folder, replicates=2, methods=["gp", median])
    first = study.dirty_tables(tmp_path / "whole", whole, QUIET)
    part = TablesDesign(folder, regimes=["heavy"], replicates=1, methods=["gp"])
    same = [row for row in first.rows if (row["regime"], row["replicate"], row["method"]) == ("heavy", 0, "gp")]
    assert without_times(study.dirty_tables(tmp_path / "part", part, QUIET).rows) == without_times(same)

    def never(setting):
        raise AssertionError("run again")

    registered("median", never)
    (tmp_path / "whole" / TASKS).unlink()
    again = study.dirty_tables(tmp_path / "whole", whole, QUIET)
    assert [list(map(str, row.values())) for row in again.rows] == [list(map(str, row.values())) for row in first.rows]
    other = TablesDesign(folder, replicates=2, methods=["gp", median], seed=1)
    with pytest.raises(study.ConfigurationError, match="seed: 0 there, 1 here"):
        study.dirty_tables(tmp_path / "whole", other, QUIET)


def test_estimators_have_their_own_defaults_here(folder, tmp_path, monkeypatch):
    seen = []

    def only_made(self, method, setting):
        seen.append(method.make(setting))
        raise RuntimeError("not fitted")

    monkeypatch.setattr("biasgp.study.scoring.Trial.fit_and_score", only_made)
    study.dirty_tables(tmp_path, TablesDesign(folder, regimes=["none"], replicates=1, methods=["ep", "sparse"]), QUIET)
    assert {model.get_params().get("noise") for model in seen} == {"core", None}


def made_up(scores):
    """Rows of two draws, from {method: (MAE of each, NLPD of each)}."""
    shared = {"dataset": "a", "regime": "none", "status": "ok", "message": "", "fit_s": 1.0}
    return [
        shared | {"replicate": k, "method": method, "mae": mae, "crps": mae, "nlpd": nlpd, "nlpd_dirty": nlpd}
        for method, both in scores.items()
        for k, (mae, nlpd) in enumerate(zip(*both, strict=True))
    ]


def test_the_summary_is_paired_with_the_oracle():
    rows = made_up({"oracle": ([1.0, 2.0], [0.0, 1.0]), "a": ([2.0, 1.0], [100.0, 0.9]), "b": ([1.1, 2.2], [0.1, 1.1])})
    header, lines = beside_oracle.summary(rows).header, {line[0]: line for line in beside_oracle.summary(rows).lines}
    a, b = (dict(zip(header, lines[name], strict=True)) for name in ("a", "b"))
    assert a["MAE ÷ oracle's"] == "1.000"  # twice and half
    assert a["above 1.25"] == "1 of 2"
    assert a["NLPD − oracle's: median; mean"] == "+49.950; +9.950"  # 100 counts as 20
    assert b["MAE ÷ oracle's"] == "1.100"
    assert (a["mean rank: CRPS"], b["mean rank: CRPS"]) == ("1.50", "1.50")
    assert lines["oracle"][6] == "–"  # it is told, so it has no rank
    rows[2]["status"] = "failed"
    failed = {line[0]: line for line in beside_oracle.summary(rows).lines}["a"]
    assert (failed[1], failed[3], failed[8]) == ("0.500", "0 of 1", "1")
    assert beside_oracle.split_by(rows, "regime", "t").lines == [["none", "0.500; -0.100", "1.100; +0.100"]]


def test_without_an_oracle_there_is_nothing_to_compare_with():
    rows = made_up({"a": ([2.0, 1.0], [0.3, 0.9]), "b": ([1.1, 2.2], [0.1, 1.1])})
    (a, _), (by_regime,) = beside_oracle.summary(rows).lines, beside_oracle.split_by(rows, "regime", "t").lines
    assert a[1:6] == ["–"] * 5
    assert a[6:] == ["1.50", "1.50", "0", "1.00"]  # ranks need none
    assert by_regime == ["none", "–", "–"]
    assert beside_oracle.ratio_rows(rows) == []


def test_the_command_runs_reports_and_refuses(folder, tmp_path):
    runner, out = CliRunner(), tmp_path / "study"
    options = ["tables", str(folder), "--methods", "gp,oracle,rcgp", "--regimes", "none,focused", "--replicates", "1"]
    result = runner.invoke(app, [*options, "--out", str(out), "--no-report"])
    assert result.exit_code == 0, result.output
    assert "12 rows, 0 not ok" in result.output
    assert runner.invoke(app, ["report", str(out)]).exit_code == 0
    text = (out / "report.html").read_text()
    assert not re.search(r"""(src|href)=["'](?!data:)""", text)
    for said in ("Beside the oracle", "By regime", "By table", "NLPD of dirty readings", "rcgp"):
        assert said in text
    assert (out / "figures" / "mae.svg").exists()
    assert (out / "figures" / "ranking-tables-crps.png").exists()
    for given, said in (
        (["tables", str(tmp_path / "none"), "--out", str(out)], "is no folder"),
        (["tables", str(out / "figures"), "--out", str(tmp_path / "new")], "no file whose name ends in .csv"),
        ([*options[:4], "--regimes", "easy", "--out", str(tmp_path / "new")], "Unknown regime: easy"),
        ([*options[:2], "--methods", "nope", "--out", str(tmp_path / "new")], "no method 'nope'"),
    ):
        refused = runner.invoke(app, given)
        assert refused.exit_code == 2, refused.output
        assert said in " ".join(refused.output.split())
    assert not (tmp_path / "new").exists()


def test_a_bad_table_is_named_before_anything_is_run(tmp_path, median):
    (tmp_path / "good.csv").write_text("\n".join(f"{i},{i * i}" for i in range(60)))
    (tmp_path / "words.csv").write_text("a,b\nc,d\n")
    with pytest.raises(ValueError, match=r"words\.csv.*line 2, column 1: 'c' is no number"):
        study.dirty_tables(tmp_path / "study", TablesDesign(tmp_path, methods=[median]), QUIET)
    assert not (tmp_path / "study").exists()


def test_the_commands_regimes_are_the_librarys():
    assert tuple(REGIMES) == _REGIMES
