"""What a person says of a table and of its fit: the options of a project, checked as they come in."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import pandas as pd

from biasgp.analysis.fitting import AUTO, KERNELS, Selection, Settings
from biasgp.data.table import Table
from biasgp.estimators import METHODS
from biasgp.messages import WrongUseError, clip
from biasgp.models.transform_choice import RESPONSES
from biasgp.models.varying_noise import NOISE_MODELS

EVENTS = "events.csv"
"""The dates of service, where they are a file."""
LONGEST_TEXT, MOST_TEXTS = 2000, 1000
"""Characters of an option, as many as a condition may have; and texts in a list of them."""
CHOICES = {
    "kernel": (AUTO, *KERNELS),
    "method": tuple(METHODS),
    "response": RESPONSES,
    "decimal": ("point", "comma"),
    "noise_model": NOISE_MODELS,
}
FOUND = frozenset({"decimal", "noise_model"})
"""Choices that may be left open."""
LABELS = {
    "target": "the target",
    "features": "the features",
    "na": "the missing marks",
    "decimal": "the decimal mark",
    "day-first": "day first",
    "month-first": "month first",
    "sep": "the separator",
    "encoding": "the encoding",
    "header": "a header line",
    "no-header": "no header line",
    "where": "the rows to use",
    "by": "the column of sensors",
    "kernel": "the kernel",
    "method": "the method",
    "response": "the transform",
    "noise-model": "the noise",
    "episodes": "episodes",
    "no-episodes": "no episodes",
    "events": "the dates of service",
}
"""What the options of the command are called on the page."""


@dataclass(frozen=True)
class Options:
    """Which columns and rows, how the cells are written, and how to fit; what is None is found."""

    target: str | None = None
    features: tuple[str, ...] | None = None
    by: str | None = None
    na: tuple[str, ...] = ()
    decimal: str | None = None
    day_first: bool | None = None
    sep: str | None = None
    encoding: str | None = None
    header: bool | None = None
    where: str | None = None
    kernel: str = AUTO
    method: str = "sparse"
    response: str = "auto"
    noise_model: str | None = None
    episodes: bool | None = None
    events: tuple[str, ...] = ()
    """Times at which somebody serviced the sensor, as they are written."""

    def changed(self, given: dict[str, Any]) -> Options:
        """With some of them replaced; WrongUseError where one is not what it should be."""
        unknown = set(given) - {field.name for field in fields(self)}
        if unknown:
            raise WrongUseError(f"There is no option {clip(min(unknown))!r}.")
        return replace(self, **{name: _checked(name, value) for name, value in given.items()})

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def selection(self, source: str) -> Selection:
        """The part of a table that they choose."""
        form = {name: getattr(self, name) for name in ("sep", "encoding", "decimal", "day_first", "header")}
        return Selection(source, self.target, self.features or None, self.na, self.where, **form)

    def events_table(self) -> Table | None:
        """The dates of service, as a file of them would be read."""
        return Table(EVENTS, pd.DataFrame({"date": self.events}, dtype=object)) if self.events else None

    def settings(self) -> Settings:
        """How to fit; refused where the method has no such option."""
        if self.events and self.episodes is False:
            raise WrongUseError(
                "Dates of service say when biases that last may end: look for episodes, or take them out."
            )
        episodes = True if self.events else self.episodes
        settings = Settings(self.method, self.response, self.kernel, episodes=episodes, noise_model=self.noise_model)
        settings.estimator()
        return settings


def on_page(text: str) -> str:
    """What the command would say, in the words of the page."""
    text = text.replace("another --", "another ")
    text = re.sub(r" \(choose with --[a-z]+\)", "", text)
    return re.sub(r"--([a-z]+(?:-[a-z]+)*)", lambda found: LABELS.get(found[1], found[1].replace("-", " ")), text)


def _checked(name: str, value: Any) -> Any:
    if name in CHOICES and not (value is None and name in FOUND):
        if value not in CHOICES[name]:
            raise WrongUseError(f"{name} must be one of {', '.join(CHOICES[name])}.")
        return value
    if name in ("features", "na", "events"):
        if value is None:
            return None if name == "features" else ()
        if not isinstance(value, list) or len(value) > MOST_TEXTS:
            raise WrongUseError(f"{name} must be a list of at most {MOST_TEXTS:,} texts.")
        return tuple(_text(name, each) for each in value) or (None if name == "features" else ())
    if name in ("day_first", "header", "episodes"):
        if value is not None and not isinstance(value, bool):
            raise WrongUseError(f"{name} must be true, false or null.")
        return value
    return None if value is None or value == "" else _text(name, value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT or not value.strip():
        raise WrongUseError(f"{name} must be text of at most {LONGEST_TEXT:,} characters that is not blank.")
    if "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
        raise WrongUseError(f"{name} holds characters that no table has.")
    return value
