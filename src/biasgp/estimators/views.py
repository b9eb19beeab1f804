"""How a fit is looked at in Python: as a table, as a picture, in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from biasgp._typing import Array
from biasgp.covariance.threads import blas_threads_for
from biasgp.estimators.categories import Categories
from biasgp.estimators.explaining import NONE, SPIKE
from biasgp.estimators.frames import Given, episode_numbers, frame_of
from biasgp.estimators.notebook import summary_html
from biasgp.response import Scaling

if TYPE_CHECKING:
    from biasgp.plot import FitDisplay


class FitViews:
    """What every estimator shows of a fit."""

    _given: Given
    _posterior: Any
    _scaling: Scaling

    def to_frame(self) -> Any:
        """What the fit says of its readings, one row per reading, in their order.

        Returns
        -------
        pandas or polars DataFrame
            As the readings came in (X, else y); pandas where they were arrays. A pandas frame has the index of the
            readings, which a model file does not keep. Its columns:

            reading
                y.
            truth, std
                Mean and standard deviation of f there, as `predict` gives them.
            bias
                `bias_`; 0 where the model has none.
            probability
                `outlier_probability_`; NaN where the model has none.
            kind
                What the reading was taken for: "none" (good), "spike", "group" (one of several outliers of about the
                same bias), "replaced" (a value that has nothing to do with f), "crowd" (one of several at one place
                that agree with one another only), or the kind of its episode: "stuck", "shift", "step", "ramp",
                "erratic".
            episode
                Its episode as an index of `episodes_`; −1 where it is in none.

        Examples
        --------
        >>> from biasgp import SparseBiasGP
        >>> from biasgp.data import simulate
        >>> data = simulate("1d", 8)
        >>> frame = SparseBiasGP().fit(data.X, data.y).to_frame()
        >>> list(frame.columns)
        ['reading', 'truth', 'std', 'bias', 'probability', 'kind', 'episode']
        """
        given = self._as_given()
        n = len(given.y)
        truth, std = self._truth()
        columns = {
            "reading": given.y,
            "truth": truth,
            "std": std,
            "bias": np.asarray(getattr(self, "bias_", np.zeros(n))),
            "probability": np.asarray(getattr(self, "outlier_probability_", np.full(n, np.nan))),
            "kind": self._kinds(),
            "episode": episode_numbers(self, n),
        }
        return frame_of(self, columns)

    def plot(self, column: int | str | None = None, *, ax: Any = None) -> FitDisplay:
        """Readings, flagged ones and episodes, and f with its 95 % band. Needs `biasgp[plot]`.

        Parameters
        ----------
        column : int or str, optional
            The input to draw over, by index or name; needed where there are several.
        ax : matplotlib Axes, optional
            Where to draw; a new figure when left out.

        Returns
        -------
        biasgp.plot.FitDisplay
            With the drawn `ax_` and `figure_`.
        """
        from biasgp.plot import FitDisplay

        return FitDisplay.from_estimator(self, column, ax=ax)

    def _repr_html_inner(self) -> str:
        """scikit-learn's picture of the estimator, and what came of the fit below it."""
        return super()._repr_html_inner() + summary_html(self)  # type: ignore[misc,no-any-return]

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += summary_html(self)
        return bundle

    def _noise_at(self, X: Array) -> Array | float:
        """Variance of the noise at the rows of X, in model units."""
        raise NotImplementedError

    def _moments(self, X: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of f at the rows of X."""
        raise NotImplementedError

    def _standardised_residuals(self) -> Array:
        """Distance of each reading from its prediction without it, in that prediction's standard deviations.

        NaN for outliers, and for readings of which only a limit is known.
        """
        given = self._as_given()
        with blas_threads_for(len(given.y)):
            mean, variance = self._posterior.leave_one_out()
        spread = np.sqrt(variance + self._noise_at(self._training_inputs()) + given.variances)
        residual = (self._scaling.forward(given.y) - mean) / spread
        limits = getattr(self, "_censored", None)
        residual[getattr(self, "outlier_mask_", np.zeros(len(residual), dtype=bool))] = np.nan
        return residual if limits is None else np.where(limits == 0.0, residual, np.nan)

    def _as_given(self) -> Given:
        """The readings of the fit."""
        check_is_fitted(self)
        if not hasattr(self, "_given"):
            raise ValueError(
                "This model does not hold its readings: it is of a record that was fitted in blocks, or was saved by "
                "an earlier version. Fit again."
            )
        return self._given

    def _truth(self) -> tuple[Array, Array]:
        """Mean and standard deviation of f at the readings of the fit."""
        X = self._training_inputs()
        X = Categories(getattr(self, "category_columns_", ())).at_no_label(X)
        with blas_threads_for(len(X)):
            return self._moments(X)

    def _training_inputs(self) -> Array:
        """X of the fit, as numbers."""
        return np.asarray(self._posterior.X)

    def _kinds(self) -> NDArray[np.object_]:
        """What each reading was taken for."""
        flagged = getattr(self, "outlier_mask_", np.zeros(len(self._given.y), dtype=bool))
        return np.where(flagged, SPIKE, NONE).astype(object)
