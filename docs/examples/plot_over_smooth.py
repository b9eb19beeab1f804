"""
The paper's Figures 1 and 2
===========================

Without a penalty on the biases the constant bias model is over-smooth; with the penalty chosen by maximum likelihood it
follows the truth.
"""

import matplotlib.pyplot as plt

from biasgp import ConstantBiasGP
from biasgp.data import toy
from biasgp.kernels import Exponential

data = toy()
figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for axis, (title, lam) in zip(axes, {"no penalty": 0.0, "by maximum likelihood": None}.items(), strict=True):
    model = ConstantBiasGP(Exponential(ard=True), lam=lam).fit(data.X, data.y)
    axis.plot(data.X, data.y, ".", color="0.6", ms=3)
    axis.plot(data.X_test, model.predict(data.X_test), lw=1.5)
    axis.set(title=title, xlabel="x")
