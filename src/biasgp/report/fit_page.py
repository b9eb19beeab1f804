"""report.html: one file that holds all it needs, plotly included."""

from __future__ import annotations

import numpy as np

from biasgp.analysis.judging import NORMAL_95
from biasgp.analysis.places import EpisodeRecord
from biasgp.analysis.record import FitRecord
from biasgp.report.fit_figures import MAX_POINTS, figures
from biasgp.report.pages import Cell, render

MAX_TABLE_ROWS = 1000
"""Flagged readings, or episodes, in a table; cleaned.csv has all of them."""


def fit_page(record: FitRecord, plotly: str = "") -> str:
    """The whole page. `plotly` is where its script lies, relative to the page; left out, it is in the page."""
    flagged = np.flatnonzero(record.points.flagged)
    n_flagged = len(flagged)
    if record.scheduled is not None:
        flagged = flagged[~record.scheduled[flagged]]
    flagged = flagged[np.argsort(record.axis.values[flagged], kind="stable")]
    drawn = record.thinned(MAX_POINTS)
    unit = record.in_unit
    which = [] if record.points.sensor is None else ["sensor"]
    return render(
        "fit.html",
        style="report.css",
        script="report.js",
        plotly=plotly,
        title=record.title,
        record=record,
        figures=figures(record, drawn),
        drawn=len(drawn),
        total=len(record.points.y),
        n_flagged=n_flagged,
        n_scheduled=n_flagged - len(flagged),
        heads=[
            record.axis.label,
            *which,
            f"reading{unit}",
            f"estimated truth{unit}",
            f"bias{unit}",
            "±",
            "probability",
            *([] if record.points.why is None else [f"expected without it{unit}", "log odds", "kind"]),
            "row",
            *([] if record.points.why is None else ["why"]),
        ],
        rows=[_flagged_row(record, i) for i in flagged[:MAX_TABLE_ROWS].tolist()],
        episode_heads=[*which, "kind", "in words", "from", "to", "readings", f"bias ± std{unit}", "log odds"],
        episode_rows=[_episode_row(episode) for episode in (record.episodes or ())[:MAX_TABLE_ROWS]],
    )


def _episode_row(episode: EpisodeRecord) -> list[Cell]:
    return [
        *([Cell(episode.sensor)] if episode.sensor else []),
        Cell(episode.kind),
        Cell(episode.words),
        Cell(episode.start),
        Cell(episode.stop),
        Cell.number(len(episode.rows), "{:,.0f}"),
        Cell(f"{episode.bias:+.3g} ± {episode.bias_std:.2g}"),
        Cell.number(episode.log_odds, "{:.1f}"),
    ]


def _flagged_row(record: FitRecord, i: int) -> list[Cell]:
    points = record.points
    return [
        Cell(points.when[i], sort=f"{float(record.axis.values[i]):.15g}"),
        *([] if points.sensor is None else [Cell(points.sensor[i])]),
        Cell.number(points.y[i], "{:.5g}"),
        Cell.number(points.mean[i], "{:.4g}"),
        Cell.number(points.bias[i], "{:+.4g}"),
        Cell.number(NORMAL_95 * points.bias_std[i], "{:.2g}"),
        Cell.number(points.probability[i], "{:.2f}"),
        *_explained(record, i),
        Cell.number(points.row[i], "{:.0f}"),
        *([] if points.why is None else [Cell(points.why[i])]),
    ]


def _explained(record: FitRecord, i: int) -> list[Cell]:
    """What was expected, and how sure it is that the reading is bad, where the method says."""
    points = record.points
    if points.expected is None or points.log_odds is None or points.kind is None:
        return []
    return [
        Cell.number(points.expected[i], "{:.4g}"),
        Cell.number(points.log_odds[i], "{:+.1f}"),
        Cell(points.kind[i]),
    ]
