"""
Polars in, polars out
=====================

A polars frame goes in as it is, times included, and ``to_frame()`` comes back as one.
"""

from datetime import datetime, timedelta

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

import biasgp
from biasgp import SparseBiasGP
from biasgp.kernels import Matern32

rng = np.random.default_rng(4)
start = datetime(2026, 5, 1)
y = 15.0 + 3.0 * np.sin(np.arange(180) / 9.0) + 0.5 * rng.standard_normal(180)
y[[25, 26, 140]] += 8.0
table = pl.DataFrame({"time": [start + timedelta(minutes=10 * i) for i in range(180)], "ppb": y})

model = SparseBiasGP(Matern32()).fit(table.select("time"), table["ppb"])
frame = model.to_frame()
print(frame.filter(pl.col("probability") > 0.5))

# %%
# Hourly means of the estimated truth, by polars' own means:

hourly = pl.concat([table, frame.select("truth")], how="horizontal")
hourly = hourly.group_by_dynamic("time", every="1h").agg(pl.col("ppb", "truth").mean())
figure, axis = plt.subplots(figsize=(8, 4), layout="constrained")
axis.plot(hourly["time"], hourly["ppb"], "o-", color="0.6", ms=3, label="hourly means of the readings")
axis.plot(hourly["time"], hourly["truth"], label="of the estimated truth")
axis.legend()
axis.tick_params(axis="x", rotation=30)

# %%
# Nothing but the cleaned series:

cleaned = biasgp.clean(table["time"], table["ppb"], estimator=SparseBiasGP(Matern32()))
print(type(cleaned), cleaned.name)
