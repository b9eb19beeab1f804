"""Code of somebody who uses biasgp, for type checkers: `py.typed` says that ours are to be believed.

Nothing here is run. A checker must find the two errors at the end, and nothing else: a comment that silences nothing is
an error, too. `make lint` asks mypy and pyright of the sources, `pipx run nox -s types` of the installed wheel.
"""

from __future__ import annotations

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import biasgp
from biasgp import BiasGPWarning, GaussianGP, SparseBiasGP
from biasgp.kernels import Matern32, Same
from biasgp.plot import FitDisplay


def use(X: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    model = SparseBiasGP(Matern32(length_scale="6h") + Same("sensor"), response="log", max_iter=50)
    fitted = model.fit(X, y, verdict=np.zeros(len(y)))
    assert_type(fitted, SparseBiasGP)
    assert_type(fitted.predict_quantiles(X, [0.5]), NDArray[np.float64])
    assert_type(fitted.plot(), FitDisplay)
    assert_type(biasgp.__version__, str)
    biasgp.save(fitted, "model.skops")
    plain: GaussianGP = GaussianGP(neighbors=30).fit(X, y)
    warning: type[UserWarning] = BiasGPWarning
    variance = biasgp.load("model.skops").noise_variance_
    assert_type(variance, float)
    return variance + plain.noise_variance_ + float(biasgp.clean(X, y)[0]) + len(warning.__name__)


def misuse() -> None:
    SparseBiasGP(max_iter="many")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    biasgp.no_such_name  # type: ignore[attr-defined]  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]
