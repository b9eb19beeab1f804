"""
Explaining a flag
=================

Why was a reading flagged? What was expected without it, what the odds are made of, and what would have to be true for
it to be good.
"""

from biasgp import SparseBiasGP
from biasgp.data import simulate

data = simulate("1d", 8)
model = SparseBiasGP().fit(data.X, data.y)
print(model.explain(int(model.outlier_probability_.argmax())))

# %%
# Are the intervals as wide as they should be? Each reading is left out in turn:

from biasgp.plot import CalibrationDisplay

display = CalibrationDisplay.from_estimator(model)
