"""Rules of the house that no other tool checks."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import biasgp
from biasgp import (
    BiasGPWarning,
    ConstantBiasGP,
    GaussianGP,
    RandomBiasGP,
    RobustConjugateGP,
    ScaleMixtureGP,
    SparseBiasGP,
    StudentTGP,
)

SOURCE = Path(biasgp.__file__).parent
PUBLIC = [getattr(biasgp, name) for name in biasgp.__all__]
ESTIMATORS = [value for value in PUBLIC if inspect.isclass(value) and hasattr(value, "fit")]
every_estimator = pytest.mark.parametrize("Estimator", ESTIMATORS)


def modules_that_import(name: str) -> set[str]:
    """Files of the package that import a module or anything below it."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                imported = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            if any(module == name or module.startswith(name + ".") for module in imported):
                found.add(path.relative_to(SOURCE).as_posix())
    return found


def test_lapack_is_called_behind_one_door_only():
    importers = modules_that_import("scipy.linalg")
    assert "covariance/dense.py" in importers
    assert all(name.startswith("covariance/") for name in importers)


def test_sklearn_base_is_imported_by_the_estimators_only():
    importers = modules_that_import("sklearn.base")
    assert importers
    assert all(path.startswith("estimators/") for path in importers)


def packages_loaded_by(module: str) -> set[str]:
    code = f"import sys, {module}; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_importing_biasgp_imports_no_plots_or_frames_of_its_own():
    heavy = {"matplotlib", "pandas", "polars", "plotly", "joblib", "typer", "rich"}
    loaded = packages_loaded_by("biasgp")
    assert "biasgp" in loaded
    # scikit-learn itself looks for pandas.
    assert loaded & heavy <= packages_loaded_by("sklearn.gaussian_process")
    assert not loaded & {"matplotlib", "polars", "plotly"}


def test_the_public_names_exist_and_the_estimators_are_among_them():
    robust = {ConstantBiasGP, RandomBiasGP, RobustConjugateGP, ScaleMixtureGP, SparseBiasGP, StudentTGP}
    assert {GaussianGP, *robust} <= set(ESTIMATORS)
    assert all(hasattr(biasgp, name) for name in biasgp.__all__)
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", biasgp.__version__)


def test_every_warning_of_ours_can_be_silenced_at_once():
    warnings = [v for n, v in vars(biasgp).items() if n.endswith("Warning")]
    assert len(warnings) >= 4
    assert all(issubclass(warning, BiasGPWarning) for warning in warnings)


def section(doc: str, title: str) -> str:
    return inspect.cleandoc(doc).split(f"{title}\n{'-' * len(title)}\n")[1].split("\n\n")[0]


@every_estimator
def test_docstring_describes_every_parameter(Estimator):
    described = re.findall(r"^(\w+) :", section(Estimator.__doc__, "Parameters"), flags=re.MULTILINE)
    assert described == list(inspect.signature(Estimator).parameters)


@every_estimator
def test_docstring_names_what_a_fit_leaves_behind(Estimator, one_d):
    names = re.findall(r"^(\w[\w, ]*_)(?: :|$)", section(Estimator.__doc__, "Attributes"), flags=re.MULTILINE)
    described = {name for line in names for name in line.split(", ")}
    model = Estimator().fit(one_d.X, one_d.y)
    fitted = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert described == fitted - {"n_features_in_", "feature_names_in_"}


@every_estimator
def test_public_methods_have_a_docstring(Estimator):
    methods = [getattr(Estimator, name) for name in ("fit", "predict", "sample_y", "score")]
    assert all(inspect.getdoc(method) for method in methods)


@every_estimator
def test_fitted_attributes_are_of_the_documented_shapes(Estimator, one_d):
    model = Estimator().fit(one_d.X, one_d.y)
    assert isinstance(model.noise_variance_, float)
    assert model.n_iter_ >= 1
    if Estimator is not GaussianGP:
        assert model.bias_.shape == model.outlier_mask_.shape == one_d.y.shape
        assert model.outlier_mask_.dtype == np.bool_
