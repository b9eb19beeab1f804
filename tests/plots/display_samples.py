"""Displays of made-up numbers, and how they look without text: the same with every version of matplotlib.

    python tests/plots/display_samples.py

draws the baselines anew; look at them before they are committed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from biasgp.plot import CalibrationDisplay, FitDisplay, OutlierDisplay, ResidualDisplay, TraceDisplay

BASELINE = Path(__file__).parent / "baseline"
SIZE, DPI = (2.4, 1.8), 80


def displays() -> dict[str, Any]:
    """One of each kind, not drawn yet."""
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 10.0, 60)
    f = np.sin(x)
    y = f + 0.1 * rng.standard_normal(60)
    flagged = np.zeros(60, dtype=bool)
    flagged[[5, 30, 44]] = True
    y[flagged] += 1.5
    y[10:18] += 0.8
    fit = FitDisplay(
        x=x,
        y=y,
        flagged=flagged,
        curve_x=x,
        curve=f,
        low=f - 0.3,
        high=f + 0.3,
        episodes=[("shift", x[10], x[17]), ("stuck", x[50], x[59])],
    )
    chains = np.exp(0.1 * rng.standard_normal((2, 3, 20)))
    levels = np.linspace(0.1, 0.9, 9)
    return {
        "fit": fit,
        "outlier": OutlierDisplay(x=x[flagged], bias=np.array([1.5, -1.0, 0.6]), half_width=np.array([0.3, 0.2, 0.5])),
        "residual": ResidualDisplay(truth=f, residual=rng.standard_normal(60)),
        "calibration": CalibrationDisplay(levels=levels, coverage=levels**1.2),
        "trace": TraceDisplay(draws={"a": chains[0], "b": chains[1]}, r_hat={"a": 1.0, "b": 1.01}),
    }


def rendered(display: Any) -> np.ndarray:
    """The picture as numbers from 0 to 1, of shape (height, width, 3), without text, ticks and legend."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    rows = len(display.draws) if isinstance(display, TraceDisplay) else 1
    axes = [figure.add_axes((0.0, i / rows, 1.0, 1.0 / rows)) for i in range(rows)]
    display.plot(ax=axes if rows > 1 else axes[0])
    for axis in axes:
        axis.set_axis_off()
        axis.set_title("")
        if axis.get_legend() is not None:
            axis.get_legend().remove()
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3] / 255.0


if __name__ == "__main__":
    import matplotlib.image

    for name, display in displays().items():
        matplotlib.image.imsave(BASELINE / f"{name}.png", rendered(display))
