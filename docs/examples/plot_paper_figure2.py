"""
The paper's Figure 2: an L1 penalty on the biases
=================================================

The constant bias model (COB): the likelihood of Figure 1 plus λ|δ|₁. Most biases are exactly zero then. The paper's
rule for λ has no minimum; here λ = k/σ, with k by maximum likelihood.
"""

import matplotlib.pyplot as plt
import numpy as np

from biasgp import ConstantBiasGP
from biasgp.data import toy
from biasgp.kernels import Exponential

data = toy()
model = ConstantBiasGP(Exponential()).fit(data.X, data.y)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(data.X, data.y, ".", color="0.6", ms=3, label="readings")
left.plot(data.X_test, data.f_test, color="k", lw=0.8, label="f")
left.plot(data.X_test, model.predict(data.X_test), lw=2, label="predicted mean")
left.set(title="(a) predicted mean of f", xlabel="x")
left.legend(loc="upper left", ncols=3, fontsize="small")
right.plot(data.X, model.bias_, ".", ms=3)
right.set(title="(b) estimated biases", xlabel="x")

# %%
# How far the mean is from f, and the biases of the two outliers:

error = np.sqrt(np.mean((model.predict(data.X_test) - data.f_test) ** 2))
print(f"root mean square error of f: {error:.3f}")
print("readings with a bias:", np.count_nonzero(model.bias_), "of", len(data.y))
print("biases of the two outliers:", model.bias_[data.is_outlier].round(2))
