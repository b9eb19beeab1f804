"""
The paper's Figure 3: a variance for every reading
==================================================

The random bias model (RAB): every reading has a noise variance of its own, and all of them come from one inverse gamma
distribution. The variances of clean readings agree; those of the two outliers are far larger, and so they hardly count.
"""

import matplotlib.pyplot as plt
import numpy as np

from biasgp import RandomBiasGP
from biasgp.data import toy
from biasgp.kernels import Exponential

data = toy()
model = RandomBiasGP(Exponential()).fit(data.X, data.y)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(data.X, data.y, ".", color="0.6", ms=3, label="readings")
left.plot(data.X_test, data.f_test, color="k", lw=0.8, label="f")
left.plot(data.X_test, model.predict(data.X_test), lw=2, label="predicted mean")
left.set(title="(a) predicted mean of f", xlabel="x")
left.legend(loc="upper left", ncols=3, fontsize="small")
right.semilogy(data.X, model.bias_variance_, ".", ms=3)
right.set(title="(b) variance of each reading", xlabel="x")

# %%
# The noise variance of these data is 0.0268:

print(f"median variance: {np.median(model.bias_variance_):.4f}")
print("variances of the two outliers:", model.bias_variance_[data.is_outlier].round(2))
