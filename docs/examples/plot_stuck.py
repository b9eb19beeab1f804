"""
A stuck sensor
==============

A sensor repeats its last value for a day. No single reading is far off, so a test of size finds nothing; that readings
repeat is the evidence. They tell nothing about the truth, and the band is wide there.
"""

import numpy as np
import pandas as pd

from biasgp import SparseBiasGP
from biasgp.kernels import Matern32

rng = np.random.default_rng(5)
t = np.arange(200.0)
truth = 20.0 + 4.0 * np.sin(t / 15.0)
y = np.round(truth + 0.4 * rng.standard_normal(200), 2)
y[90:114] = y[90]
X = pd.DataFrame({"time": pd.date_range("2026-03-01", periods=200, freq="1h")})

model = SparseBiasGP(Matern32()).fit(X, y)
display = model.plot()

# %%
# What was found, and how well the truth is known inside and outside of it:

for episode in model.episodes_:
    print(episode.kind, "from row", min(episode.rows), "to row", max(episode.rows))
mean, std = model.predict(X, return_std=True)
stuck = model.outlier_mask_
print(f"standard deviation of f: {std[stuck].mean():.2f} while stuck, {std[~stuck].mean():.2f} elsewhere")
