"""Every pair that ever failed, by name: what went wrong, and how to build it again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import INPUTS, RESPONSES, Dataset
from pairs import Pair, kept
from sklearn.gaussian_process.kernels import RBF

from biasgp import ConstantBiasGP, GaussianGP, ScaleMixtureGP, SparseBiasGP, StudentTGP
from biasgp.kernels import Exponential, Linear, Matern32, Matern52, Periodic, SquaredExponential

FEW_DRAWS: dict[str, Any] = {"draws": 5, "tune": 5, "chains": 2}


@dataclass(frozen=True)
class Case:
    """A pair and what went wrong with it."""

    name: str
    wrong: str
    build: Callable[[], Pair]


def of(estimator: Any, X: Any, y: Any, noise_variance: Any = None) -> Pair:
    return Pair(Dataset(X, y, noise_variance, ""), estimator, twice=True)


def of_kept(estimator: Any, name: str) -> Pair:
    return Pair(kept(name), estimator, twice=True)


def drawn(estimator: Any, inputs: str, response: str, *, n: int, d: int = 1, seed: int = 0, unit: float = 1.0) -> Pair:
    """Readings of the kinds that `datasets` knows."""
    rng = np.random.default_rng(seed)
    X = INPUTS[inputs](rng, n, d)
    return of(estimator, unit * X, RESPONSES[response](rng, INPUTS["uniform"](rng, n, d)))


CASES = [
    Case(
        "inputs too large to square",
        "X of 1e150 was fitted, with overflow warnings of NumPy: only infinities were refused.",
        lambda: drawn(GaussianGP(), "uniform", "noisy", n=12, unit=1e150),
    ),
    Case(
        "inputs that hardly vary",
        "1/X² overflowed where X varies by 1e-155, with nearest neighbours and in linear kernels.",
        lambda: drawn(GaussianGP(Linear(), approximation="vecchia"), "uniform", "noisy", n=12, unit=1e-155),
    ),
    Case(
        "an outlier of 1e12 in a short chain",
        "The square of an outlier's distance in standard deviations of f overflowed.",
        lambda: of(ScaleMixtureGP(**FEW_DRAWS), np.ones((20, 2)), [*np.sin(np.arange(19.0)), 1e12]),
    ),
    Case(
        "a linear kernel on a constant column of 1e90",
        "The mean of equal numbers is off by rounding, and f had a variance of 1e148: draws of it failed.",
        lambda: drawn(GaussianGP(Linear(ard=True)), "all rows equal", "noise alone", n=20, d=2, seed=9, unit=1e90),
    ),
    Case(
        "a linear kernel on constant columns",
        "f has no variance anywhere, and a covariance of zeros was not to be factorised by sample_y.",
        lambda: of(GaussianGP(Linear()), np.ones((6, 1)), [0.0, 1.0, 1.0, 0.0, 1.0, 0.0]),
    ),
    Case(
        "Student-t noise about an f that is known",
        "Errors were divided by the standard deviation of f, which is 0 where a linear kernel has nothing to go by.",
        lambda: of(StudentTGP(Linear()), np.ones((20, 3)), np.arange(20.0) % 2.0),
    ),
    Case(
        "a length-scale far shorter than the inputs' unit",
        "Squares of differences were expanded, and the gradient was the rounding error of 1e180.",
        lambda: drawn(
            StudentTGP(Exponential() * Exponential(length_scale=1.0)), "mostly zero", "noisy", n=23, d=3, unit=1e90
        ),
    ),
    Case(
        "chains on a constant column of 1e90",
        "The same gradient, which made the sampler's metric overflow.",
        lambda: of(ScaleMixtureGP(**FEW_DRAWS), np.full((30, 1), 1.1e90), np.cos(np.arange(30.0))),
    ),
    Case(
        "a scikit-learn kernel without free parameters",
        "The covariance of no parameters was taken to be known already, and empty.",
        lambda: drawn(SparseBiasGP(RBF(1.0, "fixed")), "uniform", "noisy", n=20),
    ),
    Case(
        "flagged where f is known",
        "0/0 in the correlation of f with its neighbours, in the diagnosis.",
        lambda: of_kept(SparseBiasGP(Matern32(ard=True) * Linear(), random_state=87), "flagged-where-f-is-known"),
    ),
    Case(
        "Laplace's approximation does not exist",
        "StudentTGP ended with an ArithmeticError.",
        lambda: of_kept(
            StudentTGP(
                SquaredExponential(length_scale=10.0, variance=1e4, ard=True),
                inference="laplace",
                nu=1.0,
                response="log",
            ),
            "no-laplace",
        ),
    ),
    Case(
        "labels of a skewed response",
        "The logarithm of a ratio of variances that rounding had made negative, as a label was moved.",
        lambda: of_kept(SparseBiasGP(SquaredExponential(variance=10.0), response="log"), "labels-of-a-skewed-response"),
    ),
    Case(
        "an average over labels that is not symmetric",
        "The covariance of f differed from its transpose by more than rounding of its own entries.",
        lambda: of_kept(SparseBiasGP(), "unsymmetric-average"),
    ),
    Case(
        "a slope whose square is no double",
        "The variance of a linear kernel underflowed to 0 in the units of y and X.",
        lambda: of(GaussianGP(Linear()), 1e90 * np.arange(10.0)[:, None], np.full(10, -1e-84)),
    ),
    Case(
        "a slope whose square overflows",
        "The same at the other end.",
        lambda: of(GaussianGP(Linear()), 1e-90 * np.arange(10.0)[:, None], 1e90 * np.cos(np.arange(10.0))),
    ),
    Case(
        "a sample of an f that is known to many digits",
        "Rounding of the prior made the covariance indefinite by more than a share of what was left of it.",
        lambda: of(SparseBiasGP(RBF(1.0)), np.linspace(-2.0, 2.0, 37)[:, None], np.ones(37)),
    ),
    Case(
        "a sample of an average over labels",
        "The same where f varies.",
        lambda: of_kept(SparseBiasGP(RBF(1.0)), "two-values-on-a-grid"),
    ),
    Case(
        "errors that are far smaller than f",
        "Their covariance was indefinite by rounding of an f that is 1e15 times as large, and the chain ended.",
        lambda: of_kept(
            ScaleMixtureGP(
                Periodic(variance=0.01, length_scale=0.001, ard=True).fix("variance", "length_scale")
                * Matern32().on(0),
                nu=4.0,
                random_state=253,
                **FEW_DRAWS,
            ),
            "draws-of-errors",
        ),
    ),
    Case(
        "logarithms at a level of 1e15",
        "The std of f was 0: it was taken from numbers that differ by less than their last digit.",
        lambda: of_kept(
            StudentTGP(
                Periodic(length_scale=100.0) + Matern52(variance=1e4), fraction=1.0, noise="scale", response="log"
            ),
            "a-step-at-1e15",
        ),
    ),
    Case(
        "a prior variance that is 1e15 times the noise",
        "The covariance was singular to working precision but had a Cholesky factor; predictions were 1e6 times y.",
        lambda: of_kept(
            ConstantBiasGP(Matern52(variance=100.0, ard=True) * Matern52(ard=True)), "one-differs-on-a-constant-column"
        ),
    ),
    Case(
        "pairs of readings under a huge prior variance",
        "The product of two variances overflowed as labels were moved in pairs.",
        lambda: of_kept(SparseBiasGP(Periodic(variance=10.0)), "half-outliers-in-a-tiny-unit"),
    ),
    Case(
        "equal rows, a linear kernel and one neighbour",
        "f has no variance, and the covariance of neighbours was not to be factorised.",
        lambda: of_kept(SparseBiasGP(Linear(ard=True), approximation="vecchia", neighbors=1), "equal-rows-neighbours"),
    ),
    Case(
        "repeated rows, a product with a linear kernel and neighbours",
        "The same where f has a variance at some rows only.",
        lambda: of_kept(
            SparseBiasGP(Matern52().on(0, 1) * Linear(), approximation="vecchia"), "repeated-rows-neighbours"
        ),
    ),
    Case(
        "a cavity of EP that is wider than the noise by 1e30",
        "The variance of the tilted distribution was rounded to 0, and divided by.",
        lambda: of_kept(
            StudentTGP(SquaredExponential() * Exponential(ard=True).on(0, 11), fraction=0.1, noise="scale", nu=1e6),
            "a-wide-cavity",
        ),
    ),
    Case(
        "a period on a constant column of 1e90",
        "The gradient in the period was the rounding error of the angle, and the sampler's metric overflowed.",
        lambda: of_kept(
            ScaleMixtureGP(Periodic(ard=True) + Linear(ard=True), noise="scale", random_state=478, **FEW_DRAWS),
            "a-period-far-away",
        ),
    ),
]
