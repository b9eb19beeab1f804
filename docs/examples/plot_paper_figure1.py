"""
The paper's Figure 1: biases without a penalty
==============================================

Give every reading a bias of its own, and let maximum likelihood choose them all. 500 readings, two of which (above 2)
are outliers; the kernel is exponential, as in the paper. The likelihood has no minimum: the biases take in the pattern
of f, and what is left for f is over-smooth. (The paper prints no data; these are drawn as its caption describes.)
"""

import matplotlib.pyplot as plt
import numpy as np

from biasgp import ConstantBiasGP
from biasgp.data import toy
from biasgp.kernels import Exponential

data = toy()
model = ConstantBiasGP(Exponential(), lam=0.0).fit(data.X, data.y)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(data.X, data.y, ".", color="0.6", ms=3, label="readings")
left.plot(data.X_test, data.f_test, color="k", lw=0.8, label="f")
left.plot(data.X_test, model.predict(data.X_test), lw=2, label="predicted mean")
left.set(title="(a) predicted mean of f", xlabel="x")
left.legend(loc="upper left", ncols=3, fontsize="small")
right.plot(data.X, model.bias_, ".", ms=3)
right.set(title="(b) estimated biases", xlabel="x")

# %%
# Every reading has a bias, not two of them, and those of clean readings are larger than their noise:

clean = ~data.is_outlier
noise = (data.y - data.f)[clean]
print(f"readings with a bias: {np.count_nonzero(model.bias_)} of {len(data.y)}")
print(f"standard deviation over the clean readings: bias {model.bias_[clean].std():.2f}, noise {noise.std():.2f}")
error = np.sqrt(np.mean((model.predict(data.X_test) - data.f_test) ** 2))
print(f"root mean square error of f: {error:.3f}")
