"""
Drift, with a reference beside it
=================================

A cheap sensor drifts as smoothly as the signal changes: by itself it cannot be told from the truth. A few readings of a
good instrument at the same place settle it. ``Same("sensor")`` gives each sensor a slow error of its own, and
``reference=`` names the one that has none.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from biasgp import SparseBiasGP
from biasgp.kernels import Matern32, Same

rng = np.random.default_rng(2)
hours = np.arange(160.0)
truth = 30.0 + 5.0 * np.sin(hours / 14.0)
drift = 6.0 * np.sin(np.pi * hours / 160.0) ** 2
cheap = truth + drift + 0.8 * rng.standard_normal(160)
visits = np.arange(4, 160, 8)
good = truth[visits] + 0.8 * rng.standard_normal(len(visits))

frame = pd.DataFrame(
    {
        "hours": np.concatenate([hours, hours[visits]]),
        "sensor": ["cheap"] * 160 + ["reference"] * len(visits),
        "ppb": np.concatenate([cheap, good]),
    }
)
inputs = frame[["hours", "sensor"]]

kernel = Matern32().on("hours") + Same("sensor") * Matern32().on("hours")
model = SparseBiasGP(kernel, order="hours", reference="reference").fit(inputs, frame["ppb"])
mean, std = model.predict(inputs[:160], return_std=True)

# %%
# The truth that both share, and the drift: what the cheap sensor has besides.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(hours, cheap, ".", color="0.6", ms=4, label="cheap sensor")
left.plot(hours[visits], good, "D", color="tab:orange", ms=4, label="reference")
left.fill_between(hours, mean - 1.96 * std, mean + 1.96 * std, alpha=0.25, label="95 % band of f")
left.plot(hours, mean, label="estimated truth")
left.plot(hours, truth, "k", lw=0.8, label="truth")
left.set(xlabel="hours", ylabel="ppb")
left.legend(fontsize="small", ncols=2)
right.plot(hours, drift, "k", lw=0.8, label="true drift")
right.plot(hours, model.bias_[:160], label="estimated")
right.set(xlabel="hours", ylabel="ppb")
right.legend()

# %%
# The error of the cheap sensor before and after:

cleaned = cheap - model.bias_[:160]
print(f"root mean square distance to the truth: {np.sqrt(np.mean((cheap - truth) ** 2)):.2f} ppb as read,", end=" ")
print(f"{np.sqrt(np.mean((cleaned - truth) ** 2)):.2f} ppb cleaned (the noise alone has 0.80)")
