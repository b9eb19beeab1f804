"""The paper's Section 3: two functions under eight scenarios of outliers, and the toy data of its Figures 1 to 3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from biasgp._typing import Array
from biasgp.data import SCENARIOS, Simulation, simulate, toy
from biasgp.estimators import ConstantBiasGP, RandomBiasGP
from biasgp.kernels import Exponential, SquaredExponential
from biasgp.runner import SERIAL, Execution
from biasgp.study.driver import StudyCell, StudyPlan, choose
from biasgp.study.methods import BUILTIN, MakeEstimator, Method, Setting, find_all
from biasgp.study.results import Results
from biasgp.study.scoring import Trial, drawable, predict_readings

DATASETS = ("1d", "friedman")
KERNELS = ("ard", "iso")
ILLUSTRATED = ("1d", 4, 0)
"""The data set, scenario and replicate of the paper's Figure 7: q = 0.1, μ = 5, σ = 5/12."""
CURVE_POINTS = 250
"""A fit is drawn at this many test inputs, or up to twice as many."""
TOYS: dict[str, MakeEstimator] = {
    "ml": lambda setting: ConstantBiasGP(setting.kernel, lam=0.0),
    "cob": lambda setting: ConstantBiasGP(setting.kernel),
    "rab": lambda setting: RandomBiasGP(setting.kernel),
}
"""The paper's Figures 1, 2 and 3: no penalty on the bias, the constant bias model, the random bias model."""


@dataclass(frozen=True)
class SimulatedDesign:
    """What the study compares, and on which data; as the paper has it when left out.

    Examples
    --------
    >>> from biasgp.study import SimulatedDesign
    >>> SimulatedDesign(datasets=("1d",), replicates=2, methods=("gp", "sparse")).scenarios
    (1, 2, 3, 4, 5, 6, 7, 8)
    """

    datasets: Sequence[str] = DATASETS
    """"1d", "friedman"."""
    kernels: Sequence[str] = ("ard",)
    """Squared exponential with one length-scale per input ("ard"), or a shared one ("iso")."""
    scenarios: Sequence[int] = tuple(SCENARIOS)
    """Of 1 to 8."""
    replicates: int = 15
    """Draws of each scenario."""
    methods: Sequence[str] | None = None
    """Names of methods, ours or registered. All of ours when left out."""
    seed: int = 0
    """Of all data."""
    n: int = 300
    """Readings to fit."""
    n_test: int = 1000
    """Readings to score."""


WHOLE_STUDY = SimulatedDesign()


def simulated(
    out: str | Path, design: SimulatedDesign = WHOLE_STUDY, execution: Execution = SERIAL, *, extend: bool = False
) -> Results:
    """Compare methods on the paper's simulated data. Results go to a folder, where a stopped study is continued.

    Parameters
    ----------
    out : path
        Folder of the study. One that holds a study of another design is refused.
    design : SimulatedDesign
        Data and methods.
    execution : Execution
        Workers, a time limit for each fit, and whether failed fits are tried again.
    extend : bool
        Allow the folder to hold a smaller study, and add to it.

    Examples
    --------
    >>> import tempfile
    >>> from biasgp.study import Execution, SimulatedDesign, simulated
    >>> small = SimulatedDesign(datasets=("friedman",), scenarios=(4,), replicates=1, methods=("gp",), n=30, n_test=20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = simulated(folder, small, Execution(progress=False))
    >>> [(row["scenario"], row["method"], row["status"]) for row in found.rows]
    [(4, 'gp', 'ok')]
    """
    if design.replicates < 1 or design.seed < 0:
        raise ValueError(f"replicates must be 1 or more and seed 0 or more, got {design.replicates} and {design.seed}.")
    methods = find_all(BUILTIN if design.methods is None else design.methods)
    design = replace(
        design,
        datasets=choose("data set", design.datasets, DATASETS),
        kernels=choose("kernel", design.kernels, KERNELS),
        scenarios=choose("scenario", design.scenarios, tuple(SCENARIOS)),
        methods=tuple(method.name for method in methods),
    )
    toys = (
        [StudyCell(f"toy/{name}", Method(name, make)) for name, make in TOYS.items()] if "1d" in design.datasets else []
    )
    cells = [*toys, *_cells(design, methods)]
    plan = StudyPlan("simulated", asdict(design), cells, partial(_perform, design))
    return plan.conduct(out, execution, extend)


def _cells(design: SimulatedDesign, methods: Sequence[Method]) -> Iterator[StudyCell]:
    """In the order of the results. With one input the two kernels are one, so 1d has the first only."""
    for dataset in design.datasets:
        kernels = design.kernels[:1] if dataset == "1d" else design.kernels
        for kernel, scenario, replicate, method in product(
            kernels, design.scenarios, range(design.replicates), methods
        ):
            identity = {
                "dataset": dataset,
                "kernel": kernel,
                "scenario": scenario,
                **{name: getattr(SCENARIOS[scenario], name) for name in ("q", "mu", "sigma")},
                "replicate": replicate,
                "method": method.name,
            }
            yield StudyCell(f"{dataset}/{kernel}/s{scenario}/r{replicate:02d}/{method.name}", method, identity)


def _perform(design: SimulatedDesign, cell: StudyCell) -> dict[str, Any]:
    """One task: scores, and the curve if a figure shows it."""
    if not cell.identity:
        return {"curve": _toy_curve(cell.method)}
    place = dataset, scenario, replicate = tuple(cell.identity[name] for name in ("dataset", "scenario", "replicate"))
    # The data depend on these alone.
    rng = np.random.default_rng([design.seed, DATASETS.index(dataset), scenario, replicate])
    data = simulate(dataset, scenario, n=design.n, n_test=design.n_test, random_state=rng)
    trial = Trial(data.X, data.y, data.is_outlier, data.X_test, data.y_test, data.f_test)
    n, d = data.X.shape
    setting = Setting(SquaredExponential(ard=cell.identity["kernel"] == "ard"), d, n, replicate)
    model, row = trial.fit_and_score(cell.method, setting)
    if place != ILLUSTRATED:
        return {"row": row}
    order = np.argsort(data.X_test[:, 0])[:: max(1, len(data.X_test) // CURVE_POINTS)]
    flagged = np.ravel(getattr(model, "outlier_mask_", ())).astype(bool)
    flagged = flagged if len(flagged) == n else flagged[:0]
    return {"row": row, "curve": _curve(data, order, *predict_readings(model, data.X_test[order]), flagged=flagged)}


def _toy_curve(method: Method) -> dict[str, Any]:
    """Figures 1 to 3: the fit to the toy data, and each reading's bias (its variance, under the random bias model)."""
    data = toy()
    trial = Trial(data.X, data.y, data.is_outlier, data.X_test[:0], data.y_test[:0], None)
    model, _ = trial.fit_and_score(method, Setting(Exponential(), 1, len(data.y), seed=0))
    mean, std = model.predict(data.X_test, return_std=True)
    variance = getattr(model, "bias_variance_", None)
    curve = _curve(data, slice(None), mean, std, bias=model.bias_, bias_variance=variance)
    return curve | {"noise_variance": float(model.noise_variance_)}


def _curve(data: Simulation, order: Any, mean: Array, std: Array, **extra: Any) -> dict[str, Any]:
    """Readings, and a fit with its standard deviation at some test inputs, along the one input."""
    readings: dict[str, Any] = {"x": data.X[:, 0], "y": data.y, "is_outlier": data.is_outlier}
    return drawable(**readings, grid=data.X_test[order, 0], f=data.f_test[order], mean=mean, std=std, **extra)
