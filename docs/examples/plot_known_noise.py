"""
Readings of known noise
=======================

Half of the readings come from an instrument that is five times as noisy, and says so. A reading that is far off by the
measure of the good instrument may be quite usual for the other.
"""

import numpy as np

from biasgp import SparseBiasGP

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0.0, 10.0, 120))[:, None]
std = np.where(np.arange(120) % 2, 0.5, 0.1)
y = np.sin(X[:, 0]) + std * rng.standard_normal(120)
y[[30, 75]] += 3.0

model = SparseBiasGP().fit(X, y, noise_variance=std**2)
print("flagged:", np.flatnonzero(model.outlier_mask_))
display = model.plot()
