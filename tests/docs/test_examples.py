"""Every example that a reader can copy runs: those of docstrings, and those of the README."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import warnings
from pathlib import Path
from types import ModuleType

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

import biasgp
from biasgp.study import methods

mpl.use("agg")
pytestmark = pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")
SOURCE = Path(biasgp.__file__).parent
ROOT = Path(__file__).parents[2]


def modules_with(text: str) -> list[str]:
    """Names of the modules whose source has this text."""
    paths = [path for path in SOURCE.rglob("*.py") if text in path.read_text(encoding="utf-8")]
    names = [path.relative_to(SOURCE.parent).with_suffix("").as_posix().replace("/", ".") for path in paths]
    return sorted(name.removesuffix(".__init__") for name in names)


def examples() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name in modules_with(">>> ") for test in finder.find(importlib.import_module(name))]
    return [test for test in found if test.examples]


EXAMPLES = examples()


def packages() -> list[ModuleType]:
    """The modules that name what is public of them in an `__all__`."""
    return [importlib.import_module(name) for name in modules_with("\n__all__ = ")]


def names_without_example(package: ModuleType, tests: list[doctest.DocTest]) -> list[str]:
    """Names in the package's `__all__` without an example among these tests.

    A function, a class and a module have an example in their own docstring. For an exception and a warning, and for
    what has no docstring (constants, aliases of types), one in the docstring of the module that lists or defines it
    does as well, if the code or its output has the name.
    """
    by_name = {test.name: test for test in tests}

    def has_example(name: str) -> bool:
        what = getattr(package, name)
        if inspect.ismodule(what):
            return what.__name__ in by_name
        home = getattr(what, "__module__", "") or package.__name__
        documented = inspect.isclass(what) or inspect.isfunction(what)
        if documented and f"{home}.{what.__qualname__}" in by_name:
            return True
        if documented and not (inspect.isclass(what) and issubclass(what, BaseException)):
            return False
        nearby = [by_name[each] for each in (package.__name__, home) if each in by_name]
        shown = "\n".join(example.source + example.want for test in nearby for example in test.examples)
        return re.search(rf"(?<!\w){name}(?!\w)", shown) is not None

    return [f"{package.__name__}.{name}" for name in package.__all__ if not has_example(name)]


def test_every_public_name_has_an_example():
    listed = packages()
    public = {"biasgp", "biasgp.kernels", "biasgp.data", "biasgp.study", "biasgp.plot", "biasgp.metrics"}
    assert public <= {package.__name__ for package in listed}
    assert [name for package in listed for name in names_without_example(package, EXAMPLES)] == []


def test_a_public_name_without_an_example_is_found():
    package = ModuleType("package")
    package.LIMIT, package.OTHER_LIMIT, package.__all__ = 3, 4, ["LIMIT", "OTHER_LIMIT", "clean", "CovarianceError"]
    package.clean, package.CovarianceError = biasgp.clean, biasgp.CovarianceError
    assert names_without_example(package, []) == [f"package.{name}" for name in package.__all__]
    own = doctest.DocTestParser().get_doctest(">>> OTHER_LIMIT, clean\n4", {}, "package", None, 0)
    assert names_without_example(package, [*EXAMPLES, own]) == ["package.LIMIT"]
    assert names_without_example(package, [own]) == ["package.LIMIT", "package.clean", "package.CovarianceError"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.name.removeprefix("biasgp."))
def test_examples_of_docstrings_run(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(methods, "_registered", {})  # what an example registers, no other test is to see
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
