"""Every table of a folder, dirtied in six ways: MAE, NLPD and CRPS of clean readings, and the density of dirty ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from biasgp import metrics
from biasgp._typing import Array
from biasgp.data import REGIMES, DirtiedTable, dirtied, read_plain_table
from biasgp.kernels import SquaredExponential
from biasgp.runner import SERIAL, Execution
from biasgp.study.driver import StudyCell, StudyPlan, choose
from biasgp.study.methods import Method, Setting, find_all
from biasgp.study.results import Results
from biasgp.study.scoring import Trial, predict_readings

METHODS = ("gp", "oracle", "cob", "rab", "sparse", "sparse@auto", "ep", "mcmc", "rcgp")
"""All of ours, and sparse with its response transform chosen from the data."""
FINGERPRINT_DIGITS = 12
"""Of the hash of a table, in hexadecimal."""
SEED_BYTES = 4
"""Of the hash of a table's name, which enter the seed."""


@dataclass(frozen=True)
class TablesDesign:
    """What the study compares, and on which tables.

    Examples
    --------
    >>> from biasgp.study import TablesDesign
    >>> TablesDesign("folder", replicates=1).regimes
    ('none', 'uniform', 'asymmetric', 'focused', 'shift', 'heavy')
    """

    folder: str | Path
    """Its CSV files without missing numbers: the last column is the response, a line of names may come first."""
    regimes: Sequence[str] = tuple(REGIMES)
    """Ways in which the training readings are dirtied."""
    replicates: int = 3
    """Draws of each table and regime."""
    methods: Sequence[str] | None = None
    """Names of methods, ours or registered; "cob@auto" is cob with its response transform chosen from the data."""
    seed: int = 0
    """Of all draws."""

    def tables(self) -> dict[str, Array]:
        """The tables by name, in its order; ValueError where there is none or one is not fit for use."""
        folder = Path(self.folder)
        if not folder.is_dir():
            raise ValueError(f"{str(folder)!r} is no folder; give one with CSV files in it.")
        found = {path.stem: read_plain_table(path) for path in self.paths()}
        if not found:
            raise ValueError(f"The folder {str(folder)!r} has no file whose name ends in .csv.")
        return found

    def paths(self) -> list[Path]:
        """The CSV files of the folder."""
        return sorted(path for path in Path(self.folder).iterdir() if path.suffix.lower() == ".csv")

    def draw(self, values: Array, table: str, regime: str, replicate: int) -> DirtiedTable:
        """One draw of a table: it depends on these, the seed and the file's name alone."""
        name = int.from_bytes(hashlib.sha256(table.encode()).digest()[:SEED_BYTES], "big")
        rng = np.random.default_rng([self.seed, name, list(REGIMES).index(regime), replicate])
        return dirtied(values, regime, rng)


def dirty_tables(
    out: str | Path, design: TablesDesign, execution: Execution = SERIAL, *, extend: bool = False
) -> Results:
    """Compare methods on real tables that are dirtied. Results go to a folder, where a stopped study is continued.

    Parameters
    ----------
    out, execution, extend
        As for `simulated`.
    design : TablesDesign
        Tables, regimes and methods.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from biasgp.study import Execution, TablesDesign, dirty_tables
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tables, out = Path(folder) / "tables", Path(folder) / "out"
    ...     tables.mkdir()
    ...     np.savetxt(tables / "noise.csv", np.random.default_rng(0).normal(size=(70, 3)), delimiter=",")
    ...     design = TablesDesign(tables, regimes=("none",), replicates=1, methods=("gp", "oracle"))
    ...     found = dirty_tables(out, design, Execution(progress=False))
    >>> {row["status"] for row in found.rows}
    {'ok'}
    """
    if design.replicates < 1 or design.seed < 0:
        raise ValueError(f"replicates must be 1 or more and seed 0 or more, got {design.replicates} and {design.seed}.")
    methods = find_all(METHODS if design.methods is None else design.methods)
    regimes, tables = choose("regime", design.regimes, tuple(REGIMES)), design.tables()
    prints = [hashlib.sha256(path.read_bytes()).hexdigest()[:FINGERPRINT_DIGITS] for path in design.paths()]
    plan = StudyPlan(
        kind="tables",
        # Not where the folder is: the same tables elsewhere are the same study.
        configuration={
            "tables": [f"{name} ({print_})" for name, print_ in zip(tables, prints, strict=True)],
            "regimes": list(regimes),
            "replicates": design.replicates,
            "methods": [method.name for method in methods],
            "seed": design.seed,
        },
        cells=list(_cells(tables, regimes, design.replicates, methods)),
        function=partial(_perform, design, tables),
    )
    return plan.conduct(out, execution, extend)


def _cells(
    tables: Mapping[str, Array], regimes: Sequence[str], replicates: int, methods: Sequence[Method]
) -> Iterator[StudyCell]:
    """In the order of the results."""
    for table, regime, replicate, method in product(tables, regimes, range(replicates), methods):
        identity = {"dataset": table, "regime": regime, "replicate": replicate, "method": method.name}
        yield StudyCell(f"{table}/{regime}/r{replicate:02d}/{method.name}", method, identity)


def _perform(design: TablesDesign, tables: Mapping[str, Array], cell: StudyCell) -> dict[str, Any]:
    """One task: the scores of a method on a draw."""
    table, regime, replicate = (cell.identity[name] for name in ("dataset", "regime", "replicate"))
    data = design.draw(tables[table], table, regime, replicate)
    n, d = data.X.shape
    setting = Setting(SquaredExponential(ard=True), d, n, replicate, as_in_paper=False)
    trial = Trial(data.X, data.y, data.is_outlier, data.X_test, data.y_test, None)
    model, row = trial.fit_and_score(cell.method, setting)
    row["mae"] = float(np.mean(np.abs(data.y_test - predict_readings(model, data.X_test)[0])))
    row["nlpd_dirty"] = _density_of_dirty_readings(model, data)
    return {"row": row}


def _density_of_dirty_readings(model: Any, data: DirtiedTable) -> float:
    """Mean negative log density of the dirtied test readings, as the model has it; Gaussian where it has none."""
    exact = getattr(model, "log_predictive_density", None)
    if exact is not None:
        return float(-np.mean(exact(data.X_test_dirty, data.y_test_dirty)))
    return metrics.nlpd(data.y_test_dirty, *predict_readings(model, data.X_test_dirty))
