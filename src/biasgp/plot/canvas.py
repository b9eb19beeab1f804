"""What all displays share: an axes to draw on, and the input that readings are drawn over."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array
from biasgp.covariance.threads import blas_threads_for
from biasgp.estimators.categories import Categories
from biasgp.estimators.validation import check_column, column_names

CURVE_POINTS = 400
"""Of a curve over one input: more than a figure has pixels for features of it."""
MARGIN = 0.02
"""Share of the range of the readings by which a curve goes on at either end."""
BAND_95 = (0.025, 0.5, 0.975)


def axes_for(ax: Any, count: int = 1) -> list[Any]:
    """The axes that were given, or `count` new ones below one another."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("Pictures are drawn with matplotlib: pip install 'biasgp[plot]'.") from None
    if ax is None:
        size = plt.rcParams["figure.figsize"]
        figure, axes = plt.subplots(count, 1, squeeze=False, figsize=(size[0], size[1] * (1 + count) / 2), sharex=True)
        figure.set_layout_engine("constrained")
        return list(axes[:, 0])
    found = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(found) != count:
        raise ValueError(f"ax must be {count} axes, got {len(found)}.")
    return found


def label_times(axis: Any, x: NDArray[Any]) -> None:
    """Short labels of dates and times, where x are such."""
    if x.dtype.kind == "M":
        dates: Any = import_module("matplotlib.dates")  # it has no types
        locator = dates.AutoDateLocator()
        axis.xaxis.set_major_locator(locator)
        axis.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))


@dataclass(frozen=True)
class Abscissa:
    """The input that readings are drawn over: which column it is, its name, and the times of its numbers."""

    estimator: Any
    column: int
    name: str

    @classmethod
    def of(cls, estimator: Any, column: int | str | None) -> Abscissa:
        """The only input of a fit, or the one that is asked for."""
        names, width = column_names(estimator), estimator.n_features_in_
        labelled = {each.index for each in getattr(estimator, "category_columns_", ())}
        inputs = [j for j in range(width) if j not in labelled]
        if column is not None:
            chosen = check_column("column", column, width, names)
        elif len(inputs) == 1:
            chosen = inputs[0]
        else:
            shown = ", ".join(repr(names[j]) if names else str(j) for j in inputs)
            raise ValueError(f"The model has several inputs: say with column= which to draw over, one of {shown}.")
        if chosen in labelled:
            raise ValueError(f"column={column!r} is a column of labels: draw over another one.")
        return cls(estimator, chosen, names[chosen] if names else f"input {chosen}" if len(inputs) > 1 else "x")

    @property
    def is_only_one(self) -> bool:
        """Whether f depends on nothing else."""
        labelled = getattr(self.estimator, "category_columns_", ())
        return bool(self.estimator.n_features_in_ - len(labelled) == 1)

    def shown(self, values: Array) -> NDArray[Any]:
        """Numbers of the column as they are drawn: times where it has times, hours where it has durations."""
        for time in getattr(self.estimator, "time_columns_", ()):
            if time.index == self.column:
                return values / 3600.0 if time.clock == "elapsed" else time.instants(values)
        return values

    @property
    def label(self) -> str:
        """The name, with the unit that durations are drawn in."""
        clocks = [each.clock for each in getattr(self.estimator, "time_columns_", ()) if each.index == self.column]
        return f"{self.name} (h)" if clocks == ["elapsed"] else self.name

    def curve(self) -> tuple[Array, Array]:
        """Where f is drawn, in the numbers of the column; and its 95 % interval and median, one column each.

        Over its only input f is a curve; over one of several it is drawn at the readings, in their order.
        """
        X = Categories(getattr(self.estimator, "category_columns_", ())).at_no_label(self.estimator._training_inputs())
        x = X[:, self.column]
        if self.is_only_one:
            more = MARGIN * (np.ptp(x) or 1.0)
            at = np.unique(np.concatenate([x, np.linspace(x.min() - more, x.max() + more, CURVE_POINTS)]))
            at = at if len(at) <= 2 * CURVE_POINTS else np.linspace(at[0], at[-1], CURVE_POINTS)
            X = np.repeat(X[:1], len(at), axis=0)
            X[:, self.column] = at
        else:
            X = X[np.argsort(x, kind="stable")]
        with blas_threads_for(len(X)):
            return X[:, self.column], self.estimator._quantiles(X, np.array(BAND_95), include_noise=False)
