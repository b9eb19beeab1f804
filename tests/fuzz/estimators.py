"""Generated estimators: all six, with kernels of every family, sums, products and options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as theirs

from biasgp import ConstantBiasGP, GaussianGP, RandomBiasGP, ScaleMixtureGP, SparseBiasGP, StudentTGP
from biasgp import kernels as ours

FAMILIES = (ours.SquaredExponential, ours.Exponential, ours.Matern32, ours.Matern52, ours.Periodic)
FEW_DRAWS: dict[str, Any] = {"draws": 5, "tune": 5, "chains": 2}


def draw(rng: np.random.Generator, columns: int) -> Any:
    """An estimator that has not been fitted, for inputs of so many columns."""
    name = str(rng.choice(list(OPTIONS)))
    estimator, options = OPTIONS[name]
    settings = _shared(rng) | options(rng)
    if estimator not in (StudentTGP, ScaleMixtureGP):
        settings |= _of_large_models(rng)
    kernel = _kernel(rng, columns)
    if settings.get("approximation") == "state-space" and "Periodic" in repr(kernel):
        settings["approximation"] = "auto"  # its state has dozens of numbers, which takes minutes
    return estimator(kernel, **settings)


def _maybe(rng: np.random.Generator, chance: float, **options: Any) -> dict[str, Any]:
    return options if rng.random() < chance else {}


def _shared(rng: np.random.Generator) -> dict[str, Any]:
    return _maybe(rng, 0.35, response=str(rng.choice(["log", "yeo-johnson", "auto"]))) | _maybe(
        rng, 0.15, max_iter=int(rng.choice([1, 2, 10]))
    )


def _of_large_models(rng: np.random.Generator) -> dict[str, Any]:
    approximation = str(rng.choice(["auto", "exact", "state-space", "vecchia"], p=[0.4, 0.1, 0.2, 0.3]))
    return (
        {"approximation": approximation}
        | _maybe(rng, 0.5, neighbors=int(rng.choice([1, 2, 5, 100])))
        | _maybe(rng, 0.04, max_time=float(rng.choice([1e-6, 0.05])))
    )


def _constant_bias(rng: np.random.Generator) -> dict[str, Any]:
    kind = rng.integers(10)
    if kind < 6:
        return {}
    return [
        {"tuning": "paper"},
        {"lam": float(rng.choice([0.0, 1e-6, 1.0, 1e6]))},
        {"k": float(rng.choice([1e-3, 1.0, 2.5, 1e4]))},
        {"k": float(rng.choice([1.0, 2.0]))},
    ][kind - 6]


def _random_bias(rng: np.random.Generator) -> dict[str, Any]:
    kind = rng.integers(8)
    if kind < 6:
        return {}
    first = float(rng.choice([0.0, 1.0, np.inf]))
    return {"tuning": "paper"} if kind == 6 else {"lambdas": (first, *(10.0 ** rng.integers(-2, 3, 2)).tolist())}


def _student_t(rng: np.random.Generator) -> dict[str, Any]:
    return (
        _maybe(rng, 0.4, inference="laplace")
        | _maybe(rng, 0.3, nu=float(rng.choice([0.5, 1.0, 4.0, 100.0, 1e6])))
        | _maybe(rng, 0.3, fraction=float(rng.choice([0.1, 0.5, 1.0])))
        | _maybe(rng, 0.3, noise="scale")
    )


def _scale_mixture(rng: np.random.Generator) -> dict[str, Any]:
    return (
        FEW_DRAWS
        | {"random_state": int(rng.integers(1000))}
        | _maybe(rng, 0.3, nu=float(rng.choice([0.5, 1.0, 4.0, 100.0])))
        | _maybe(rng, 0.3, noise="scale")
    )


Options = Callable[[np.random.Generator], dict[str, Any]]
OPTIONS: dict[str, tuple[type, Options]] = {
    "gaussian": (GaussianGP, lambda rng: {}),
    "constant": (ConstantBiasGP, _constant_bias),
    "random": (RandomBiasGP, _random_bias),
    "sparse": (SparseBiasGP, lambda rng: _maybe(rng, 0.2, random_state=int(rng.integers(1000)))),
    "t": (StudentTGP, _student_t),
    "mixture": (ScaleMixtureGP, _scale_mixture),
}


def _kernel(rng: np.random.Generator, columns: int) -> Any:
    kind = rng.choice(["default", "leaf", "sum", "product", "scikit-learn"], p=[0.3, 0.35, 0.12, 0.11, 0.12])
    if kind == "default":
        return None
    if kind == "leaf":
        return _leaf(rng, columns)
    if kind == "sum":
        other = rng.choice(3)
        second = [_leaf(rng, columns), ours.Constant(), ours.Linear(ard=bool(rng.integers(2)))][other]
        return _leaf(rng, columns) + second
    if kind == "product":
        return _leaf(rng, columns) * (_leaf(rng, columns) if rng.random() < 0.7 else ours.Linear())
    return _of_scikit_learn(rng, columns)


def _leaf(rng: np.random.Generator, columns: int) -> Any:
    """One family: perhaps with values given, perhaps kept there, perhaps on some columns alone."""
    if rng.random() < 0.08:
        return ours.Linear(ard=bool(rng.integers(2))) if rng.random() < 0.5 else ours.Constant()
    chosen = sorted(rng.choice(columns, rng.integers(1, columns + 1), replace=False).tolist())
    on_some = rng.random() < 0.2
    ard = bool(rng.integers(2))
    given = _maybe(rng, 0.15, variance=float(10.0 ** rng.integers(-4, 5)))
    given |= _maybe(rng, 0.15, length_scale=float(10.0 ** rng.integers(-3, 4)))
    kernel = FAMILIES[rng.integers(len(FAMILIES))](ard=ard, **given)
    if given and rng.random() < 0.5:
        kernel = kernel.fix(*given)
    return kernel.on(*chosen) if on_some else kernel


def _of_scikit_learn(rng: np.random.Generator, columns: int) -> Any:
    scales = np.ones(columns) if rng.random() < 0.4 else 1.0
    smooth = [
        theirs.RBF(scales),
        theirs.Matern(scales, nu=float(rng.choice([0.5, 1.5, 2.5]))),
        theirs.RationalQuadratic(),
        theirs.RBF(1.0, "fixed"),
    ][rng.integers(4)]
    return [smooth, theirs.ConstantKernel() * smooth, theirs.ConstantKernel() * smooth + theirs.ConstantKernel()][
        rng.integers(3)
    ]
