"""
A fault that lasts
==================

A sensor reads two units too high for a day. The readings of that day agree with one another, so they are no single
outliers: they are one episode.
"""

import numpy as np
import pandas as pd

from biasgp import SparseBiasGP
from biasgp.kernels import Matern32

rng = np.random.default_rng(3)
t = np.arange(150.0)
y = np.sin(t / 12.0) + 0.15 * rng.standard_normal(150)
y[20] += 4.0
y[70:94] += 2.0
X = pd.DataFrame({"time": pd.date_range("2026-06-01", periods=150, freq="1h")})

model = SparseBiasGP(Matern32()).fit(X, y)
display = model.plot()

# %%
# The episode, and the one spike, one row per reading:

frame = model.to_frame()
frame[frame["kind"] != "none"].groupby("kind")["bias"].agg(["count", "mean"]).round(2)
