"""Draws the pictures of the README and the docs into docs/img.

python docs/figures.py
"""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

from biasgp import BiasGPWarning, ConstantBiasGP, GaussianGP, SparseBiasGP
from biasgp.data import Scenario, simulate, toy
from biasgp.kernels import Exponential, Matern32

IMAGES = Path(__file__).parent / "img"


def readme() -> None:
    """A plain GP and the sparse-bias one on the readings of a sensor that spikes, shifts and sticks."""
    rng = np.random.default_rng(7)
    hours = np.arange(240.0)
    truth = 20.0 + 6.0 * np.sin(hours / 14.0) + 2.0 * np.sin(hours / 5.0)
    y = truth + 0.8 * rng.standard_normal(len(hours))
    spikes = rng.choice(len(hours), 14, replace=False)
    y[spikes] += rng.choice([-1.0, 1.0], 14) * rng.uniform(6.0, 14.0, 14)
    y[85:115] += 7.0
    y[170:195] = y[170]
    X = hours[:, None]
    plain, sparse = (model.fit(X, y) for model in (GaussianGP(Matern32()), SparseBiasGP(Matern32())))
    figure, axes = plt.subplots(1, 2, figsize=(11, 3.6), sharey=True)
    for axis, model, title in zip(axes, (plain, sparse), ("plain GP", "biasgp.SparseBiasGP"), strict=True):
        flagged = getattr(model, "outlier_mask_", np.zeros(len(y), dtype=bool))
        mean, std = model.predict(X, return_std=True)
        for episode in getattr(model, "episodes_", ()):
            axis.axvspan(episode.start - 0.5, episode.stop + 0.5, color="C1", alpha=0.15, lw=0)
            axis.text((episode.start + episode.stop) / 2.0, 41.0, episode.kind, ha="center", color="0.3", fontsize=8)
        axis.plot(hours[~flagged], y[~flagged], ".", color="0.6", ms=4, label="readings")
        if flagged.any():
            axis.plot(hours[flagged], y[flagged], "x", color="C3", ms=4, label="flagged")
        axis.fill_between(hours, mean - 1.96 * std, mean + 1.96 * std, color="C0", alpha=0.3, lw=0)
        axis.plot(hours, mean, color="C0", label="estimate, 95 % band")
        axis.plot(hours, truth, "k--", lw=1, label="truth")
        axis.set(title=title, xlabel="hours", ylim=(-3, 44))
        axis.legend(frameon=False, fontsize=8, loc="lower left", ncols=2)
    figure.tight_layout()
    figure.savefig(IMAGES / "readme.png", dpi=110)


def slab_mean() -> None:
    """Evidence of the slab: probabilities of outlier, and the biases with their errors."""
    data = simulate("1d", Scenario(0.15, 2.0, 0.5), random_state=3)
    model = SparseBiasGP().fit(data.X, data.y)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4))
    points = left.scatter(data.X[:, 0], data.y, c=model.outlier_probability_, cmap="viridis", s=14)
    figure.colorbar(points, ax=left, label="probability of being an outlier")
    grid = np.linspace(-3, 3, 300)[:, None]
    left.plot(grid, model.predict(grid), color="C3", lw=1.5)
    left.set(xlabel="x", ylabel="y", title="readings in doubt have probabilities in between")
    flagged = model.outlier_mask_
    right.errorbar(
        data.X[flagged, 0], model.bias_[flagged], 1.96 * model.bias_std_[flagged], fmt="o", ms=3, lw=1, color="C0"
    )
    right.axhline(2.0, color="k", ls="--", lw=1)
    right.set(xlabel="x", ylabel="bias_", title="biases with their 95 % intervals; the true mean is 2", ylim=(0, 4))
    figure.tight_layout()
    figure.savefig(IMAGES / "sparse.png", dpi=110)


def over_smooth() -> None:
    """The paper's Figures 1 and 2: no penalty on the bias, and the penalty chosen by maximum likelihood."""
    data = toy()
    figure, axes = plt.subplots(2, 2, figsize=(10, 5), sharex=True)
    for column, (title, lam) in enumerate((("no penalty: over-smooth (Figure 1)", 0.0), ("COB (Figure 2)", None))):
        model = ConstantBiasGP(Exponential(ard=True), lam=lam).fit(data.X, data.y)
        axes[0, column].plot(data.X, data.y, ".", color="0.6", ms=3)
        axes[0, column].plot(data.X_test, model.predict(data.X_test), color="C0")
        axes[0, column].set(title=title)
        axes[1, column].plot(data.X, model.bias_, ".", color="C3", ms=3)
    axes[0, 0].set_ylabel("readings and f")
    axes[1, 0].set_ylabel("bias")
    figure.tight_layout()
    figure.savefig(IMAGES / "constant-bias.png", dpi=110)


if __name__ == "__main__":
    warnings.simplefilter("ignore", BiasGPWarning)
    IMAGES.mkdir(exist_ok=True)
    readme()
    slab_mean()
    over_smooth()
