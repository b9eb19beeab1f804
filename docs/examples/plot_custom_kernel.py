"""
Kernels: text, sums, and one of your own
========================================

What is known of a signal goes into its kernel. A daily cycle on top of a slow change carries f over a gap of two days;
a Matérn kernel alone does not know what happens there.
"""

import matplotlib.pyplot as plt
import numpy as np

from biasgp import SparseBiasGP
from biasgp.kernels import Matern32, Stationary, parse

rng = np.random.default_rng(1)
hours = np.arange(0.0, 240.0)
hours = hours[(hours < 120.0) | (hours >= 168.0)]
y = 3.0 * np.sin(2.0 * np.pi * hours / 24.0) + 0.01 * hours + 0.5 * rng.standard_normal(len(hours))
y[::17] += 6.0
X, grid = hours[:, None], np.linspace(0.0, 240.0, 500)[:, None]

kernels = {
    "Matern32()": Matern32(),
    'parse("matern32 + periodic(24, fixed=period)")': parse("matern32 + periodic(24, fixed=period)"),
}
figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for axis, (name, kernel) in zip(axes, kernels.items(), strict=True):
    model = SparseBiasGP(kernel, order=None).fit(X, y)
    mean, std = model.predict(grid, return_std=True)
    axis.fill_between(grid[:, 0], mean - 1.96 * std, mean + 1.96 * std, alpha=0.25)
    axis.plot(grid, mean)
    axis.plot(hours, y, ".", color="0.6", ms=3)
    axis.plot(hours[model.outlier_mask_], y[model.outlier_mask_], "x", color="tab:orange")
    axis.set(title=name, xlabel="hours")

# %%
# The kernel as it was fitted:

print(model.kernel_)

# %%
# A stationary kernel of your own is one function: the correlation at the squared distance D², and −2 times its slope in
# D². It adds and multiplies with the others.


class RationalQuadratic(Stationary):
    """1/(1 + D²/2): a mixture of squared exponentials of many length-scales."""

    @staticmethod
    def profile(D2):
        k = 1.0 / (1.0 + 0.5 * D2)
        return k, k**2


own = SparseBiasGP(RationalQuadratic(), order=None).fit(X, y)
print(own.kernel_)
print("log evidence:", round(own.log_evidence_, 1), "of this kernel,", round(model.log_evidence_, 1), "with the cycle")
