"""A fit, a fleet and studies as the pages show them, made up; and a page taken apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

from biasgp.analysis.places import Axis, EpisodeRecord
from biasgp.analysis.record import Effect, FitRecord, Points
from biasgp.study.results import Results
from biasgp.study.scoring import SCORES

NASTY = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'> =HYPERLINK(\"http://x\") %{x} $x$"


def record(n: int = 300, n_flagged: int = 9, target: str = "no_ppb", doubts: tuple[str, ...] = ()) -> FitRecord:
    rng = np.random.default_rng(0)
    hours = np.sort(rng.choice(10 * n, n, replace=False)).astype(float)
    mean = 10.0 + np.sin(hours / 30.0)
    y = mean + 0.2 * rng.standard_normal(n)
    flagged = np.zeros(n, dtype=bool)
    flagged[rng.choice(n, n_flagged, replace=False)] = True
    y[flagged] += rng.uniform(5.0, 20.0, n_flagged)
    residual = np.where(flagged, np.nan, (y - mean) / 0.2)
    points = Points(
        row=np.arange(1, n + 1),
        when=[f"2026-06-01 {i:05d}" for i in range(n)],
        y=y,
        mean=mean,
        low=mean - 0.1,
        high=mean + 0.1,
        bias=np.where(flagged, y - mean, 0.0),
        bias_std=np.full(n, 0.2),
        probability=flagged.astype(float),
        flagged=flagged,
        held_out=np.zeros(n, dtype=bool),
        residual=residual,
    )
    grid = np.linspace(0.0, 1.0, 20)
    effect = Effect(Axis(target, False, grid), "Varies over about 3.", grid, grid - 0.1, grid + 0.1)
    axis = Axis(target, True, hours * 3.6e6 + 1.78e12)
    episodes = tuple(
        EpisodeRecord(kind, rows, tuple(axis.values[rows[[0, -1]]].tolist()), "from", "to", 2.5, 0.4, odds, "words")
        for kind, rows, odds in (
            ("stuck", np.arange(5, 12), 30.0),
            ("shift", np.arange(15, 22), 12.0),
            ("step", np.arange(n - 8, n), 8.0),
            ("ramp", np.arange(25, 30), 40.0),
            ("stuck", np.arange(31, 35), 35.0),
        )
    )
    return FitRecord(
        title=f"{target}: which readings to trust",
        target=target,
        unit="ppb",
        source=f"{target}.csv",
        axis=axis,
        points=points,
        effects=(effect, replace(effect, axis=Axis("humidity_pct", False, grid))),
        figures=(("readings used", str(n)), ("flagged", str(n_flagged))),
        sentences=("A sentence.",),
        doubts=doubts,
        remarks=(f"Left out: 3 rows where {target} is missing.",),
        residuals_of="Of the readings that are not flagged.",
        made=(("Command", f"biasgp fit {target}"),),
        episodes=episodes,
        notes=(f"{target} may have changed.",),
    )


def with_text(value: Any, change: Callable[[str], str]) -> Any:
    """The same with every text in it changed, however deep it lies."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)(with_text(item, change) for item in value)
    if isinstance(value, dict):
        return {key: with_text(item, change) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{item.name: with_text(getattr(value, item.name), change) for item in fields(value)})
    return value


def fleet() -> list[dict[str, Any]]:
    """A good fit, a doubtful one, and none."""
    good: dict[str, Any] = {"group": "north", "status": "ok", "file": "groups/north/report.html", "message": "look"}
    good |= {"readings": 120, "flagged": 3, "episodes": 2, "noise_std": 0.12, "seconds": 1.5, "trustworthy": True}
    nothing = dict.fromkeys(("readings", "flagged", "episodes", "noise_std", "seconds", "trustworthy"))
    failed: dict[str, Any] = {"group": "s", "status": "failed", "file": "p", "message": "why"}
    return [good, good | {"trustworthy": False}, failed | nothing]


def simulated(folder: Path, text: str) -> Results:
    """A study whose texts all hold `text`; its data sets must be known ones."""
    rows = [
        {"dataset": "friedman", "kernel": text, "scenario": scenario, "q": 0.1, "mu": 1.0, "sigma": 1.0}
        | {"replicate": replicate, "method": f"{text}{method}"}
        | dict.fromkeys(SCORES, 1.0 + method + 0.1 * replicate)
        | {"status": "ok", "message": ""}
        for scenario in (1, 2)
        for method in range(2)
        for replicate in range(2)
    ]
    rows[-1] |= {"status": text, "message": text}
    return Results(folder, _study("simulated", text), rows, {})


def sensor(folder: Path, text: str) -> Results:
    """The same of the other kind."""
    rows = [
        {"dataset": text, "kernel": text, "response": text, "share": share, "replicate": 0, "method": f"{text}{method}"}
        | dict.fromkeys((*SCORES, "n_gross", "gross_found", "clean_flagged"), 1.0 + method)
        | {"status": "ok", "message": ""}
        for share in (0.0, 0.1)
        for method in range(2)
    ]
    rows.append(rows[-1] | {"replicate": 1, "status": text, "message": text})
    ramp, none = np.linspace(0.0, 1.0, 9).tolist(), [0.0] * 8 + [1.0]
    fit = {"y": ramp, "replaced": none, "mean": ramp, "std": ramp}
    curves = {f"{text}/{text}/0.1/r00/{text}{method}": fit for method in range(2)}
    curves[f"readings/{text}"] = {"time": ramp, "y": ramp, "flagged": none}
    return Results(folder, _study("sensor", text), rows, curves)


def _study(kind: str, text: str) -> dict[str, Any]:
    settings = {"methods": [f"{text}0", f"{text}1"], text: text}
    return {
        "kind": kind,
        "biasgp": text,
        "configuration": settings,
        "versions": {text: text},
        "machine": {"cores": text},
    }


@dataclass
class Parsed:
    """A page taken apart: what opens and closes, attributes that hold no text of a user's, words, links, data."""

    shape: list[tuple[Any, ...]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    codes: list[tuple[str, str]] = field(default_factory=list)
    policy: str = ""
    figures: Any = None


def parsed(page: str) -> Parsed:
    """Take a page apart."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return reader.found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found = Parsed()
        self._inside: tuple[str, dict[str, str | None]] = ("", {})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = (tag, dict(attrs))
        # Links and the descriptions of images are the only attributes with a user's text.
        free = ("href", "alt", "src") if tag in ("a", "img") else ()
        self.found.shape.append((tag, *((name, None if name in free else value) for name, value in attrs)))
        self.found.links += [value or "" for name, value in attrs if name == "href"]
        if dict(attrs).get("http-equiv"):
            self.found.policy = dict(attrs)["content"] or ""

    def handle_endtag(self, tag: str) -> None:
        self._inside = ("", {})
        self.found.shape.append(("/", tag))

    def handle_comment(self, data: str) -> None:
        self.found.shape.append(("comment", data))

    def handle_data(self, data: str) -> None:
        tag, attributes = self._inside
        if tag in ("script", "style") and "type" not in attributes:
            self.found.codes.append((tag, data))
        elif tag == "script":
            self.found.figures = json.loads(data)
        elif data.strip():
            self.found.words.append(data)
