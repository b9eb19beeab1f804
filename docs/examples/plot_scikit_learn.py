"""
Beside scikit-learn
===================

The same readings, a tenth of which are shifted, and the same kernel. Throwing readings away that are far from a first
fit helps a little: the first fit has been drawn towards them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from biasgp import SparseBiasGP
from biasgp.data import one_dimensional, simulate
from biasgp.kernels import SquaredExponential

data = simulate("1d", 4, random_state=2)
grid = np.linspace(-3.0, 3.0, 300)[:, None]


def plain():
    """scikit-learn's Gaussian process with noise to be learnt."""
    return GaussianProcessRegressor(ConstantKernel() * RBF() + WhiteKernel(), normalize_y=True, random_state=0)


first = plain().fit(data.X, data.y)
residual = data.y - first.predict(data.X)
near = abs(residual) < 3.0 * residual.std()
models = {
    "scikit-learn": first,
    "scikit-learn, beyond 3 σ thrown away": plain().fit(data.X[near], data.y[near]),
    "SparseBiasGP": SparseBiasGP(SquaredExponential(), order=None).fit(data.X, data.y),
}

figure, axis = plt.subplots(figsize=(8, 4.5), layout="constrained")
axis.plot(data.X, data.y, ".", color="0.7", ms=4)
axis.plot(grid, one_dimensional(grid), "k--", lw=0.8, label="truth")
for name, model in models.items():
    axis.plot(grid, model.predict(grid), label=name)
axis.legend()
axis.set(xlabel="x", ylabel="reading")

# %%
# Root mean square error against the true function, and how many outliers were found:

for name, model in models.items():
    error = np.sqrt(np.mean((model.predict(data.X_test) - data.f_test) ** 2))
    print(f"{name}: {error:.3f}")
found = models["SparseBiasGP"].outlier_mask_
print(f"outliers: {data.is_outlier.sum()}; beyond 3 σ: {(~near & data.is_outlier).sum()}; SparseBiasGP:", end=" ")
print(f"{(found & data.is_outlier).sum()}, and {(found & ~data.is_outlier).sum()} good readings")

# %%
# scikit-learn's kernels can be used as they are:

same = SparseBiasGP(ConstantKernel() * RBF(), order=None).fit(data.X, data.y)
print(same.kernel_)
