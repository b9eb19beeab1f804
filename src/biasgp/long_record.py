"""A record of one sensor that no process holds whole: a folder of Parquet files, or a Dask frame, in order of time.

With time as time a part of the record needs its neighbours only as far back as the filter remembers. So each file is a
block, with a few readings of the files before and after it, which is put beside the results in the model's units while
the fit lasts. Workers are sent parameters and return sums; in the end each writes what it found of its readings.
Nothing stays in a worker, and a task that is lost is done again. Workers need the folder of the results.

The likelihood of the blocks differs from that of the record by what is forgotten over the overlap: FORGOTTEN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biasgp._typing import Array, Mask
from biasgp.covariance.markov import MarkovCovariance, MarkovEngine, is_markov
from biasgp.covariance.protocol import Density
from biasgp.estimators.base import LargeGP
from biasgp.estimators.gaussian import GaussianGP
from biasgp.estimators.sparse_bias import SparseBiasGP
from biasgp.estimators.validation import check_query
from biasgp.kernels import Kernel
from biasgp.models.gaussian import Likelihood
from biasgp.models.problem import Problem
from biasgp.models.sparse.kinds import PRIOR, Group, Slab
from biasgp.models.sparse.leave_one_out import Odds
from biasgp.models.strategy import POLICY, covariance_bounds
from biasgp.optimize import Report, minimize, resume
from biasgp.response import ScaledResponse, Scaling
from biasgp.staging import stage

__all__ = ["LongFit", "fit_long_record"]

FORGOTTEN = 1e-10
"""What is left of the state at the start of an overlap at its end: the accuracy of the likelihood, relative to f."""
_SAMPLE, _STRETCHES = 50_000, 10
"""Readings that parameters and kinds of outliers are first learnt from, and the files that they come from."""
_PASSES, _ROUNDS = 4, 2
"""Over the labels of a block; of labels and parameters of the whole record in turn."""


@dataclass(frozen=True)
class LongFit:
    """What was found of a long record.

    Attributes
    ----------
    kernel : Kernel
        With the parameters found, in the unit of the readings.
    noise_variance : float
        Of a reading that is no outlier.
    groups : tuple of Group
        Kinds of outliers, as `SparseBiasGP.groups_` has them; empty for a GaussianGP.
    n_readings, n_outliers : int
        Of the whole record.
    log_likelihood : float
        Of the readings that are not flagged, in the model's unit.
    overlap : int
        Readings of a neighbouring block that each block was given.
    parts : tuple of Path
        The files that were written, one per block: time, reading, mean and std of f, outlier_probability and bias.

    Examples
    --------
    `fit_long_record` returns one:

    >>> from biasgp.long_record import LongFit
    >>> "overlap" in LongFit.__dataclass_fields__
    True
    """

    kernel: Kernel
    noise_variance: float
    groups: tuple[Group, ...]
    n_readings: int
    n_outliers: int
    log_likelihood: float
    overlap: int
    parts: tuple[Path, ...]


def fit_long_record(
    model: LargeGP, source: Any, out: str | Path, *, time: str, reading: str, client: Any = None
) -> LongFit:
    """Fit a model to a record that may be larger than memory, and write what it says of every reading.

    Parameters
    ----------
    model : SparseBiasGP or GaussianGP
        Not fitted; with a kernel of one input that is exactly Markov. Episodes are not looked for.
    source : path, list of paths or dask.dataframe.DataFrame
        A folder of Parquet files, or files, each a block of the record, of a size that a worker can hold (a million
        readings take .1 GB). Their order is that of their times.
    out : path
        Folder for the results, one file per block.
    time, reading : str
        Names of the columns.
    client : dask.distributed.Client, optional
        Where blocks are worked on; without one, here, one after another. A Dask frame needs one.

    Returns
    -------
    LongFit

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import pandas as pd
    >>> from biasgp import GaussianGP
    >>> from biasgp.kernels import Exponential
    >>> from biasgp.long_record import fit_long_record
    >>> rng, t = np.random.default_rng(0), np.arange(600.0)
    >>> record = pd.DataFrame({"t": t, "y": np.sin(t / 20.0) + 0.1 * rng.standard_normal(600)})
    >>> with tempfile.TemporaryDirectory() as place:
    ...     source, out = Path(place) / "readings", Path(place) / "results"
    ...     source.mkdir()
    ...     record[:300].to_parquet(source / "1.parquet")
    ...     record[300:].to_parquet(source / "2.parquet")
    ...     found = fit_long_record(GaussianGP(Exponential()), source, out, time="t", reading="y")
    ...     list(pd.read_parquet(found.parts[0]).columns)
    ['t', 'y', 'mean', 'std', 'outlier_probability', 'bias']
    >>> found.n_readings
    600
    """
    if not isinstance(model, GaussianGP | SparseBiasGP):
        raise TypeError(f"model must be a GaussianGP or a SparseBiasGP, got {type(model).__name__}.")
    workers, folder = _Workers(client), Path(out)
    blocks = workers.blocks(source, _Columns(time, reading))
    sample = _fit_to_sample(model, blocks, workers)
    folder.mkdir(parents=True, exist_ok=True)
    names = [folder / f"part-{number:05d}.parquet" for number in range(len(blocks))]
    with stage(folder / "record") as place:
        record = _Record(blocks, workers, sample)
        record.prepare(place)
        for _ in range(_ROUNDS if sample.slab is not None else 1):
            record.label()
            record.learn(model.max_iter)
        counts = record.write(names)
    state = record.state
    return LongFit(
        state.kernel.scaled(state.scaling.scale**2),
        state.scaling.spread(state.noise) ** 2,
        () if state.slab is None else state.slab.seen,
        sum(block.ends.n for block in blocks),
        sum(counts),
        -record.value,
        record.reach,
        tuple(names),
    )


class _Columns(NamedTuple):
    """Names of the columns of a block."""

    time: str
    reading: str


class _Ends(NamedTuple):
    """How many readings a block has, and the first and last of their times."""

    n: int
    first: Any
    last: Any


@dataclass(frozen=True)
class _Block:
    """Where a block is: a file, or a part of a frame on the workers."""

    part: Any
    name: str
    columns: _Columns
    ends: _Ends


@dataclass(frozen=True)
class _State:
    """What is known of the record so far, in the model's units; `estimator` was fitted to the sample."""

    estimator: LargeGP
    kernel: Kernel
    noise: float
    slab: Slab | None

    @property
    def scaling(self) -> Scaling:
        return self.estimator._scaling

    def covariance(self, X: Array, usable: Mask) -> MarkovCovariance:
        """K of the readings that are usable."""
        return MarkovEngine(self.kernel, X).covariance(self.kernel, np.where(usable, self.noise, np.inf))


class _Workers:
    """Maps over blocks, here or on a cluster; results come in the order of the blocks."""

    def __init__(self, client: Any) -> None:
        if client is not None and not callable(getattr(client, "map", None)):
            raise TypeError(f"client must be a dask.distributed Client, got {type(client).__name__}.")
        self.client = client

    def map(self, work: Callable[..., Any], *arguments: Iterable[Any]) -> list[Any]:
        if self.client is None:
            return [work(*each) for each in zip(*arguments, strict=True)]
        return list(self.client.gather(self.client.map(work, *map(list, arguments), pure=False)))

    def blocks(self, source: Any, columns: _Columns) -> list[_Block]:
        """The blocks of a source, in order of time; refused where they overlap."""
        if hasattr(source, "to_delayed"):
            if self.client is None:
                raise ValueError("A Dask frame is worked on where it is: pass client=.")
            parts: list[Any] = self.client.compute(source[list(columns)].to_delayed())
            names = [f"partition {number}" for number in range(len(parts))]
        else:
            parts = names = _files(source)
        every = self.map(_ends_of, parts, names, [columns] * len(parts))
        blocks = [
            _Block(part, name, columns, ends) for part, name, ends in zip(parts, names, every, strict=True) if ends.n
        ]
        if not blocks:
            raise ValueError("The record holds no readings.")
        blocks.sort(key=lambda block: block.ends.first)
        for before, block in pairwise(blocks):
            if block.ends.first < before.ends.last:
                raise ValueError(
                    f"{block.name} begins at {block.ends.first}, before {before.name} ends at {before.ends.last}: a "
                    "record's files must follow one another in time."
                )
        return blocks


def _files(source: Any) -> list[str]:
    """Parquet files of a folder, or those that are given."""
    if isinstance(source, str | Path):
        folder = Path(source)
        found = sorted(folder.glob("*.parquet")) if folder.is_dir() else [folder]
        if not found:
            raise ValueError(f"There is no Parquet file (*.parquet) in {folder}.")
    else:
        found = [Path(each) for each in source]
    missing = [path for path in found if not path.is_file()]
    if missing:
        raise FileNotFoundError(f"There is no file {missing[0]}.")
    return [str(path) for path in found]


def _frame(part: Any, name: str, columns: _Columns) -> pd.DataFrame:
    """The two columns of a block, times first."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not isinstance(part, str):
        return part[list(columns)]
    try:
        known = pq.read_schema(part).names
        absent = [column for column in columns if column not in known]
        if absent:
            raise ValueError(f"{name} has no column {absent[0]!r}; it has {', '.join(map(repr, known))}.")
        return pq.read_table(part, columns=list(columns)).to_pandas()
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{name} is no Parquet file that can be read: {error}.") from error


def _ends_of(part: Any, name: str, columns: _Columns) -> _Ends:
    times = _frame(part, name, columns)[columns.time]
    if times.isna().any():
        raise ValueError(f"{name}, row {int(times.isna().to_numpy().argmax())}: the time {columns.time!r} is missing.")
    back = np.flatnonzero(np.diff(times.to_numpy()) < np.zeros(1, dtype=np.diff(times.to_numpy()).dtype))
    if len(back):
        raise ValueError(f"{name}, row {back[0] + 1}: the time is before that of the row above. Sort the file by time.")
    return _Ends(len(times), *((times.iloc[0], times.iloc[-1]) if len(times) else (None, None)))


def _some(block: _Block, part: Any, count: int, at_end: bool) -> pd.DataFrame:
    """The first or last readings of a block."""
    frame = _frame(part, block.name, block.columns)
    return frame.iloc[-count:] if at_end else frame.iloc[:count]


def _fit_to_sample(model: LargeGP, blocks: Sequence[_Block], workers: _Workers) -> _State:
    """Parameters, units and kinds of outliers, from stretches of some blocks."""
    chosen = [blocks[i] for i in np.unique(np.linspace(0, len(blocks) - 1, _STRETCHES).astype(int))]
    count = _SAMPLE // len(chosen)
    frames = workers.map(_some, _bare(chosen), [b.part for b in chosen], [count] * len(chosen), [False] * len(chosen))
    frame, (time, reading) = pd.concat(frames), blocks[0].columns
    frame = frame[frame[reading].notna()]
    estimator = type(model)(**model.get_params(deep=False)).set_params(approximation="state-space")
    if isinstance(estimator, SparseBiasGP):
        estimator.set_params(order=None)
    estimator.fit(frame[[time]], frame[reading])
    kernel = estimator._posterior.kernel
    if not is_markov(kernel, np.zeros((1, 1))) or not _forgets(kernel):
        raise ValueError(
            f"A long record needs a kernel that is exactly Markov and forgets (Exponential, Matern32, Matern52, their "
            f"sums and products), and numba; got {kernel!r}."
        )
    sparse = isinstance(estimator, SparseBiasGP)
    n = sum(block.ends.n for block in blocks)
    slab = Slab.of_groups(estimator.groups_, estimator.replaced_).with_unseen(PRIOR.unseen(n)) if sparse else None
    return _State(estimator, kernel, estimator._scaled_noise_variance, slab)


def _forgets(kernel: Kernel) -> bool:
    """Whether nothing is left of any state after a long time."""
    form = kernel.state_space(1)
    return form is not None and not np.abs(form.move(np.array([np.inf]))[0]).max() > 0.5


def _bare(blocks: Sequence[_Block]) -> list[_Block]:
    """Without their parts, which are sent by themselves: a future inside another object would not be found."""
    return [replace(block, part=None) for block in blocks]


class _Record:
    """The blocks of a record with what is known of them."""

    def __init__(self, blocks: Sequence[_Block], workers: _Workers, state: _State) -> None:
        self.blocks, self.workers, self.state = blocks, workers, state
        self.reach, self.value = 0, np.nan
        self.flags: list[NDArray[np.uint8] | None] = [None] * len(blocks)
        self.prepared: list[_Prepared] = []

    def prepare(self, folder: Path) -> None:
        """Each block with the readings before and after it, as far as the filter remembers, in the model's units."""
        first = self.blocks[0]
        most = min(block.ends.n for block in self.blocks)
        frame = _some(first, self.workers.map(_whole, [first.part])[0], min(_SAMPLE, first.ends.n), False)
        self.reach = _memory(self.state, frame, first.columns)
        if self.reach > most and len(self.blocks) > 1:
            raise ValueError(
                f"A block has {most} readings, and f remembers {self.reach}: make the files longer than that."
            )
        bare, parts, n = _bare(self.blocks), [block.part for block in self.blocks], len(self.blocks)
        tails, heads = (
            self.workers.map(_some, bare, parts, [self.reach] * n, [at_end] * n) for at_end in (True, False)
        )
        before, after = [None, *tails[:-1]], [*heads[1:], None]
        places = [folder / f"{number}.npy" for number in range(n)]
        self.prepared = self.workers.map(_prepare, bare, parts, before, after, [self.state] * n, places)

    def _map(self, work: Callable[..., Any], *more: Iterable[Any]) -> list[Any]:
        """Work on each block, of (prepared, flags, state, …)."""
        return self.workers.map(work, self.prepared, self.flags, [self.state] * len(self.blocks), *more)

    def label(self) -> None:
        """Flags of all readings at the present parameters."""
        if self.state.slab is not None:
            self.flags = self._map(_labelled)

    def density(self, x: Array) -> Density:
        """−log p of the readings that are not flagged, and its gradient, at parameters (θ, log σ²)."""
        state = self.state
        self.state = replace(state, kernel=state.kernel.with_theta(x[:-1]), noise=float(np.exp(x[-1])))
        parts = self._map(_density)
        self.state = state
        return Density(*(sum(column[1:], start=column[0]) for column in zip(*parts, strict=True)))

    def learn(self, max_iter: int) -> None:
        """Parameters from all readings that are not flagged."""
        n, state = sum(block.ends.n for block in self.blocks), self.state
        sample, bounds = _on_sample(state)
        report = minimize(sample, np.append(state.kernel.theta, np.log(state.noise)), bounds, max_iter)
        unit = max(1.0, n / POLICY.tolerances_for)

        def objective(x: Array) -> tuple[float, Array]:
            found = self.density(x)
            gradient = np.append(found.by_theta, np.exp(x[-1]) * found.by_noise.sum())
            return found.value / unit, gradient / unit

        growth = n / len(sample.problem) / unit
        found: Report = resume(objective, report, bounds, max_iter, growth)
        self.value = unit * found.value
        self.state = replace(state, kernel=state.kernel.with_theta(found.x[:-1]), noise=float(np.exp(found.x[-1])))

    def write(self, names: Sequence[Path]) -> list[int]:
        """Results of each block, in its file; how many outliers each has."""
        return self._map(_written, _bare(self.blocks), [block.part for block in self.blocks], names)


def _whole(part: Any) -> Any:
    return part


def _on_sample(state: _State) -> tuple[Likelihood, Array]:
    """The objective of the readings of the sample that were not flagged, for its curvature; and bounds."""
    posterior = state.estimator._posterior
    problem = Problem(posterior.X, posterior.residual, state.kernel, np.zeros(len(posterior.X)))
    return Likelihood(MarkovEngine(state.kernel, posterior.X), problem), covariance_bounds(problem)


def _numbers(state: _State, frame: pd.DataFrame, columns: _Columns) -> tuple[Array, Array, Mask]:
    """Times as the model has them, readings in its unit, and which of these are there."""
    y = frame[columns.reading].to_numpy(dtype=float, na_value=np.nan)
    there = np.isfinite(y)
    X = check_query(state.estimator, frame[[columns.time]])
    return X, np.where(there, state.scaling.forward(np.where(there, y, np.nanmedian(y))), 0.0), there


def _memory(state: _State, frame: pd.DataFrame, columns: _Columns) -> int:
    """Readings after which less than FORGOTTEN is left of a state, by the gains of a stretch of the record."""
    X, z, there = _numbers(state, frame, columns)
    K = state.covariance(X, there)
    return K.memory(z, FORGOTTEN)


class _Prepared(NamedTuple):
    """A block with its neighbours: where its times and readings (NaN: none) are, and which rows are its own."""

    place: Path
    own: slice

    def load(self) -> tuple[Array, Array, Mask]:
        """As `_numbers` has them."""
        times, z = np.load(self.place)
        there = np.isfinite(z)
        return times[:, None], np.where(there, z, 0.0), there


def _prepare(block: _Block, part: Any, before: Any, after: Any, state: _State, place: Path) -> _Prepared:
    frame = _frame(part, block.name, block.columns)
    X, z, there = _numbers(
        state, pd.concat([each for each in (before, frame, after) if each is not None]), block.columns
    )
    np.save(place, np.vstack([X[:, 0], np.where(there, z, np.nan)]))
    start = 0 if before is None else len(before)
    return _Prepared(place, slice(start, start + len(frame)))


def _odds(X: Array, z: Array, there: Mask, state: _State) -> tuple[Odds, Mask]:
    """Odds of all readings of a block and its neighbours, and which are flagged, passed over until these settle."""
    assert state.slab is not None
    flagged = np.zeros(len(z), dtype=bool)
    for _ in range(_PASSES):
        mean, variance = state.covariance(X, there & ~flagged).leave_one_out(z)
        odds, before = Odds.of(z, mean, variance + state.noise, state.slab), flagged
        flagged = odds.flagged & there
        if np.array_equal(flagged, before):
            break
    return odds, flagged


def _labelled(block: _Prepared, flags: Any, state: _State) -> NDArray[np.uint8]:
    """Flags of a block and its neighbours, eight to a byte."""
    return np.packbits(_odds(*block.load(), state)[1])


def _density(block: _Prepared, flags: Any, state: _State) -> Density:
    """−log p(block | the readings before it), with its gradient: that of both less that of those before."""
    X, z, usable = block.load()
    if flags is not None:
        usable = usable & (np.unpackbits(flags, count=len(usable)) == 0)
    ends = [end for end in (block.own.stop, block.own.start) if end]
    parts = [state.covariance(X[:end], usable[:end]).negative_log_density(z[:end]) for end in ends]
    return parts[0] if len(parts) == 1 else Density(*(both - old for both, old in zip(*parts, strict=True)))


def _written(prepared: _Prepared, flags: Any, state: _State, block: _Block, part: Any, target: Path) -> int:
    """Write what the model says of a block's readings; how many of them are outliers."""
    (X, z, usable), own = prepared.load(), prepared.own
    frame = _frame(part, block.name, block.columns).reset_index(drop=True)
    there, probability, bias = usable[own], np.zeros(len(z)), np.zeros(len(z))
    if state.slab is not None:
        odds, flagged = _odds(X, z, usable, state)
        usable = usable & ~flagged
        probability, bias = 1.0 - odds.chances[:, 0], odds.moments_of_bias(state.slab)[0]
    mean, variance = state.covariance(X, usable).posterior(z).mean_and_variance(X[own])
    response = ScaledResponse(frame[block.columns.reading].to_numpy(dtype=float, na_value=np.nan), state.scaling)
    frame["mean"], frame["std"] = state.scaling.moments(mean, variance)
    frame["outlier_probability"] = np.where(there, probability[own], np.nan)
    frame["bias"] = np.where(there, response.bias(bias[own]), np.nan)
    with stage(target) as place:
        frame.to_parquet(place / target.name)
        (place / target.name).replace(target)
    return int((frame["outlier_probability"] > 0.5).sum())
