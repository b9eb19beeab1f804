"""The paper's Section 4: a campaign of gas measurements, some of whose records are replaced by outliers.

A tenth or a fifth of the unflagged records are the test set; in training their response is a draw from the flagged
ones. Share 0 is the campaign left as recorded, where only the list of outliers is judged.
"""

from __future__ import annotations

import csv
import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from biasgp import metrics
from biasgp._typing import Array, Mask
from biasgp.data import campaign
from biasgp.estimators import GaussianGP
from biasgp.inputs import places_in_gaps, rows_between
from biasgp.kernels import Exponential
from biasgp.runner import SERIAL, Execution
from biasgp.study.driver import StudyCell, StudyPlan, choose
from biasgp.study.methods import Method, Setting, find_all
from biasgp.study.results import Results, Row
from biasgp.study.scoring import Trial, drawable, predict_readings

METHODS = ("gp", "oracle", "cob", "rab", "sparse", "sparse@auto", "ep", "mcmc")
"""All of ours, and sparse with its response transform chosen from the data."""
FEATURES = ("time", "temperature_c", "humidity_pct")
RESPONSES = {"no_ppb": "no_flag", "o3_ppb": "o3_flag"}
"""Of the built-in campaign, with their columns of flags."""
SECONDS_PER_HOUR = 3600.0
GROSS = 8.0
"""A flagged reading is gross when it is this many standard deviations from a fit of the unflagged ones.

Of the next reading, not of the noise: under a rough kernel the noise may be next to nothing, and all flags gross.
"""
FINGERPRINT_DIGITS = 16
"""Of the hash of a data file, in hexadecimal."""
SHARE_UNIT = 1000
"""Shares enter the seed in thousandths."""


@dataclass(frozen=True)
class _SensorReadings:
    """Inputs (the first is hours since the start), the response, its flagged records, and the truth where known."""

    X: Array
    y: Array
    flagged: Mask
    f: Array | None


@dataclass(frozen=True)
class SensorDesign:
    """What the study compares, and on which data; as the paper has it when left out.

    Examples
    --------
    >>> from biasgp.study import SensorDesign
    >>> design = SensorDesign(responses=("o3_ppb",), shares=(0.1,), every=10)
    >>> design.flag_columns, len(design.readings()["o3_ppb"].y)
    (('o3_flag',), 182)
    """

    data: str | Path | None = None
    """A CSV; the built-in simulated campaign when left out."""
    responses: Sequence[str] = tuple(RESPONSES)
    """Columns to predict."""
    flags: Sequence[str] | None = None
    """For each response, the column that flags its outliers; RESPONSE_flag when left out."""
    features: Sequence[str] = FEATURES
    """Columns to predict from."""
    shares: Sequence[float] = (0.1, 0.2)
    """Shares of the records that are replaced and predicted."""
    replicates: int = 5
    """Draws of the replaced records."""
    methods: Sequence[str] | None = None
    """Names of methods, ours or registered; "cob@auto" is cob with its response transform chosen from the data."""
    kernel: str = "ard"
    """Exponential kernel with one length-scale per input ("ard"), or a shared one ("iso")."""
    seed: int = 0
    """Of the replaced records, and of the built-in campaign."""
    every: int = 1
    """For a quick look, only every n-th of the unflagged records is used."""

    def check(self) -> None:
        """ValueError for values that make no sense on any data."""
        if self.kernel not in ("ard", "iso"):
            raise ValueError(f"kernel must be 'ard' or 'iso', got {self.kernel!r}.")
        if not self.shares or not all(0.0 < share < 1.0 for share in self.shares):
            shown = ", ".join(map(str, self.shares)) or "none at all"
            raise ValueError(f"shares must lie between 0 and 1, got {shown}.")
        if self.replicates < 1 or self.every < 1 or self.seed < 0:
            raise ValueError("replicates and every must be 1 or more, seed 0 or more.")
        if not self.features:
            raise ValueError("features names no column.")
        if self.data is None and tuple(self.features) != FEATURES:
            shown = ", ".join(FEATURES)
            raise ValueError(f"The built-in campaign has the features {shown}; others need data of your own.")
        for what in ("responses", "features", "shares"):
            given = list(getattr(self, what))
            if len(set(given)) < len(given):
                raise ValueError(f"{what} names {next(x for x in given if given.count(x) > 1)!s} twice.")

    @property
    def flag_columns(self) -> Sequence[str]:
        """For each response, the column that flags its outliers."""
        if self.flags is not None:
            return self.flags
        return tuple(RESPONSES.get(name, f"{name}_flag") for name in self.responses)

    def readings(self) -> dict[str, _SensorReadings]:
        """The readings of each response; ValueError where the design does not suit them."""
        self.check()
        if self.data is None:
            source = _built_in(self.seed)
        else:
            source = _read_csv(Path(self.data), self.responses, self.flag_columns, self.features)
        choose("response", self.responses, tuple(source))
        data = {name: _thinned(source[name], self.every) for name in self.responses}
        for (name, readings), share in product(data.items(), self.shares):
            count, normal = round(share * len(readings.y)), int((~readings.flagged).sum())
            if not 1 <= count <= normal:
                raise ValueError(
                    f"shares: {share:g} of the records of {name!r} is {count} of them; it must be at least 1, and at "
                    f"most the {normal} that are not flagged."
                )
        return data

    def replaced(self, readings: _SensorReadings, response: str, share: float, replicate: int) -> tuple[Mask, Array]:
        """Which records of a response are replaced and predicted, and the response with their replacements."""
        n, number = len(readings.y), list(self.responses).index(response)
        # The replaced records depend on these alone.
        rng = np.random.default_rng([self.seed, number, round(SHARE_UNIT * share), replicate])
        chosen = rng.choice(np.flatnonzero(~readings.flagged), round(share * n), replace=False)
        y, replaced = readings.y.copy(), np.zeros(n, dtype=bool)
        y[chosen] = rng.choice(readings.y[readings.flagged], len(chosen))
        replaced[chosen] = True
        return replaced, y


WHOLE_STUDY = SensorDesign()


def sensor(
    out: str | Path, design: SensorDesign = WHOLE_STUDY, execution: Execution = SERIAL, *, extend: bool = False
) -> Results:
    """Compare methods by the paper's Section 4 protocol. Results go to a folder, where a stopped study is continued.

    Parameters
    ----------
    out, execution, extend
        As for `simulated`.
    design : SensorDesign
        Data and methods.

    Examples
    --------
    >>> import tempfile
    >>> from biasgp.study import Execution, SensorDesign, sensor
    >>> small = SensorDesign(responses=("o3_ppb",), shares=(0.1,), every=20, replicates=1, methods=("gp",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = sensor(folder, small, Execution(progress=False))
    >>> {row["status"] for row in found.rows}
    {'ok'}
    """
    methods = find_all(METHODS if design.methods is None else design.methods)
    data = design.readings()
    if design.data is None:
        file = dataset = "campaign"
        fingerprint = ""
    else:
        path = Path(design.data)
        file, dataset = path.name, path.stem
        fingerprint = hashlib.sha256(path.read_bytes()).hexdigest()[:FINGERPRINT_DIGITS]
    design = replace(design, data=file, flags=design.flag_columns, methods=[method.name for method in methods])
    plan = StudyPlan(
        kind="sensor",
        configuration={"data": file, "fingerprint": fingerprint, **asdict(design)},
        cells=list(_cells(design, dataset, methods)),
        function=partial(_perform, design, data),
        curves={
            f"readings/{name}": drawable(time=each.X[:, 0], y=each.y, flagged=each.flagged, f=each.f)
            for name, each in data.items()
        },
    )
    return plan.conduct(out, execution, extend)


def _built_in(seed: int) -> dict[str, _SensorReadings]:
    """The simulated campaign."""
    data = campaign(random_state=seed)
    gases = {"no_ppb": data.no, "o3_ppb": data.o3}
    return {name: _SensorReadings(data.X, gas.y, gas.is_outlier, gas.f) for name, gas in gases.items()}


def _read_csv(
    path: Path, responses: Sequence[str], flags: Sequence[str], features: Sequence[str]
) -> dict[str, _SensorReadings]:
    """The responses of a CSV, each with its column of flags (anything but an empty cell is a flag).

    The first feature may be a time in ISO 8601. Rows in which a feature, or the response, is no number are left out.
    """
    if len(responses) != len(flags):
        raise ValueError(f"Give one flag column per response: {len(responses)} responses, {len(flags)} flags.")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"The data {str(path)!r} cannot be read as a CSV in UTF-8: {reason}.") from None
    if not rows:
        raise ValueError(f"{path} has no rows.")
    missing = [name for name in (*features, *responses, *flags) if name not in rows[0]]
    if missing:
        raise ValueError(f"{path} has no column {', '.join(missing)}; it has {', '.join(rows[0])}.")
    X = np.array([[_number(row[name]) for name in features] for row in rows])
    if np.isnan(X[:, 0]).all():
        raise ValueError(f"{path} has no number and no time in its column {features[0]}.")
    X[:, 0] -= np.nanmin(X[:, 0])
    found = {}
    for name, flag in zip(responses, flags, strict=True):
        y = np.array([_number(row[name]) for row in rows])
        flagged = np.array([bool((row[flag] or "").strip()) for row in rows])
        use = np.isfinite(y) & np.all(np.isfinite(X), axis=1)
        if not (flagged & use).any():
            raise ValueError(f"{path} has no flagged reading of {name} in {flag}: there is no outlier to draw from.")
        found[name] = _SensorReadings(X[use], y[use], flagged[use], None)
    return found


def _number(text: str | None) -> float:
    """A number, or the hours of a time; nan for anything else."""
    text = (text or "").strip()
    with suppress(ValueError):
        return float(text)
    with suppress(ValueError):
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() / SECONDS_PER_HOUR
    return float("nan")


def _thinned(data: _SensorReadings, every: int) -> _SensorReadings:
    """Every n-th record, and every flagged one."""
    keep = data.flagged | (np.arange(len(data.y)) % every == 0)
    return _SensorReadings(data.X[keep], data.y[keep], data.flagged[keep], None if data.f is None else data.f[keep])


def _cells(design: SensorDesign, dataset: str, methods: Sequence[Method]) -> Iterator[StudyCell]:
    """In the order of the results."""
    for response, share in product(design.responses, (0.0, *design.shares)):
        for replicate, method in product(range(design.replicates if share > 0.0 else 1), methods):
            # As recorded there is nothing to predict: only a list of outliers can be judged.
            if share == 0.0 and (method.knows_outliers or method.name.partition("@")[0] == "gp"):
                continue
            identity = {
                "dataset": dataset,
                "kernel": f"exponential, {design.kernel}",
                "response": response,
                "share": share,
                "replicate": replicate,
                "method": method.name,
            }
            yield StudyCell(f"{dataset}/{response}/{share:g}/r{replicate:02d}/{method.name}", method, identity)


def _perform(design: SensorDesign, data: Mapping[str, _SensorReadings], cell: StudyCell) -> dict[str, Any]:
    """One task: its scores, and for the first replicate the fit at every record."""
    response, share, replicate = (cell.identity[name] for name in ("response", "share", "replicate"))
    here = data[response]
    n, d = here.X.shape
    setting = Setting(Exponential(ard=design.kernel == "ard"), d, n, replicate)
    replaced, y = design.replaced(here, response, share, replicate)
    trial = Trial(
        X=here.X,
        y=y,
        is_outlier=replaced | here.flagged,
        X_test=here.X[replaced],
        y_test=here.y[replaced],
        f_test=None if here.f is None else here.f[replaced],
    )
    model, row = trial.fit_and_score(cell.method, setting)
    if share == 0.0:
        return {"row": row | _compare_with_flags(model, here, setting)}
    if replicate > 0:
        return {"row": row}
    mean, std = predict_readings(model, here.X)
    return {"row": row, "curve": drawable(y=y, replaced=replaced, mean=mean, std=std, **_over_gaps(model, here.X))}


def _over_gaps(model: Any, X: Array) -> dict[str, Array]:
    """The fit where nothing was read for long, at inputs interpolated in time; nothing where there is no gap."""
    values = places_in_gaps(np.unique(X[:, 0]))
    if not len(values):
        return {}
    mean, std = predict_readings(model, rows_between(X, 0, values))
    return {"gap_time": values, "gap_mean": mean, "gap_std": std}


def _compare_with_flags(model: Any, data: _SensorReadings, setting: Setting) -> Row:
    """How the method's list of outliers compares with the flags that are gross, and with the unflagged readings."""
    mask = getattr(model, "outlier_mask_", None)
    if mask is None:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rest = GaussianGP(setting.kernel).fit(data.X[~data.flagged], data.y[~data.flagged])
        mean, std = rest.predict(data.X, return_std=True, include_noise=True)
    gross = data.flagged & (np.abs(data.y - mean) > GROSS * std)
    return {
        "n_gross": float(gross.sum()),
        "gross_found": metrics.recall(gross, mask),
        "clean_flagged": float(np.mean(mask[~data.flagged])),
    }
