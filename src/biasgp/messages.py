"""Typed warnings and errors. Each says what happened and what the user can do about it, in text fit to print.

Also what makes texts and numbers fit to print.

A warning holds the Finding that it tells:

>>> import warnings
>>> import numpy as np
>>> import biasgp
>>> with warnings.catch_warnings(record=True) as told:
...     warnings.simplefilter("always", biasgp.BiasGPWarning)
...     model = biasgp.GaussianGP().fit(np.arange(20.0)[:, None], np.ones(20))
>>> issubclass(told[0].category, biasgp.ConstantResponseWarning), told[0].message.args[0].code
(True, 'constant')

Each kind of warning belongs to one code, and can be filtered on its own:

>>> from biasgp.messages import WARNINGS
>>> for code, kind in sorted(WARNINGS.items()):
...     print(f"{code:16} {kind.__name__}")
ambiguous        AmbiguousOutliersWarning
constant         ConstantResponseWarning
hidden-outliers  HiddenOutliersWarning
interrupted      InterruptedWarning
jitter           JitterWarning
mostly-clustered ClusteredOutliersWarning
no-labels        NoLabelsWarning
not-converged    ConvergenceWarning
not-mixed        MixingWarning
overflagging     OverflaggingWarning
runaway          RunawayTuningWarning
time-limit       TimeLimitWarning
>>> [code for code, kind in sorted(WARNINGS.items()) if issubclass(kind, biasgp.UntrustworthyFitWarning)]
['ambiguous', 'hidden-outliers', 'mostly-clustered', 'no-labels', 'overflagging']
"""

from __future__ import annotations

HOURS = ((1.0 / 60.0, "seconds", 3600.0), (1.0, "minutes", 60.0), (72.0, "h", 1.0))
"""Below how many hours a length of time is told in which unit, and how many of it are an hour; beyond, in days."""


def printable(text: str) -> str:
    """Text from a file without what could move the cursor or recolour the terminal."""
    return "".join(c if c.isprintable() else "�" for c in text)


def clip(text: str, length: int = 60) -> str:
    """The text, cut where it would fill the line."""
    return text if len(text) <= length else text[: length - 1] + "…"


def duration(hours: float) -> str:
    """A length of time, in its natural unit."""
    unit, factor = next(((unit, factor) for limit, unit, factor in HOURS if hours < limit), ("days", 1.0 / 24.0))
    return quantity(hours * factor, unit, 2)


def quantity(value: float, unit: str, digits: int = 3) -> str:
    """A number to a few digits, without an exponent where that is readable, and its unit."""
    short = float(f"{value:.{digits}g}")
    readable = 1e-4 <= abs(short) < 1e6 or short == 0.0
    return f"{f'{short:g}' if readable else f'{value:.{digits}g}'} {unit}".strip()


class BiasGPWarning(UserWarning):
    """Every warning of this package; filter on it to silence them all. `args[0]` is the Finding that it tells."""


class ConvergenceWarning(BiasGPWarning):
    """The optimiser stopped before it converged."""


class TimeLimitWarning(BiasGPWarning):
    """The search was ended by max_time; the fit is the best that it had found."""


class MixingWarning(ConvergenceWarning):
    """The chains of a sampler do not agree with one another: R̂ is above 1.05."""


class InterruptedWarning(BiasGPWarning):
    """Sampling was interrupted, and the fit rests on what had been drawn."""


class JitterWarning(BiasGPWarning):
    """The covariance was not positive definite until its diagonal was raised."""


class ConstantResponseWarning(BiasGPWarning):
    """The response does not vary, so there is nothing to learn from it."""


class RunawayTuningWarning(BiasGPWarning):
    """A tuning parameter or the noise ran to where the model degenerates."""


class UntrustworthyFitWarning(BiasGPWarning):
    """A fit found reason to doubt itself; the subclasses say which. It is in `diagnosis_` too."""


class HiddenOutliersWarning(UntrustworthyFitWarning):
    """The noise was found to be Gaussian, but the residuals are not: outliers may have been taken for it."""


class OverflaggingWarning(UntrustworthyFitWarning):
    """So many readings were flagged that what is left may be too good to be true."""


class ClusteredOutliersWarning(UntrustworthyFitWarning):
    """Most flagged readings lie next to one another: a fault that lasted, or a true feature of the signal."""


class NoLabelsWarning(UntrustworthyFitWarning):
    """No choice of outliers was credible, and no reading was taken for one by itself."""


class AmbiguousOutliersWarning(UntrustworthyFitWarning):
    """Which readings are outliers is in doubt, and f with it."""


class WrongUseError(ValueError):
    """Something was asked for that cannot be done; the message says what to ask for instead."""


class TableError(ValueError):
    """The table cannot be used as it is; the message says why and what to do.

    Examples
    --------
    >>> import pandas as pd
    >>> from biasgp.data.table import Table
    >>> Table("log.csv", pd.DataFrame({"time": ["1", "2"], "no2": ["7.5", "8.1"]})).column("no")
    Traceback (most recent call last):
    biasgp.messages.TableError: log.csv has no column 'no'. Did you mean 'no2'?
    """


class SourceError(RuntimeError):
    """A source of readings that is being followed is not what it was, or holds what cannot be used."""


class FailedFitError(RuntimeError):
    """The data could be read, but no model could be fitted to them."""


class CovarianceError(ArithmeticError):
    """The covariance matrix could not be factorised, even with jitter.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.covariance.dense import factorise
    >>> factorise(np.array([[1.0, 2.0], [2.0, 1.0]]), noise=np.zeros(2))
    Traceback (most recent call last):
    biasgp.messages.CovarianceError: The covariance matrix is not positive definite, even with jitter ...
    """


WARNINGS: dict[str, type[BiasGPWarning]] = {
    "ambiguous": AmbiguousOutliersWarning,
    "mostly-clustered": ClusteredOutliersWarning,
    "constant": ConstantResponseWarning,
    "hidden-outliers": HiddenOutliersWarning,
    "interrupted": InterruptedWarning,
    "jitter": JitterWarning,
    "no-labels": NoLabelsWarning,
    "not-converged": ConvergenceWarning,
    "not-mixed": MixingWarning,
    "overflagging": OverflaggingWarning,
    "runaway": RunawayTuningWarning,
    "time-limit": TimeLimitWarning,
}
"""The warning that belongs to each code of a Finding."""
