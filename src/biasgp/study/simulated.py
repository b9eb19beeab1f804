"""The paper's Section 3: two functions under eight scenarios of outliers, and the toy of its Figures 1 to 3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console

from biasgp._typing import Array
from biasgp.data import SCENARIOS, Simulation, simulate, toy
from biasgp.estimators import ConstantBiasGP, RandomBiasGP
from biasgp.kernels import Exponential, SquaredExponential
from biasgp.runner import Task
from biasgp.study.driver import How, Item, StudyPlan, conduct
from biasgp.study.methods import Method, Setting, builtin_names, find_all
from biasgp.study.results import SIMULATED_COLUMNS, Results, Row
from biasgp.study.scoring import FittedMethod, Trial, fit, readings, score

DATASETS = ("1d", "friedman")
KERNELS = ("ard", "iso")
ILLUSTRATED = ("1d", 4, 0)
"""The data set, scenario and replicate of the paper's Figure 7: q = 0.1, μ = 5, σ = 5/12."""
TOYS = ("ml", "cob", "rab")
"""The paper's Figures 1, 2 and 3: no penalty on the bias, the constant bias model, the random bias model."""


@dataclass(frozen=True)
class SimulatedConfiguration:
    """Everything that the results depend on."""

    datasets: tuple[str, ...]
    kernels: tuple[str, ...]
    scenarios: tuple[int, ...]
    replicates: int
    methods: tuple[str, ...]
    seed: int
    n: int
    n_test: int


@dataclass(frozen=True)
class SimulatedCell:
    """One task: a method on one replicate."""

    dataset: str
    kernel: str
    scenario: int
    replicate: int
    method: Method
    seed: int
    n: int
    n_test: int

    @property
    def key(self) -> str:
        return f"{self.dataset}/{self.kernel}/s{self.scenario}/r{self.replicate:02d}/{self.method.name}"

    def identity(self) -> Row:
        """The columns that say which task it is."""
        scenario = SCENARIOS[self.scenario]
        return {
            "dataset": self.dataset,
            "kernel": self.kernel,
            "scenario": self.scenario,
            "q": scenario.q,
            "mu": scenario.mu,
            "sigma": scenario.sigma,
            "replicate": self.replicate,
            "method": self.method.name,
        }


def draw(cell: SimulatedCell) -> Simulation:
    """The data, from a seed that depends on (seed, data set, scenario, replicate) and nothing else."""
    rng = np.random.default_rng([cell.seed, DATASETS.index(cell.dataset), cell.scenario, cell.replicate])
    return simulate(cell.dataset, cell.scenario, n=cell.n, n_test=cell.n_test, random_state=rng)


def perform(payload: SimulatedCell | str) -> dict[str, Any]:
    """One task: scores, and the curve if a figure shows it."""
    if isinstance(payload, str):
        return {"curve": toy_curve(payload)}
    data = draw(payload)
    problem = Trial(data.X, data.y, data.is_outlier, data.X_test, data.y_test, data.f_test)
    n, d = data.X.shape
    setting = Setting(SquaredExponential(ard=payload.kernel == "ard"), d, n, payload.replicate)
    fitted = fit(payload.method, setting, problem)
    row = score(payload.method, fitted, problem)
    shown = (payload.dataset, payload.scenario, payload.replicate) == ILLUSTRATED
    return {"row": row, "curve": _curve(fitted, data) if shown else None}


def _curve(fitted: FittedMethod, data: Simulation) -> dict[str, Any]:
    """Readings, and the mean with its standard deviation along the one input."""
    order = np.argsort(data.X_test[:, 0])[:: max(1, len(data.X_test) // 250)]
    X = data.X_test[order]
    mean, std = readings(fitted.model, X)
    flagged = getattr(fitted.model, "outlier_mask_", np.zeros(0))
    return {
        "x": short(data.X[:, 0]),
        "y": short(data.y),
        "is_outlier": data.is_outlier.astype(int).tolist(),
        "flagged": np.asarray(flagged).astype(int).tolist() if len(flagged) == len(data.y) else [],
        "grid": short(X[:, 0]),
        "f": short(data.f_test[order]),
        "mean": short(mean),
        "std": short(std),
    }


def toy_curve(name: str) -> dict[str, Any]:
    """Figures 1 to 3: the fit of f on the toy, and each reading's bias (its variance, under the random bias model)."""
    data = toy()
    kernel = Exponential()
    models = {"ml": ConstantBiasGP(kernel, lam=0.0), "cob": ConstantBiasGP(kernel), "rab": RandomBiasGP(kernel)}
    model = models[name]
    problem = Trial(data.X, data.y, data.is_outlier, data.X_test, data.y_test, data.f_test)
    fitted = fit(Method(name, lambda setting: model), Setting(kernel, 1, len(problem.y), 0), problem)
    mean, std = model.predict(data.X_test, return_std=True)
    variance = getattr(fitted.model, "bias_variance_", None)
    return {
        "x": short(data.X[:, 0]),
        "y": short(data.y),
        "is_outlier": data.is_outlier.astype(int).tolist(),
        "grid": short(data.X_test[:, 0]),
        "f": short(data.f_test),
        "mean": short(mean),
        "std": short(std),
        "bias": short(fitted.model.bias_),
        "bias_variance": None if variance is None else short(variance),
        "noise_variance": float(fitted.model.noise_variance_),
    }


def short(values: Array) -> list[float]:
    """Five digits: enough to draw."""
    return [float(f"{value:.5g}") for value in np.asarray(values, dtype=float)]


def cells(configuration: SimulatedConfiguration, methods: Sequence[Method]) -> Iterator[SimulatedCell]:
    """All tasks, in the order of the results. With one input the two kernels are one, so 1d has the first only."""
    for dataset in configuration.datasets:
        kernels = configuration.kernels[:1] if dataset == "1d" else configuration.kernels
        for kernel in kernels:
            for scenario in configuration.scenarios:
                for replicate in range(configuration.replicates):
                    for method in methods:
                        sizes = (configuration.seed, configuration.n, configuration.n_test)
                        yield SimulatedCell(dataset, kernel, scenario, replicate, method, *sizes)


def simulated(
    out: str | Path,
    *,
    datasets: Sequence[str] = DATASETS,
    scenarios: Sequence[int] = tuple(SCENARIOS),
    replicates: int = 15,
    methods: Sequence[str] | None = None,
    kernels: Sequence[str] = ("ard",),
    seed: int = 0,
    n: int = 300,
    n_test: int = 1000,
    jobs: int = 1,
    scheduler: str | None = None,
    timeout: float | None = None,
    extend: bool = False,
    retry_failed: bool = False,
    progress: bool = True,
    console: Console | None = None,
) -> Results:
    """Compare methods on the paper's simulated data; results go to the folder `out`, and are taken up from there.

    Parameters
    ----------
    out : path
        Folder of the study. One that holds a study of another configuration is refused.
    datasets, scenarios, replicates : data sets ("1d", "friedman"), scenarios 1 to 8, and draws of each
    methods : sequence of str, optional
        Names of methods, ours or registered. All of ours when left out.
    kernels : sequence of "ard", "iso"
        Squared exponential with one length-scale per input, or a shared one.
    seed, n, n_test : seed of all data, readings to fit and to score
    jobs, scheduler, timeout
        Worker processes here, or the address of a Dask scheduler; seconds after which a fit is given up.
    extend : bool
        Allow the folder to hold a smaller study, and add to it.
    retry_failed : bool
        Run again what failed before.
    """
    chosen = find_all(builtin_names() if methods is None else methods)
    configuration = SimulatedConfiguration(
        datasets=choose("data set", datasets, DATASETS),
        kernels=choose("kernel", kernels, KERNELS),
        scenarios=choose("scenario", scenarios, tuple(SCENARIOS)),
        replicates=replicates,
        methods=tuple(method.name for method in chosen),
        seed=seed,
        n=n,
        n_test=n_test,
    )
    if replicates < 1 or seed < 0:
        raise ValueError(f"replicates must be 1 or more and seed 0 or more, got {replicates} and {seed}.")
    items = [Item(Task(cell.key, cell), cell.identity()) for cell in cells(configuration, chosen)]
    toys = [Item(Task(f"toy/{name}", name)) for name in TOYS] if "1d" in configuration.datasets else []
    plan = StudyPlan("simulated", asdict(configuration), SIMULATED_COLUMNS, [*toys, *items], perform, {})
    how = How(jobs, scheduler, timeout, extend, retry_failed, progress, console)
    # A replicate of everything comes before the next one: a study that is stopped early is a small whole one.
    order = [item.task for item in toys] + sorted((item.task for item in items), key=lambda t: t.payload.replicate)
    return conduct(plan, out, how, order)


T = TypeVar("T")


def choose(what: str, given: Sequence[T], known: Sequence[T]) -> tuple[T, ...]:
    """Those given, in the order of those known; ValueError for one that is not."""
    unknown = [value for value in given if value not in known]
    if unknown or not given:
        shown = ", ".join(map(str, unknown)) or "none at all"
        raise ValueError(f"Unknown {what}: {shown}. There are {', '.join(map(str, known))}.")
    return tuple(value for value in known if value in given)
