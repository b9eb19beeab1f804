"""ScaleMixtureGP against GPstuff's sampler on its reference data: accuracy, R̂, speed for the same effective sample.

    python benchmarks/scale_mixture.py [--draws 300] [--tune 100] [--cases 1d friedman]

Run with one BLAS thread (OPENBLAS_NUM_THREADS=1): GPstuff's CPU seconds are those of one. Machines are compared by
their plain GP, ours in the same run. How large GPstuff's effective sample is the reference does not say, so its scheme
(one slice a covariance parameter, then Gibbs) is run here with its settings and priors, in as many chains as ours, and
counted the same way: the least over all parameters, and the fourth part of that, as GPstuff's seconds are those of one
chain. What it costs here is not counted.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from arviz_stats.base import array_stats
from scipy.special import gammaln

from biasgp import GaussianGP, MixingWarning, ScaleMixtureGP, metrics
from biasgp.covariance.dense import factorise
from biasgp.kernels import SquaredExponential
from biasgp.samplers import slice_along
from student_t import CASES, cpu_seconds, read, reference

GPSTUFF_DRAWS, GPSTUFF_BURN_IN, CHAINS = 300, 100, 4


def gpstuff_scheme(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """The draws after burn-in of one chain as the reference describes it: y standardised, inputs raw."""
    rng, z = np.random.default_rng(seed), (y - y.mean()) / y.std()
    n, d = X.shape
    kernel = SquaredExponential(ard=True, variance=1.0, length_scale=(1.0,) * d).bind(X)
    x, U, tau2, alpha2, nu = kernel.theta, np.full(n, 0.04), 0.04, 1.0, 4.0
    kept = []

    def log_posterior(x: np.ndarray) -> float:
        if np.any(np.abs(x) > 12.0):
            return -np.inf
        factor = factorise(kernel.with_theta(x)(X), alpha2 * U)
        prior = 0.5 * x[0] + float((x[1:] - 2.5 * np.log1p(np.exp(2.0 * x[1:]) / 4.0)).sum())
        return prior - 0.5 * (factor.logdet + float(z @ factor.solve(z)))

    def log_nu_density(at: np.ndarray) -> float:
        half = 0.5 * np.exp(at[0])
        return float((half * np.log(half * tau2) - gammaln(half) - half * np.log(U) - half * tau2 / U).sum())

    for _ in range(GPSTUFF_DRAWS):
        for unit in np.eye(d + 1):
            x = slice_along(log_posterior, x, unit, rng)
        V, C = alpha2 * U, kernel.with_theta(x)(X)
        # f given y by Matheron's rule; its prior draw needs C's own factor.
        f0 = factorise(C, np.full(n, 1e-8)).multiply(rng.standard_normal(n))
        e0 = np.sqrt(V) * rng.standard_normal(n)
        r = e0 + V * factorise(C, V).solve(z - f0 - e0)
        U = (nu * tau2 + r**2 / alpha2) / rng.chisquare(nu + 1.0, n)
        tau2 = rng.gamma(0.5 * n * nu) / (0.5 * nu * (1.0 / U).sum())
        alpha2 = (r**2 / U).sum() / rng.chisquare(n)
        nu = float(np.exp(slice_along(log_nu_density, np.log([nu]), np.ones(1), rng)[0]))
        kept.append([*x, np.log(alpha2 * tau2), np.log(nu)])
    names = [*kernel.parameter_names, "scale2", "degrees_of_freedom"]
    return dict(zip(names, np.array(kept[GPSTUFF_BURN_IN:]).T, strict=True))


def least_sample(draws: dict[str, np.ndarray]) -> float:
    """The smallest effective sample of any parameter."""
    return min(float(array_stats.ess(np.atleast_2d(values), method="bulk")) for values in draws.values())


def gpstuff_sample(X: np.ndarray, y: np.ndarray) -> tuple[float, list[float]]:
    """Effective sample of one chain of GPstuff's scheme, and σ of each: the root of its mean σ²."""
    chains = [gpstuff_scheme(X, y, seed) for seed in range(CHAINS)]
    sample = least_sample({name: np.stack([chain[name] for chain in chains]) for name in chains[0]}) / CHAINS
    return sample, [float(y.std() * np.sqrt(np.exp(chain["scale2"]).mean())) for chain in chains]


def plain_seconds(X: np.ndarray, y: np.ndarray) -> list[float]:
    """CPU seconds of some plain fits. A run of ours is too long to be repeated, so these are not to be the luckiest."""
    return [cpu_seconds(GaussianGP(), X, y, repeats=1) for _ in range(7)]


def sampled(X: np.ndarray, y: np.ndarray, draws: int, tune: int) -> tuple[ScaleMixtureGP, float]:
    """A fit, and its CPU seconds. Chains that do not agree are seen in the table."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)
        model = ScaleMixtureGP(draws=draws, tune=tune).fit(X, y)
    return model, time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--tune", type=int, default=100)
    parser.add_argument("--cases", nargs="+", default=["1d", "friedman"])
    arguments = parser.parse_args()
    theirs = reference()
    least_sample({"": np.random.default_rng(0).standard_normal((2, 20))})  # compiles and imports, not to be timed
    print(f"{'':17} {'MSE':>7} {'÷ theirs':>8} {'NLPD':>6} {'− theirs':>8} {'with σ²':>8} {'exact':>6}", end=" ")
    print(f"{'− theirs':>8} {'ν':>5}", end=" ")
    print(f"{'σ':>5} {'max R̂':>6} {'CPU s':>6} {'÷ plain':>7} {'theirs':>7} {'ESS':>5} {'theirs':>6}", end=" ")
    print(f"{'speed-up':>8} σ of their scheme's chains")
    total = np.zeros(2)
    for case in (case for case in CASES if case[0] in arguments.cases):
        (X, y), (X_test, y_test) = read(case, "train"), read(case, "test")
        peer, peer_plain = theirs["gpstuff_mcmc", *case], theirs["gpstuff_gaussian", *case]
        plains = plain_seconds(X, y)
        model, ours = sampled(X, y, arguments.draws, arguments.tune)
        plain = float(np.median(plains + plain_seconds(X, y)))
        ess, (peer_ess, peer_sigmas) = least_sample(model.draws_), gpstuff_sample(X, y)
        mean, std = model.predict(X_test, return_std=True)
        mse, nlpd = metrics.mse(y_test, mean), metrics.nlpd(y_test, mean, np.sqrt(std**2 + model.noise_variance_))
        as_theirs = metrics.nlpd(y_test, mean, np.sqrt(std**2 + model.scale_**2))
        exact = -float(model.log_predictive_density(X_test, y_test).mean())
        # Plain fits for each effective draw.
        costs = np.array([ours / plain / ess, peer["cpu_s"] / peer_plain["cpu_s"] / peer_ess])
        if case[0] == "friedman":
            total += costs
        print(f"{case[0]:9} s{case[1]} r{case[2]}   {mse:7.4f} {mse / peer['mse']:8.3f} {nlpd:6.3f}", end=" ")
        print(f"{nlpd - peer['nlpd']:+8.3f} {as_theirs - peer['nlpd']:+8.3f} {exact:6.3f}", end=" ")
        print(f"{exact - peer['nlpd_exact']:+8.3f}", end=" ")
        print(f"{model.degrees_of_freedom_:5.2f} {model.scale_:5.3f}", end=" ")
        print(f"{max(model.r_hat_.values()):6.3f} {ours:6.1f} {ours / plain:7.1f}", end=" ")
        print(
            f"{peer['cpu_s'] / peer_plain['cpu_s']:7.1f} {ess:5.0f} {peer_ess:6.1f} {costs[1] / costs[0]:8.1f}",
            " ".join(f"{sigma:.3f}" for sigma in peer_sigmas),
            flush=True,
        )
    if total.all():
        print(f"Friedman, N = 300, all four: {total[1] / total[0]:.1f} × GPstuff for the same effective sample")


if __name__ == "__main__":
    main()
