"""What the studies compare, by name. Adding a method is one function and one line: register("name", function)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from biasgp.estimators import METHODS
from biasgp.kernels import Kernel
from biasgp.models.transform_choice import RESPONSES

NAME = re.compile(r"[A-Za-z0-9][\w.+-]*")
PAPERS = ("cob", "rab", "ep", "mcmc")
"""The four methods of the paper."""
BUILTIN = ("gp", "oracle", "cob", "rab", "sparse", "ep", "mcmc", "rcgp")
"""Our own methods, in the order of the tables; `oracle` is the plain GP that is told which readings are outliers."""
ORACLES = ("oracle", "oracle+noise")
"""The second one, which is compared where it is named, lets its noise vary as `sparse` does."""
SETTINGS: dict[str, dict[str, Any]] = {
    "oracle+noise": {"noise_model": "auto"},
    "sparse": {"order": None},
    "mcmc": {"chains": 2, "draws": 100, "tune": 60},
}
"""Settings of the studies: no biases that last, which their data have none of, and fewer draws, so that a study ends.
To compare others, register them."""
PAPERS_NOISE = {"ep": {"noise": "scale"}, "mcmc": {"noise": "scale"}}
"""In the paper's own experiments the t's scale stands for its noise."""


@dataclass(frozen=True)
class Setting:
    """What a method is asked to work with.

    Examples
    --------
    >>> from biasgp.kernels import SquaredExponential
    >>> from biasgp.study import Setting
    >>> Setting(SquaredExponential(ard=True), n_features=10, n_readings=300, seed=0).ard
    True
    """

    kernel: Kernel
    """The covariance of the study, as our own estimators take it."""
    n_features: int
    n_readings: int
    seed: int
    """For methods that draw random numbers; the same for the same data."""
    as_in_paper: bool = True
    """Whether the paper's conventions hold, or each estimator's defaults."""

    @property
    def ard(self) -> bool:
        """One length-scale per input, or a shared one."""
        return bool(getattr(self.kernel, "ard", True))


MakeEstimator = Callable[[Setting], Any]


@dataclass(frozen=True)
class Method:
    """A name and the function that makes its estimator; `knows_outliers`: it is fitted without the true outliers."""

    name: str
    make: MakeEstimator
    knows_outliers: bool = False


_registered: dict[str, Method] = {}


def register(name: str, make_estimator: MakeEstimator, *, knows_outliers: bool = False) -> None:
    """Add a method to the studies under a name, which replaces one of that name that was registered before.

    Parameters
    ----------
    name : str
        What the tables call it: letters, digits and -_.+
    make_estimator : callable
        From a Setting (kernel, n_features, n_readings, ard, seed) to an estimator with `fit(X, y)` and
        `predict(X, return_std=True)` → mean and standard deviation of the next reading. If predict has a parameter
        include_noise, it is passed True. What else is there is used: `outlier_mask_`, `predict_quantiles`,
        `log_predictive_density(X, y)`, `diagnosis_`. It may be defined in a script or a notebook.
    knows_outliers : bool
        Fit it without the true outliers, as the oracle is.

    Examples
    --------
    >>> import tempfile
    >>> from biasgp import GaussianGP
    >>> from biasgp.kernels import Matern32
    >>> from biasgp.study import Execution, SimulatedDesign, register, simulated
    >>> register("matern", lambda setting: GaussianGP(Matern32(ard=setting.ard)))
    >>> small = SimulatedDesign(("friedman",), scenarios=(4,), replicates=1, methods=("gp", "matern"), n=30, n_test=20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = simulated(folder, small, Execution(progress=False))
    >>> [(row["method"], row["status"]) for row in found.rows]
    [('gp', 'ok'), ('matern', 'ok')]
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"A method's name is made of letters, digits and -_.+, got {name!r}.")
    if name in (*BUILTIN, *ORACLES):
        raise ValueError(f"{name!r} is one of our own methods; choose another name.")
    _registered[name] = Method(name, make_estimator, knows_outliers)


def find_all(names: Iterable[str]) -> tuple[Method, ...]:
    """The methods of these names, each once; "cob@auto" is `cob` with response="auto". ValueError without any."""
    found = tuple(_find(name) for name in dict.fromkeys(names))
    if not found:
        raise ValueError(f"methods names none; there are {', '.join([*BUILTIN, *_registered])}.")
    return found


def _find(name: str) -> Method:
    if name in _registered:
        return _registered[name]
    base, _, response = name.partition("@")
    if base not in (*BUILTIN, *ORACLES):
        known = [*BUILTIN, *ORACLES[1:], *_registered]
        near = difflib.get_close_matches(base, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"There is no method {name!r}; there are {', '.join(known)}.{hint}")
    if "@" in name and response not in RESPONSES:
        raise ValueError(f"{name!r}: what follows the @ must be one of {', '.join(RESPONSES)}.")
    make = partial(_make_builtin, base, response or "identity")
    return Method(name, make, knows_outliers=base in ORACLES)


def _make_builtin(name: str, response: str, setting: Setting) -> Any:
    settings = SETTINGS.get(name, {}) | (PAPERS_NOISE.get(name, {}) if setting.as_in_paper else {})
    kind = METHODS["gp" if name in ORACLES else name]
    estimator = kind(kernel=setting.kernel, response=response, **settings)  # type: ignore[call-arg,unused-ignore]
    if estimator.get_params().get("random_state", 0) is None:
        estimator.set_params(random_state=setting.seed)
    return estimator
