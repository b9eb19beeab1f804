"""Plotly figures of a fit, as plain dictionaries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from biasgp._typing import Array
from biasgp.analysis.judging import NORMAL_95
from biasgp.analysis.places import Axis, EpisodeRecord
from biasgp.analysis.record import Effect, FitRecord, Points
from biasgp.palette import AMBER, BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY
from biasgp.report.pages import visible

BAND = "rgba(0,114,178,0.22)"
SHADES = {
    "stuck": ("rgba(204,121,167,0.35)", PURPLE, "solid"),
    "shift": ("rgba(230,159,0,0.28)", AMBER, "dash"),
    "step": ("rgba(86,180,233,0.28)", SKY, "dashdot"),
    "ramp": ("rgba(0,158,115,0.28)", GREEN, "dot"),
    "erratic": ("rgba(213,94,0,0.22)", ORANGE, "longdash"),
}
"""Fill and edge of each kind of episode: of the same palette, for a light or dark ground; in grey the edges tell."""
SENSORS = (
    (GREY, "circle"),
    (PURPLE, "square"),
    (SKY, "triangle-up"),
    (AMBER, "diamond"),
    (GREEN, "triangle-down"),
    (INK, "pentagon"),
)
"""Colour and symbol of each sensor, where several share the truth; others are grey."""
MAX_SHADES = 300
"""Episodes that are shaded, the most certain of them."""
MAX_POINTS, MAX_QUANTILES = 4000, 600
"""Points in a figure: more make a page slow and show no more."""
MAX_LABEL = 60
"""Characters that fit beside a figure on a phone."""
LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
ZERO_LINE = {"zeroline": True, "zerolinecolor": GREY}
Figure = dict[str, Any]


def figures(record: FitRecord, drawn: NDArray[np.intp]) -> dict[str, Figure]:
    """All figures of a page by the names of their places; readings are drawn at some rows."""
    points = record.points.take(drawn)
    found = {"readings": _readings_figure(record, points, record.axis.values[drawn])}
    residual = np.sort(record.points.residual[np.isfinite(record.points.residual)])
    if len(residual):
        found["residuals"] = _residual_figure(record, points)
        found["quantiles"] = _quantile_figure(residual)
        found["calibration"] = _calibration_figure(residual)
    return found | {f"effect-{j}": _effect_figure(record, effect) for j, effect in enumerate(record.effects)}


def _readings_figure(record: FitRecord, points: Points, x: Array) -> Figure:
    """Readings, mean and band above; biases of the flagged below; one axis for both."""
    clean, out, held = ~points.flagged & ~points.held_out, points.flagged, points.held_out & ~points.flagged
    curve_x, mean, low, high = _with_gaps(record, points, x)
    traces = [
        *_band(curve_x, low, high),
        *_clean_dots(x, points, clean),
        _dots(x, points, held, "held out", {"color": GREEN, "size": 6, "symbol": "diamond-open"}),
        _line(curve_x, mean, "estimated truth", line={"color": BLUE, "width": 1.6}, hoverinfo="skip"),
        _dots(x, points, out, "flagged", {"color": ORANGE, "size": 8, "symbol": "x"}),
        _stems(x, points, out),
    ]
    everything, curve = _heights(points, points.y), _heights(points, points.y[~points.flagged])
    layout = _layout(
        height=560,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        xaxis={**_x_axis(record.axis), "anchor": "y2"},
        yaxis={**_axis(record.target), "domain": [0.34, 1.0], "range": everything},
        yaxis2={**_axis(f"bias{record.in_unit}"), "domain": [0.0, 0.26], "rangemode": "tozero", **ZERO_LINE},
        hovermode="closest",
        dragmode="zoom",
        shapes=_shades(record.episodes or ()),
    )
    return {"data": [trace for trace in traces if len(trace["x"])], "layout": layout, "all": everything, "curve": curve}


def _with_gaps(record: FitRecord, points: Points, x: Array) -> tuple[Array, Array, Array, Array]:
    """The curve and its band at the readings that are drawn and over the gaps between readings."""
    at_readings = (x, points.mean, points.low, points.high)
    gaps = record.gaps
    if gaps is None:
        return at_readings
    over = (gaps.x, gaps.mean, gaps.low, gaps.high)
    joined = [np.concatenate(pair) for pair in zip(at_readings, over, strict=True)]
    order = np.argsort(joined[0], kind="stable")
    return joined[0][order], joined[1][order], joined[2][order], joined[3][order]


def _shades(episodes: Sequence[EpisodeRecord]) -> list[Figure]:
    """A bar behind the readings for each episode; the first of each kind stands for all in the legend."""
    shapes: list[Figure] = []
    named: set[str] = set()
    for episode in sorted(episodes, key=lambda each: -each.log_odds)[:MAX_SHADES]:
        fill, edge, dash = SHADES.get(episode.kind, ("rgba(138,144,153,0.3)", GREY, "solid"))
        first, last = _numbers(np.array(episode.span), 13)
        place = {"type": "rect", "xref": "x", "yref": "paper", "x0": first, "x1": last, "y0": 0, "y1": 1}
        look = {"layer": "below", "fillcolor": fill, "line": {"color": edge, "width": 1, "dash": dash}}
        name = _label(episode.kind)
        shapes.append({**place, **look, "name": name, "legendgroup": name, "showlegend": name not in named})
        named.add(name)
    return shapes


def _effect_figure(record: FitRecord, effect: Effect) -> Figure:
    """How f changes with one input."""
    x = effect.axis.values
    return {
        "data": [*_band(x, effect.low, effect.high), _line(x, effect.mean, "mean", line={"color": BLUE, "width": 2})],
        "layout": _layout(xaxis=_x_axis(effect.axis), yaxis=_axis(record.target)),
    }


def _residual_figure(record: FitRecord, points: Points) -> Figure:
    """Standardised residuals against the prediction: noise has no pattern."""
    known = np.isfinite(points.residual)
    return {
        "data": [_scatter(points.mean[known], points.residual[known], {"color": GREY, "size": 4, "opacity": 0.7})],
        "layout": _layout(
            xaxis=_axis(f"estimated truth{record.in_unit}"),
            yaxis={**_axis("residual (sd)"), **ZERO_LINE},
            shapes=[_across(2.0), _across(-2.0)],
        ),
    }


def _quantile_figure(residual: Array) -> Figure:
    """Residuals in order against a normal sample's: a straight line for noise."""
    n = len(residual)
    shown = np.unique(np.linspace(0, n - 1, min(n, MAX_QUANTILES)).astype(int))
    ends = np.array([-3.5, 3.5])
    return {
        "data": [
            _scatter(ndtri((shown + 0.5) / n), residual[shown], {"color": GREY, "size": 4}),
            _line(ends, ends, "noise", line={"color": BLUE, "width": 1.5}),
        ],
        "layout": _layout(xaxis=_axis("noise would be (sd)"), yaxis=_axis("residual (sd)")),
    }


def _calibration_figure(residual: Array) -> Figure:
    """Share of the readings inside intervals of each level."""
    observed = np.array([np.mean(np.abs(residual) <= ndtri(0.5 + 0.5 * level)) for level in LEVELS])
    found = _line(100.0 * LEVELS, 100.0 * observed, "found", line={"color": BLUE, "width": 2})
    ends = np.array([0.0, 100.0])
    return {
        "data": [
            _line(ends, ends, "as it should be", line={"color": GREY, "dash": "dot"}),
            {**found, "mode": "lines+markers"},
        ],
        "layout": _layout(
            xaxis={**_axis("interval should hold (%)"), "range": [0, 102]},
            yaxis={**_axis("it holds (%)"), "range": [0, 102]},
        ),
    }


def _layout(**more: Any) -> Figure:
    """What figures have in common; one with a height of its own has a legend."""
    return {
        "autosize": True,
        "height": 280,
        "showlegend": "height" in more,
        "margin": {"l": 58, "r": 12, "t": 28, "b": 46},
        "font": {"family": "system-ui, -apple-system, 'Segoe UI', sans-serif", "size": 13, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "#9aa5b1", "activecolor": INK},
        **more,
    }


def _axis(title: str) -> Figure:
    return {
        "title": {"text": _label(title), "standoff": 8},
        "gridcolor": "#e6e9ee",
        "linecolor": "#c5cbd3",
        "zeroline": False,
        "automargin": True,
    }


def _x_axis(axis: Axis) -> Figure:
    return _axis(axis.label) | ({"type": "date"} if axis.is_time else {})


def _label(text: str) -> str:
    """A user's text for a figure: the one way in. Plotly reads some HTML and %{…} in its labels."""
    shown = visible(text, MAX_LABEL)
    # As numbers, since plotly knows few entities by name and would show &quot; as it is.
    return re.sub(r"[&<>\"'{}$]", lambda found: f"&#{ord(found[0])};", shown)


def _numbers(values: Array, digits: int = 6) -> list[float | None]:
    """For JSON: few digits, None for what is not a number."""
    return [None if not np.isfinite(v) else float(f"{v:.{digits}g}") for v in values.tolist()]


def _band(x: Array, low: Array, high: Array) -> list[Figure]:
    edge: Figure = {"line": {"width": 0}, "hoverinfo": "skip"}
    return [
        _line(x, low, "lower end of the 95 % band", showlegend=False, **edge),
        _line(x, high, "95 % band", fill="tonexty", fillcolor=BAND, **edge),
    ]


def _line(x: Array, y: Array, name: str, **more: Any) -> Figure:
    return {"type": "scatter", "mode": "lines", "x": _numbers(x, 13), "y": _numbers(y), "name": name, **more}


def _scatter(x: Array, y: Array, marker: Figure) -> Figure:
    return {"type": "scatter", "mode": "markers", "x": _numbers(x, 13), "y": _numbers(y), "marker": marker}


def _clean_dots(x: Array, points: Points, clean: np.ndarray) -> list[Figure]:
    """Readings that are not flagged, with a colour and a symbol for each sensor where there are several."""
    look = {"size": 4, "opacity": 0.75}
    if points.sensor is None:
        return [_dots(x, points, clean, "readings", {"color": GREY, **look})]
    labels, counts = np.unique(points.sensor.astype(str), return_counts=True)
    named = sorted(labels[np.argsort(-counts, kind="stable")][: len(SENSORS)].tolist())
    traces = []
    for each, (color, symbol) in zip(named, SENSORS, strict=False):
        marker = {"color": color, "symbol": symbol, **look, "size": 5}
        traces.append(_dots(x, points, clean & (points.sensor == each), _label(each), marker))
    rest = clean & ~np.isin(points.sensor.astype(str), named)
    return [*traces, _dots(x, points, rest, "other sensors", {"color": GREY, **look})]


def _dots(x: Array, points: Points, which: np.ndarray, name: str, marker: Figure) -> Figure:
    cells: dict[str, Sequence[Any]] = {
        "bias": _numbers(points.bias[which], 4),
        "probability": _numbers(points.probability[which], 3),
        "truth": _numbers(points.mean[which], 4),
        "row": points.row[which].tolist(),
    }
    place, explained = "%{x}", ""
    if points.sensor is not None:
        cells["sensor"] = [_label(str(each)) for each in points.sensor[which]]
        place = "{sensor}<br>%{x}"
    if points.expected is not None and points.log_odds is not None and points.kind is not None:
        cells["expected"] = _numbers(points.expected[which], 4)
        cells["odds"] = _numbers(points.log_odds[which], 3)
        cells["kind"] = [_label(each or "good") for each in points.kind[which]]
        explained = "<br>expected without it {expected}<br>taken for {kind}, log odds {odds}"
    hover = f"{place}<br>reading %{{y}}<br>estimated truth {{truth}}<br>bias {{bias}}{explained}"
    hover += "<br>outlier with probability {probability}<br>row {row}<extra></extra>"
    for i, cell in enumerate(cells):
        hover = hover.replace(f"{{{cell}}}", f"%{{customdata[{i}]}}")
    rows = zip(*cells.values(), strict=True)
    return {
        **_scatter(x[which], points.y[which], marker),
        "name": name,
        "customdata": [["–" if cell is None else cell for cell in row] for row in rows],
        "hovertemplate": hover,
    }


def _stems(x: Array, points: Points, out: np.ndarray) -> Figure:
    """A bias with its 95 % interval for each flagged reading."""
    spread = NORMAL_95 * np.where(np.isfinite(points.bias_std), points.bias_std, 0.0)[out]
    return {
        **_scatter(x[out], points.bias[out], {"color": ORANGE, "size": 6, "symbol": "x"}),
        "yaxis": "y2",
        "showlegend": False,
        "error_y": {"type": "data", "array": _numbers(spread, 4), "color": ORANGE, "thickness": 1, "width": 0},
        "hovertemplate": "%{x}<br>bias %{y} ± %{error_y.array}<extra></extra>",
    }


def _across(height: float) -> Figure:
    line = {"color": BLUE, "width": 1, "dash": "dot"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": height, "y1": height, "line": line}


def _heights(points: Points, y: Array) -> list[float]:
    """A range that holds readings and the curve; its band may reach beyond where little is known."""
    values = np.concatenate([points.mean, y])
    values = values[np.isfinite(values)]
    low, high = float(values.min()), float(values.max())
    margin = 0.05 * (high - low) or 1.0
    return [low - margin, high + margin]
