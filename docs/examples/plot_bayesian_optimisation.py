"""
Bayesian optimisation with bad evaluations
==========================================

We look for the setting with the highest yield. One experiment in five goes wrong and returns a value that is far too
high. A plain Gaussian process believes it, and goes on searching beside it; one that knows outliers goes on elsewhere.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from sklearn.base import clone

from biasgp import GaussianGP, SparseBiasGP


def yield_of(x):
    """The true yield: highest at about 0.74."""
    return np.sin(9.0 * x) * x + 0.6 * np.exp(-((x - 0.75) ** 2) / 0.02)


def experiment(x, rng):
    """A noisy yield; in one case of five something goes wrong."""
    return yield_of(x) + 0.05 * rng.standard_normal() + (2.0 if rng.random() < 0.2 else 0.0)


def expected_improvement(mean, std, best):
    """How much a point is expected to exceed the best mean."""
    z = (mean - best) / std
    return (mean - best) * norm.cdf(z) + std * norm.pdf(z)


def optimise(model, seed, steps=15):
    """Ten settings at random, then one after the other where the expected improvement is highest."""
    rng, grid = np.random.default_rng(seed), np.linspace(0.0, 1.0, 201)
    x = rng.uniform(0.0, 1.0, 10)
    y = np.array([experiment(each, rng) for each in x])
    for _ in range(steps):
        mean, std = model.fit(x[:, None], y).predict(grid[:, None], return_std=True)
        x = np.append(x, grid[expected_improvement(mean, std + 1e-9, mean.max()).argmax()])
        y = np.append(y, experiment(x[-1], rng))
    return x, y, model.fit(x[:, None], y)


# %%
# Four runs of each, from the same settings. The picture shows the first of them: experiments in colours by their order
# (dark ones first), and the true yield dashed.

grid = np.linspace(0.0, 1.0, 201)
figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
lost = {}
for axis, model in zip(axes, (GaussianGP(), SparseBiasGP(order=None)), strict=True):
    runs = [optimise(clone(model), seed) for seed in range(4)]
    chosen = [grid[fitted.predict(grid[:, None]).argmax()] for _, _, fitted in runs]
    lost[type(model).__name__] = yield_of(grid).max() - yield_of(np.array(chosen))
    x, y, fitted = runs[0]
    mean, std = fitted.predict(grid[:, None], return_std=True)
    axis.fill_between(grid, mean - 1.96 * std, mean + 1.96 * std, alpha=0.25)
    axis.plot(grid, mean)
    axis.plot(grid, yield_of(grid), "k--", lw=0.8)
    axis.scatter(x, y, c=np.arange(len(x)), cmap="viridis", s=18)
    axis.set(title=type(model).__name__, xlabel="setting")

# %%
# What is lost by taking the setting that each model holds for the best:

for name, each in lost.items():
    print(f"{name}: mean {each.mean():.3f}, worst {each.max():.3f}")
