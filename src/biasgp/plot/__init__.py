"""Pictures of a fit with matplotlib, after scikit-learn's displays. Needs `biasgp[plot]`.

Each display is made by `from_estimator`, which computes and draws. It holds what was drawn, and `plot(ax=...)` draws it
again elsewhere; `ax_` and `figure_` are where it was drawn last.

>>> import biasgp
>>> from biasgp.data import simulate
>>> data = simulate("1d", 1, n=60)
>>> display = biasgp.plot.OutlierDisplay.from_estimator(biasgp.RandomBiasGP().fit(data.X, data.y))
>>> again = display.plot()
>>> again.ax_ is display.ax_
True
"""

from biasgp.plot.checks import CalibrationDisplay, ResidualDisplay, TraceDisplay
from biasgp.plot.readings import FitDisplay, OutlierDisplay

__all__ = ["CalibrationDisplay", "FitDisplay", "OutlierDisplay", "ResidualDisplay", "TraceDisplay"]
