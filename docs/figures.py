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
from biasgp.palette import AMBER, INK, SKY

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


QUESTIONS = (
    ("Can readings\nbe wrong?", "no", "GaussianGP", "the plain GP"),
    ("Heavy tails everywhere,\nno readings that stand apart?", "yes", "RandomBiasGP", "Student-t noise"),
    ("Must it be as fast as possible,\nand a small offset is no harm?", "yes", "ConstantBiasGP", "an L1 penalty"),
)
OPTIONS = (
    ("faults last", "order="),
    ("several sensors", "Same(), reference="),
    ("true peaks", 'response="auto"'),
    ("known noise", "noise_variance="),
    ("below a limit", "censored="),
    ("you know better", "verdict="),
)


def which_model() -> None:
    """The guide's decision picture: three questions down the left, an estimator to the right of each."""
    figure, axis = plt.subplots(figsize=(9.0, 6.4))
    axis.set(xlim=(0.0, 9.0), ylim=(0.0, 6.4))
    axis.axis("off")
    asked = {"boxstyle": "round,pad=0.5", "fc": "white", "ec": INK}
    taken = {"boxstyle": "round,pad=0.5", "fc": SKY, "ec": INK, "alpha": 0.6}
    arrow = {"arrowstyle": "->", "color": INK, "lw": 1.3}
    for row, (question, answer, name, what) in enumerate(QUESTIONS):
        y = 5.9 - 1.3 * row
        axis.text(2.2, y, question, ha="center", va="center", bbox=asked)
        axis.annotate("", (5.7, y), (3.7, y), arrowprops=arrow)
        axis.text(4.7, y + 0.1, answer, ha="center", va="bottom", style="italic")
        axis.text(6.8, y, f"{name}\n{what}", ha="center", va="center", bbox=taken)
        axis.annotate("", (2.2, y - 0.95), (2.2, y - 0.4), arrowprops=arrow)
        axis.text(2.3, y - 0.65, "yes" if answer == "no" else "no", va="center", style="italic")
    best = taken | {"fc": AMBER}
    axis.text(2.2, 2.0, "SparseBiasGP\nmost biases are zero", ha="center", va="center", weight="bold", bbox=best)
    axis.text(4.3, 2.0, "begin here, and say what you know:", va="center")
    for number, (known, option) in enumerate(OPTIONS):
        x, y = 1.5 + 3.0 * (number % 3), 1.15 - 0.75 * (number // 3)
        axis.text(x, y, f"{known}\n{option}", ha="center", va="center", fontsize=9, bbox=asked)
    figure.tight_layout()
    # Neither a date nor random identifiers: the same picture is the same file.
    with matplotlib.rc_context({"svg.hashsalt": "biasgp"}):
        figure.savefig(IMAGES / "which-model.svg", metadata={"Date": None})


if __name__ == "__main__":
    warnings.simplefilter("ignore", BiasGPWarning)
    IMAGES.mkdir(exist_ok=True)
    readme()
    slab_mean()
    over_smooth()
    which_model()
