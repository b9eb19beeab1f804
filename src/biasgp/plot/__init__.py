"""Pictures of a fit with matplotlib, after scikit-learn's displays. Needs `biasgp[plot]`.

Each display is made by `from_estimator`, which computes and draws. It holds what was drawn, and `plot(ax=...)` draws it
again elsewhere; `ax_` and `figure_` are where it was drawn last.
"""

from biasgp.plot.checks import CalibrationDisplay, ResidualDisplay, TraceDisplay
from biasgp.plot.readings import FitDisplay, OutlierDisplay

__all__ = ["CalibrationDisplay", "FitDisplay", "OutlierDisplay", "ResidualDisplay", "TraceDisplay"]
