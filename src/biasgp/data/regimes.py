"""Real tables, dirtied in one of six ways: `read_plain_table`, then `dirtied`.

| regime | what is done to the training readings |
|---|---|
| none | nothing |
| uniform | 10 %: moved by 3 to 9 standard deviations, up or down by chance |
| asymmetric | 10 %: the same, one direction for all |
| focused | 10 %: the inputs moved to a small box around their medians, the response to 3 sd below its median |
| shift | 15 %: 4 standard deviations too high |
| heavy | 15 %: standard deviations times a Student-t variable with one degree of freedom added |

uniform, asymmetric and focused are those of Altamirano, Briol and Knoblauch (2024).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from biasgp._typing import Array, Mask
from biasgp.data.simulate import Simulation

REGIMES = {"none": 0.0, "uniform": 0.1, "asymmetric": 0.1, "focused": 0.1, "shift": 0.15, "heavy": 0.15}
"""The share of the readings that each dirties."""
HELD_OUT = (5, 30, 200)
"""One row of so many is to test on; and the least and the most of these."""
MOST_TRAINING = 450
"""Rows to fit."""
LEAST_TRAINING = 20
"""Fewer rows than these, beside the least to test on, are no table to compare methods on."""
SIZES = (3.0, 9.0)
"""Least and largest size of uniform and asymmetric outliers, in standard deviations of the response."""
FOCUS, FOCUSED_AT, SHIFT = 0.1, -3.0, 4.0
"""Half the width of the box, the response there relative to its median, and the shift: all in standard deviations."""
_SIGNS = (-1.0, 1.0)


@dataclass(frozen=True)
class DirtiedTable(Simulation):
    """A table's training and test readings, standardised; and the test readings dirtied as the training ones are.

    What f is nobody knows: `f` and `f_test` are the readings as they were.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.data import DirtiedTable, dirtied
    >>> table = dirtied(np.random.default_rng(0).normal(size=(200, 4)), "shift")
    >>> isinstance(table, DirtiedTable), table.X.shape, table.X_test_dirty.shape
    (True, (160, 3), (40, 3))
    """

    X_test_dirty: Array
    y_test_dirty: Array


def read_plain_table(path: str | Path) -> Array:
    """The numbers of a CSV file with or without a line of names, whose last column is the response.

    ValueError, which names the file, for cells that are no numbers, lines of another length, one column, too few rows,
    or a response that does not vary.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from biasgp.data import read_plain_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "line.csv"
    ...     _ = path.write_text("x,y\\n" + "".join(f"{i},{2 * i}\\n" for i in range(60)))
    ...     read_plain_table(path)[-1].tolist()
    [59.0, 118.0]
    """
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [(number, line) for number, line in enumerate(csv.reader(file), 1) if any(map(str.strip, line))]
    except (OSError, UnicodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"The table {str(path)!r} cannot be read as a CSV in UTF-8: {reason}.") from None
    if lines and all(_number(cell) is None for cell in lines[0][1]):
        lines = lines[1:]
    least = HELD_OUT[1] + LEAST_TRAINING
    if not lines:
        raise ValueError(f"The table {str(path)!r} has no rows of numbers.")
    width = len(lines[0][1])
    values = np.array([_numbers(path, number, line, width) for number, line in lines])
    if width < 2:
        raise ValueError(f"The table {str(path)!r} has one column: give inputs, and the response as the last column.")
    if len(values) < least:
        raise ValueError(f"The table {str(path)!r} has {len(values)} rows of numbers; {least} are the least.")
    if np.ptp(values[:, -1]) == 0.0:
        raise ValueError(f"The table {str(path)!r}: its last column, the response, is {values[0, -1]:g} in every row.")
    return values


def _numbers(path: Path, number: int, line: list[str], width: int) -> list[float]:
    if len(line) != width:
        raise ValueError(f"The table {str(path)!r}, line {number}: {len(line)} cells where the first row has {width}.")
    found = []
    for place, cell in enumerate(line, 1):
        value = _number(cell)
        if value is None:
            shown = repr(cell.strip()[:30]) if cell.strip() else "an empty cell"
            raise ValueError(
                f"The table {str(path)!r}, line {number}, column {place}: {shown} is no number. Fill it in, or leave "
                "the row or the column out."
            )
        found.append(value)
    return found


def _number(cell: str) -> float | None:
    """A finite number, or None."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def dirtied(values: Array, regime: str, random_state: int | np.random.Generator = 0) -> DirtiedTable:
    """Standardise a table, hold out a fifth, and dirty the response of the rest in one of the six ways.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns)
        The last column is the response.
    regime : {"none", "uniform", "asymmetric", "focused", "shift", "heavy"}
    random_state : int or Generator
        Of the order of the rows, and of what is dirtied and how.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.data import dirtied
    >>> values = np.random.default_rng(0).normal(size=(200, 4))
    >>> int(dirtied(values, "uniform").is_outlier.sum()), int(dirtied(values, "none").is_outlier.sum())
    (16, 0)
    """
    if regime not in REGIMES:
        raise ValueError(f"regime must be one of {', '.join(map(repr, REGIMES))}, got {regime!r}.")
    rng = np.random.default_rng(random_state)
    spread = values.std(axis=0)
    values = ((values - values.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0))[rng.permutation(len(values))]
    one_of, least, most = HELD_OUT
    held_out = int(np.clip(len(values) // one_of, least, most))
    test, train = values[:held_out], values[held_out : held_out + MOST_TRAINING]
    middle = np.median(train, axis=0)
    spoilt, out, sign = _spoilt(train, regime, middle, rng)
    dirty, _, _ = _spoilt(test, regime, middle, rng, sign)
    return DirtiedTable(
        X=spoilt[:, :-1],
        y=spoilt[:, -1],
        f=train[:, -1],
        is_outlier=out,
        X_test=test[:, :-1],
        y_test=test[:, -1],
        f_test=test[:, -1],
        X_test_dirty=dirty[:, :-1],
        y_test_dirty=dirty[:, -1],
    )


def exactly(share: float, n: int, rng: np.random.Generator) -> Mask:
    """A share of n readings, drawn without replacement."""
    out = np.zeros(n, dtype=bool)
    out[rng.choice(n, round(share * n), replace=False)] = True
    return out


def _spoilt(
    values: Array, regime: str, middle: Array, rng: np.random.Generator, sign: float | None = None
) -> tuple[Array, Mask, float | None]:
    """Rows with a share of them dirtied, which these are, and the one direction that asymmetric ones have."""
    n, values = len(values), values.copy()
    out = exactly(REGIMES[regime], n, rng)
    X, y, size, k = values[:, :-1], values[:, -1], rng.uniform(*SIZES, n), int(out.sum())
    if regime == "uniform":
        y[out] += (size * rng.choice(_SIGNS, n))[out]
    elif regime == "asymmetric":
        sign = float(rng.choice(_SIGNS)) if sign is None else sign
        y[out] += (size * sign)[out]
    elif regime == "focused":
        X[out] = middle[:-1] + FOCUS * rng.uniform(-1.0, 1.0, (k, X.shape[1]))
        y[out] = middle[-1] + FOCUSED_AT + FOCUS * rng.standard_normal(k)
    elif regime == "shift":
        y[out] += SHIFT
    elif regime == "heavy":
        y[out] += rng.standard_t(1, k)
    return values, out, sign
