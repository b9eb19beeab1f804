"""Every example that a reader can copy runs: those of docstrings, and those of the README."""

from __future__ import annotations

import doctest
import importlib
import re
import warnings
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

import biasgp

mpl.use("agg")
pytestmark = pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")
SOURCE = Path(biasgp.__file__).parent
ROOT = Path(__file__).parents[2]


def modules_with_examples() -> list[str]:
    paths = [path for path in SOURCE.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8")]
    names = [path.relative_to(SOURCE.parent).with_suffix("").as_posix().replace("/", ".") for path in paths]
    return sorted(name.removesuffix(".__init__") for name in names)


def examples() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name in modules_with_examples() for test in finder.find(importlib.import_module(name))]
    return [test for test in found if test.examples]


@pytest.mark.parametrize("example", examples(), ids=lambda each: each.name.removeprefix("biasgp."))
def test_examples_of_docstrings_run(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", biasgp.BiasGPWarning)
        runner.run(example, out=told.append)
    plt.close("all")
    assert runner.failures == 0, "".join(told)
    assert runner.tries == len(example.examples)


@pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="the README is in the repository")
def test_examples_of_the_readme_run():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
