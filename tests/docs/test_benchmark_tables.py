"""The measured tables of the documentation are what the result files say, which say where they are from."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import biasgp

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="the pages are in the repository")


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_tables", DOCS / "benchmark_tables.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """A script of benchmarks/ by its name."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))

    def script(name: str) -> ModuleType:
        module = importlib.import_module(name)
        for each in set(sys.modules) - before:  # forgotten again after the test
            monkeypatch.setitem(sys.modules, each, sys.modules[each])
        return module

    return script


def test_pages_are_in_step_with_the_result_files(tables):
    pages = tables.pages()
    assert {"README.md", "benchmarks.md", "episodes.md", "large-data.md"} <= {page.name for page in pages}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert text == tables.in_step(text, DOCS / "results"), f"run docs/benchmark_tables.py: {page.name}"


def test_every_result_file_has_its_place_and_says_where_it_is_from(tables):
    named = [match["name"] for page in tables.pages() for match in tables.BLOCK.finditer(page.read_text("utf-8"))]
    assert sorted(named) == sorted(tables.TABLES)
    for file in (DOCS / "results").glob("*.json"):
        assert file.stem in named  # or nothing shows it
        result = json.loads(file.read_text(encoding="utf-8"))
        assert result["made_by"].startswith("python benchmarks/")
        assert result["version"]
        assert result["rows"]
        assert "/" not in result["made_by"].partition(".py ")[2]  # of nobody's machine


def test_a_page_out_of_step_is_found_and_mended(tables, tmp_path):
    result = {"made_by": "python benchmarks/memory.py", "version": "1.2", "machine": "2 cores"}
    rows = [{"n": 5000, "method": "GaussianGP", "kernel": "Exponential", "arrays": 4.06}]
    (tmp_path / "memory.json").write_text(json.dumps({**result, "rows": rows}))
    page = (
        "before\n<!-- results: memory -->\ntyped: 3.0\n<!-- end of results -->\nbetween\n"
        "<!-- results: speed -->\ntyped\n<!-- end of results -->\n"
    )
    mended = tables.in_step(page, tmp_path)
    assert "| `GaussianGP` | Exponential | 5,000 | 4.1 |" in mended
    assert "Made by `python benchmarks/memory.py` with biasgp 1.2 (2 cores)." in mended
    assert "typed: 3.0" not in mended
    assert f"<!-- results: speed -->\n{tables.EARLIER}\n\ntyped\n" in mended
    assert mended.startswith("before\n") and "-->\nbetween\n" in mended
    assert tables.in_step(mended, tmp_path) == mended


@pytest.mark.parametrize(
    ("value", "options", "shown"),
    [
        (0.998, {"digits": 3}, ".998"),
        (1.0, {}, "1.00"),
        (-0.014, {"digits": 3, "sign": "+"}, "−.014"),
        (0.001, {"digits": 3, "sign": "+"}, "+.001"),
        (33.42, {}, "33.4"),
        (1234.0, {}, "1,234"),
        (None, {}, "–"),
    ],
)
def test_numbers_are_written_as_the_tables_have_them(tables, value, options, shown):
    assert tables.number(value, **options) == shown


def accuracy_rows(benchmark: Callable[[str], ModuleType]) -> Any:
    scores = {"mse": 0.3, "mse_f": 0.1, "nlpd": 0.5, "precision": 1.0, "recall": 0.975}
    return benchmark("accuracy").summary(
        [
            {"dataset": "1d", "scenario": scenario, "replicate": replicate, "method": method, **scores}
            for scenario in (1, 8)
            for replicate in (0, 1)
            for method in ("oracle", "clean", "gp", "cob", "rab", "sparse")
        ]
    )


def stress_rows(benchmark: Callable[[str], ModuleType]) -> Any:
    names = ("oracle", "plain", "cob", "sparse", "nlpd", "flagged", "warned", "precision", "recall")
    return [benchmark("stress").report("clusters", [dict.fromkeys(names, 0.5)] * 3)]


def shapes_rows(benchmark: Callable[[str], ModuleType]) -> Any:
    scores = {"oracle": 1.0, "sparse": 2.0, "cob": 4.0, "rab": 2.0, "ep": 2.0, "flagged": 0.1, "condemned": ["code"]}
    return [benchmark("shapes").report([{"part": "sizes", "row": "5% normal", **scores}] * 2)]


def faults_rows(benchmark: Callable[[str], ModuleType]) -> Any:
    names = ("mse", "oracle", "ends", "flagged", "episodes", "notes", "inside", "named", "seconds", "without")
    return [benchmark("faults").report("stuck", [dict.fromkeys(names, 1.0)])]


def together_rows(benchmark: Callable[[str], ModuleType]) -> Any:
    names = ("drifting", "others", "f", "oracle", "inside", "seconds")
    return [benchmark("faults").report_together("together", [dict.fromkeys(names, 1.0)])]


@pytest.mark.parametrize(
    ("name", "rows", "line"),
    [
        ("accuracy", accuracy_rows, "| `SparseBiasGP` | 1.000 | 1.000 |"),
        ("accuracy-in-short", accuracy_rows, "is 1.000 to 1.000 times that"),
        ("stress", stress_rows, "| clusters | 3 | 1.000 | 1.000 | 1.000 | +.500 | 50 % | 1 | 0 |"),
        ("shapes", shapes_rows, "| 5% normal | 2 | 2.00 | 2.00 | .50 | 1.00 | 1.00 | 2 | 0 | 2 |"),
        ("faults", faults_rows, "| stuck | 1 | 1.00 | 100 % | 100 % | 100 % | 100 % | 100 % | 1 | 1.0 |"),
        ("faults-together", together_rows, "| together | 1 | 1.00 | 1.00 | 1.00 | 100 % | 1.0 s |"),
    ],
)
def test_what_a_benchmark_keeps_its_table_can_show(tables, benchmark, tmp_path, monkeypatch, name, rows, line):
    found, file = rows(benchmark), tmp_path / f"{name}.json"
    monkeypatch.setattr(
        sys, "argv", ["/somewhere/benchmarks/any.py", "--tables", "/home/me/tables", "--save", "x.json"]
    )
    benchmark("saved").write(file, found, "2 replicates")
    result = json.loads(file.read_text(encoding="utf-8"))
    assert result["made_by"] == "python benchmarks/any.py --tables tables"
    assert result["version"] == biasgp.__version__
    assert line in tables.rendered(name, result)
    assert ("It is of 2 replicates." in tables.rendered(name, result)) == (name not in tables.IN_SHORT)


def test_numbers_are_rounded_and_what_is_none_is_null(benchmark, tmp_path):
    saved, file = benchmark("saved"), tmp_path / "new" / "file.json"
    saved.write(file, [{"a": np.float64(0.123456), "b": np.int64(7), "c": np.nan, "d": "text", "e": np.bool_(True)}])
    assert json.loads(file.read_text())["rows"] == [{"a": 0.1235, "b": 7, "c": None, "d": "text", "e": 1}]
    saved.write(None, [{"a": 1.0}])
    parser = argparse.ArgumentParser()
    saved.add_option(parser)
    assert parser.parse_args([]).save is None


def test_figures_of_a_part_in_a_process_of_its_own_are_kept(benchmark, tmp_path, monkeypatch):
    saved = benchmark("saved")
    monkeypatch.setattr(saved, "_figures", [])
    script = tmp_path / "part.py"
    script.write_text(
        "import argparse, sys\n"
        f"sys.path.insert(0, {str(ROOT / 'benchmarks')!r})\n"
        "import saved\n"
        "parser = argparse.ArgumentParser()\n"
        "saved.add_option(parser)\n"
        "saved.figure('  of the part', '1.5', '<= 2')\n"
        "saved.write_figures(parser.parse_args().save)\n"
    )
    saved.figure("of the whole", "2.5")
    saved.part([str(script)])
    saved.write_figures(tmp_path / "all.json")
    rows = json.loads((tmp_path / "all.json").read_text())["rows"]
    assert rows == [{"figure": "of the whole", "value": "2.5"}, {"figure": "of the part", "value": "1.5"}]
