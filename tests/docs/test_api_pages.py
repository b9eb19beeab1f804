"""The API reference: every public name is on one of its pages, and each estimator's page has the paper's symbols."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import biasgp

SOURCE, DOCS = Path(biasgp.__file__).parent, Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "api.rst", *sorted((DOCS / "api").glob("*.rst"))]
DIRECTIVE = re.compile(r"\.\. (?:auto(?:class|function|exception|module)|py:data):: (\S+)")
pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="the pages are in the repository")


def documented_in(text: str) -> set[str]:
    """Full names of what a page describes, itself or, from an autosummary with a toctree, on a page of its own."""
    module, listing, found = "", False, set()
    for line in text.splitlines():
        if named := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = named[1]
        elif named := DIRECTIVE.match(line):
            found.add(named[1] if named[1].startswith("biasgp.") else f"{module}.{named[1]}")
        if not line.startswith(" ") and line:
            listing = False
        listing |= line.strip().startswith(":toctree: ")
        if listing and (named := re.fullmatch(r"   (\w+)", line)):
            found.add(f"{module}.{named[1]}")
    return found


def resolve(name: str) -> Any:
    """What a full name is of."""
    module, _, attribute = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), attribute)


def missing_of(package: ModuleType, documented: set[str]) -> list[str]:
    """Public names that no page describes. A class or a function may be described where it is imported to."""
    things = [what for name in documented if callable(what := resolve(name)) or inspect.ismodule(what)]

    def is_there(name: str) -> bool:
        what = getattr(package, name)
        return f"{package.__name__}.{name}" in documented or any(what is each for each in things)

    return [f"{package.__name__}.{name}" for name in package.__all__ if not is_there(name)]


def packages() -> list[ModuleType]:
    paths = [path for path in SOURCE.rglob("*.py") if "\n__all__ = " in path.read_text(encoding="utf-8")]
    names = [path.relative_to(SOURCE.parent).with_suffix("").as_posix().replace("/", ".") for path in paths]
    return [importlib.import_module(name.removesuffix(".__init__")) for name in sorted(names)]


def documented_names() -> set[str]:
    return set().union(*(documented_in(page.read_text(encoding="utf-8")) for page in PAGES))


def test_no_public_name_is_missing_from_the_api_pages():
    everyday = {"biasgp", "biasgp.kernels", "biasgp.fleet", "biasgp.long_record", "biasgp.stream", "biasgp.runner"}
    assert everyday <= {package.__name__ for package in packages()}
    documented = documented_names()
    assert [name for package in packages() for name in missing_of(package, documented)] == []


def test_what_the_api_pages_describe_is_public():
    public = {f"{package.__name__}.{name}" for package in packages() for name in package.__all__}
    assert documented_names() <= public | {"biasgp.plot"}


def test_a_missing_name_is_found():
    text = (DOCS / "api" / "metrics.rst").read_text(encoding="utf-8").replace(".. autofunction:: crps", "")
    assert missing_of(biasgp.metrics, documented_in(text)) == ["biasgp.metrics.crps"]
    estimators = documented_in((DOCS / "api" / "estimators.rst").read_text(encoding="utf-8"))
    assert {"biasgp.SparseBiasGP", "biasgp.estimators.METHODS"} <= estimators


def test_every_page_is_in_the_table_of_contents():
    listed = re.findall(r"^   (api/\S+)$", (DOCS / "api.rst").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(listed) == [f"api/{page.stem}" for page in PAGES[1:]]


def test_the_page_of_each_estimator_has_the_papers_symbols():
    spec = importlib.util.spec_from_file_location("docs_symbols", DOCS / "symbols.py")
    assert spec is not None and spec.loader is not None
    symbols = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(symbols)
    told = symbols.paper()
    estimators = {name for name in biasgp.__all__ if hasattr(getattr(biasgp, name), "fit")}
    assert set(told) == estimators
    found = {name: [row[0] for row in each["symbols"]] for name, each in told.items()}
    assert "δ" in found["SparseBiasGP"] and "σ²" in found["GaussianGP"]
    assert any(row.startswith("λ, RL₁") for row in found["ConstantBiasGP"])
    assert any(row.startswith("μ") for row in found["RandomBiasGP"])
    labels = set(re.findall(r"^\((paper-\w+)\)=$", (DOCS / "paper.md").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert {label for each in told.values() for label in re.findall(r"<(paper-\w+)>", each["where"])} <= labels
