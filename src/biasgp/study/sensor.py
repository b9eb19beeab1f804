"""The paper's Section 4: a campaign of gas measurements, some of whose records are replaced by outliers.

A tenth or a fifth of the unflagged records are the test set; in training their response is a draw from the flagged
ones. Share 0 is the campaign left as recorded, where only the list of outliers is judged.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from biasgp import metrics
from biasgp._typing import Array, Mask
from biasgp.estimators import GaussianGP
from biasgp.kernels import Exponential
from biasgp.runner import Task
from biasgp.study.driver import How, Item, StudyPlan, conduct
from biasgp.study.methods import Method, Setting, builtin_names, find_all
from biasgp.study.readings import FEATURES, RESPONSES, StudyReadings, built_in, fingerprint, read
from biasgp.study.results import SENSOR_COLUMNS, Results, Row
from biasgp.study.scoring import Trial, doubts, fit, readings, score
from biasgp.study.simulated import short

SHARES = (0.1, 0.2)
GROSS = 8.0
"""A flagged reading is gross when it is this many standard deviations from a fit of the unflagged ones.

Of the next reading, not of the noise: under a rough kernel the noise may be next to nothing, and all flags gross.
"""


@dataclass(frozen=True)
class SensorConfiguration:
    """Everything that the results depend on."""

    data: str
    fingerprint: str
    responses: tuple[str, ...]
    flags: tuple[str, ...]
    features: tuple[str, ...]
    shares: tuple[float, ...]
    replicates: int
    methods: tuple[str, ...]
    kernel: str
    seed: int
    every: int


@dataclass(frozen=True)
class SensorCell:
    """One task: a method on one response with one draw of replaced records."""

    dataset: str
    response: str
    number: int
    share: float
    replicate: int
    method: Method
    ard: bool
    seed: int

    @property
    def key(self) -> str:
        return f"{self.dataset}/{self.response}/{self.share:g}/r{self.replicate:02d}/{self.method.name}"

    def identity(self) -> Row:
        """The columns that say which task it is."""
        return {
            "dataset": self.dataset,
            "kernel": "exponential, " + ("ard" if self.ard else "iso"),
            "response": self.response,
            "share": self.share,
            "replicate": self.replicate,
            "method": self.method.name,
        }


def replace_records(data: StudyReadings, cell: SensorCell) -> tuple[Array, Mask]:
    """The training response, and which records were replaced; from (seed, response, share, replicate) alone."""
    rng = np.random.default_rng([cell.seed, cell.number, round(1000 * cell.share), cell.replicate])
    normal = np.flatnonzero(~data.flagged)
    chosen = rng.choice(normal, round(cell.share * len(data.y)), replace=False)
    y = data.y.copy()
    y[chosen] = rng.choice(data.y[data.flagged], len(chosen))
    replaced = np.zeros(len(y), dtype=bool)
    replaced[chosen] = True
    return y, replaced


def perform(data: Mapping[str, StudyReadings], cell: SensorCell) -> dict[str, Any]:
    """One task: its scores, and for the first replicate the fit at every record."""
    here = data[cell.response]
    n, d = here.X.shape
    setting = Setting(Exponential(ard=cell.ard), d, n, cell.replicate)
    if cell.share == 0.0:
        return {"row": _as_recorded(here, cell, setting)}
    y, replaced = replace_records(here, cell)
    problem = Trial(
        X=here.X,
        y=y,
        is_outlier=replaced | here.flagged,
        X_test=here.X[replaced],
        y_test=here.y[replaced],
        f_test=None if here.f is None else here.f[replaced],
    )
    fitted = fit(cell.method, setting, problem)
    row = score(cell.method, fitted, problem)
    if cell.replicate > 0:
        return {"row": row}
    mean, std = readings(fitted.model, here.X)
    curve = {"y": short(y), "replaced": replaced.astype(int).tolist(), "mean": short(mean), "std": short(std)}
    return {"row": row, "curve": curve}


def _as_recorded(data: StudyReadings, cell: SensorCell, setting: Setting) -> Row:
    """How the method's list of outliers compares with the flags, and with those of them that are gross."""
    problem = Trial(data.X, data.y, data.flagged, data.X[:0], data.y[:0], None)
    fitted = fit(cell.method, setting, problem)
    row: Row = {"fit_s": round(fitted.seconds, 6), "message": doubts(fitted.model)}
    mask = getattr(fitted.model, "outlier_mask_", None)
    if mask is None or cell.method.knows_outliers:
        return row
    gross = gross_flags(data, setting)
    return row | {
        "precision": metrics.precision(data.flagged, mask),
        "recall": metrics.recall(data.flagged, mask),
        "n_gross": float(gross.sum()),
        "gross_found": metrics.recall(gross, mask),
        "clean_flagged": float(np.mean(mask[~data.flagged])),
    }


def gross_flags(data: StudyReadings, setting: Setting) -> Mask:
    """Flagged readings far from a plain GP's fit of the unflagged, in standard deviations of its next reading."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rest = GaussianGP(setting.kernel).fit(data.X[~data.flagged], data.y[~data.flagged])
        mean, std = rest.predict(data.X, return_std=True, include_noise=True)
    return np.asarray(data.flagged & (np.abs(data.y - mean) > GROSS * std))


def cells(configuration: SensorConfiguration, dataset: str, methods: Sequence[Method]) -> Iterator[SensorCell]:
    """All tasks, in the order of the results."""
    ard = configuration.kernel == "ard"
    for number, response in enumerate(configuration.responses):
        for share in (0.0, *configuration.shares):
            for replicate in range(configuration.replicates if share > 0.0 else 1):
                for method in methods:
                    # As recorded there is nothing to predict: only a list of outliers can be judged.
                    if share > 0.0 or not (method.knows_outliers or method.name.partition("@")[0] == "gp"):
                        yield SensorCell(dataset, response, number, share, replicate, method, ard, configuration.seed)


def default_methods() -> list[str]:
    """All of ours, and sparse with its response transform chosen from the data."""
    names = builtin_names()
    return [*names[: names.index("sparse") + 1], "sparse@auto", *names[names.index("sparse") + 1 :]]


def sensor(
    out: str | Path,
    *,
    data: str | Path | None = None,
    responses: Sequence[str] = tuple(RESPONSES),
    flags: Sequence[str] | None = None,
    features: Sequence[str] = FEATURES,
    shares: Sequence[float] = SHARES,
    replicates: int = 5,
    methods: Sequence[str] | None = None,
    kernel: str = "ard",
    seed: int = 0,
    every: int = 1,
    jobs: int = 1,
    scheduler: str | None = None,
    timeout: float | None = None,
    extend: bool = False,
    retry_failed: bool = False,
    progress: bool = True,
    console: Console | None = None,
) -> Results:
    """Compare methods by the paper's Section 4 protocol; results go to the folder `out`, and are taken up from there.

    Parameters
    ----------
    out : path
        Folder of the study. One that holds a study of another configuration is refused.
    data : path, optional
        A CSV; the built-in simulated campaign when left out.
    responses, flags, features : sequences of str
        Columns: what is predicted, where each of it is flagged (response_flag when left out), and from what.
    shares : sequence of float
        Shares of the records that are replaced and predicted.
    replicates : int
        Draws of the replaced records.
    methods : sequence of str, optional
        Names of methods, ours or registered; "cob@auto" is cob with its response transform chosen from the data.
    kernel : "ard" or "iso"
        Exponential kernel with one length-scale per input, or a shared one.
    seed : int
        Of the replaced records, and of the built-in campaign.
    every : int
        Take only every so-many-th record: for a quick look.
    jobs, scheduler, timeout, extend, retry_failed
        As for `simulated`.
    """
    chosen = find_all(default_methods() if methods is None else methods)
    if kernel not in ("ard", "iso"):
        raise ValueError(f"kernel must be 'ard' or 'iso', got {kernel!r}.")
    if not shares or not all(0.0 < share < 1.0 for share in shares):
        raise ValueError(f"shares must lie between 0 and 1, got {', '.join(map(str, shares)) or 'none at all'}.")
    if replicates < 1 or every < 1 or seed < 0:
        raise ValueError("replicates and every must be 1 or more, seed 0 or more.")
    if not features:
        raise ValueError("features names no column.")
    if data is None and tuple(features) != FEATURES:
        raise ValueError(f"The built-in campaign has the features {', '.join(FEATURES)}; others need data of your own.")
    for what, given in (("responses", responses), ("features", features), ("shares", shares)):
        if len(set(given)) < len(given):
            raise ValueError(f"{what} names {next(x for x in given if list(given).count(x) > 1)!s} twice.")
    path = None if data is None else Path(data)
    flags = tuple(RESPONSES.get(name, f"{name}_flag") for name in responses) if flags is None else tuple(flags)
    source = built_in(seed) if path is None else read(path, responses, flags, features)
    configuration = SensorConfiguration(
        data="campaign" if path is None else path.name,
        fingerprint="" if path is None else fingerprint(path),
        responses=tuple(responses),
        flags=flags,
        features=tuple(features),
        shares=tuple(shares),
        replicates=replicates,
        methods=tuple(method.name for method in chosen),
        kernel=kernel,
        seed=seed,
        every=every,
    )
    used = {name: thinned(source[name], every) for name in _there(responses, source)}
    for name, value in used.items():
        _refuse_shares(name, value, shares)
    dataset = "campaign" if path is None else path.stem
    items = [Item(Task(cell.key, cell), cell.identity()) for cell in cells(configuration, dataset, chosen)]
    curves = {f"readings/{name}": _shown(value) for name, value in used.items()}
    plan = StudyPlan("sensor", asdict(configuration), SENSOR_COLUMNS, items, partial(perform, used), curves)
    order = sorted((item.task for item in items), key=lambda task: task.payload.replicate)
    return conduct(plan, out, How(jobs, scheduler, timeout, extend, retry_failed, progress, console), order)


def _there(responses: Sequence[str], source: Mapping[str, StudyReadings]) -> Sequence[str]:
    unknown = [name for name in responses if name not in source]
    if unknown or not responses:
        raise ValueError(f"Unknown response: {', '.join(unknown) or 'none at all'}. There are {', '.join(source)}.")
    return responses


def _refuse_shares(name: str, data: StudyReadings, shares: Sequence[float]) -> None:
    """ValueError for a share that replaces no record, or more than there are."""
    normal = int((~data.flagged).sum())
    for share in shares:
        count = round(share * len(data.y))
        if not 1 <= count <= normal:
            raise ValueError(
                f"shares: {share:g} of the records of {name!r} is {count} of them; it must be at least 1, and at most "
                f"the {normal} that are not flagged."
            )


def thinned(data: StudyReadings, every: int) -> StudyReadings:
    """Every so-many-th record, and every flagged one."""
    if every == 1:
        return data
    keep = data.flagged | (np.arange(len(data.y)) % every == 0)
    return StudyReadings(data.X[keep], data.y[keep], data.flagged[keep], None if data.f is None else data.f[keep])


def _shown(data: StudyReadings) -> dict[str, Any]:
    return {
        "time": short(data.X[:, 0]),
        "y": short(data.y),
        "flagged": data.flagged.astype(int).tolist(),
        "f": None if data.f is None else short(data.f),
    }
