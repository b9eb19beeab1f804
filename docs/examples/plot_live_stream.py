"""
A live stream
=============

A fitted model goes on: ``model.stream()`` takes one reading after the other, with constant time and memory for each.
The first reading of a fault looks like an outlier; the verdict is revised as others follow, until it is settled.
"""

import matplotlib.pyplot as plt
import numpy as np

from biasgp import SparseBiasGP
from biasgp.kernels import Matern32

rng = np.random.default_rng(7)
t = np.arange(400.0)
y = np.sin(t / 20.0) + 0.15 * rng.standard_normal(400)
y[250] += 2.0
y[300:330] += 1.5

model = SparseBiasGP(Matern32()).fit(t[:200, None], y[:200])
stream = model.stream(lag=20)

# %%
# Readings come one at a time. What is said of each as it comes, and what is said once 20 others have followed:

at_once, settled = [], {}
for time, reading in zip(t[200:], y[200:], strict=True):
    verdicts = stream.push(time, reading)
    at_once.append((verdicts.mean[0], verdicts.std[0], verdicts.outlier_probability[0], verdicts.episode[0]))
    final = verdicts.settled
    settled.update(zip(final.time, zip(final.outlier_probability, final.episode, strict=True), strict=True))
mean, std, probability, episode = (np.array(each) for each in zip(*at_once, strict=True))
print("named at once as a shift:", t[200:][episode == "shift"])
print("named once settled:", np.array([time for time, (_, kind) in settled.items() if kind == "shift"]))

# %%
# The estimate as it was at each moment, with nothing known of what came later. Below, the probability that a reading is
# a single outlier: readings of a shift are none once the shift is known.

figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 5), sharex=True, layout="constrained")
top.plot(t[200:], y[200:], ".", color="0.6", ms=4)
top.plot(t[200:], np.sin(t[200:] / 20.0), "k", lw=0.8)
top.fill_between(t[200:], mean - 1.96 * std, mean + 1.96 * std, alpha=0.3)
top.plot(t[200:], mean)
top.set(ylabel="reading")
bottom.plot(t[200:], probability, ".", label="as it came")
bottom.plot(list(settled), [each for each, _ in settled.values()], "x", label="settled")
bottom.set(xlabel="time", ylabel="single outlier")
bottom.legend()
