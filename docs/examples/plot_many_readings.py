"""
Towards a million readings
==========================

A Matérn kernel of time is a finite state, so that the exact Gaussian process costs as much per reading for a million of
them as for a thousand. Here are 100,000, so that this page is built in seconds; :doc:`/large-data` has the figures for
a million. It takes numba (the extra ``large``), which compiles at its first use.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

from biasgp import SparseBiasGP
from biasgp.kernels import Matern32

rng = np.random.default_rng(0)
n = 100_000
hours = np.arange(n) / 60.0
truth = 20.0 + 5.0 * np.sin(2.0 * np.pi * hours / 24.0) + 2.0 * np.sin(hours / 40.0)
is_outlier = rng.random(n) < 0.02
y = truth + 0.8 * rng.standard_normal(n) + 8.0 * is_outlier

begun = time.perf_counter()
model = SparseBiasGP(Matern32(), order=None).fit(hours[:, None], y)
print(f"{n:,} readings in {time.perf_counter() - begun:.0f} s, compilation included where it was needed")

# %%
# Which were found:

found = model.outlier_mask_
right = (found & is_outlier).sum()
print(f"precision {right / found.sum():.3f}, recall {right / is_outlier.sum():.3f}")

# %%
# A look at two of the 69 days, with predictions where one wants them:

window = (hours > 480.0) & (hours < 528.0)
grid = np.linspace(480.0, 528.0, 500)[:, None]
mean, std = model.predict(grid, return_std=True)
figure, axis = plt.subplots(figsize=(9, 4), layout="constrained")
axis.plot(hours[window & ~found], y[window & ~found], ".", color="0.7", ms=2, label="readings")
axis.plot(hours[window & found], y[window & found], "x", color="tab:orange", label="flagged")
axis.fill_between(grid[:, 0], mean - 1.96 * std, mean + 1.96 * std, alpha=0.4)
axis.plot(grid, mean, label="estimated truth")
axis.set(xlabel="hours", ylabel="reading")
axis.legend(loc="upper right")
