"""
A plain GP and one that knows outliers
======================================

A fifth of the readings are shifted. A plain Gaussian process follows them; a sparse bias leaves them out.
"""

import matplotlib.pyplot as plt

from biasgp import GaussianGP, SparseBiasGP
from biasgp.data import simulate

data = simulate("1d", 8, random_state=1)
figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for axis, model in zip(axes, (GaussianGP(), SparseBiasGP()), strict=True):
    model.fit(data.X, data.y).plot(ax=axis)
    axis.set_title(type(model).__name__, y=1.15)

# %%
# How far each flagged reading is off, with its 95 % interval:

from biasgp.plot import OutlierDisplay

display = OutlierDisplay.from_estimator(model)
