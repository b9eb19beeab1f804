"""The paper's figures, from a study's results: each as a matplotlib Figure, with what a reader should see in it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from biasgp._typing import Array
from biasgp.analysis.judging import NORMAL_95
from biasgp.data import SCENARIOS
from biasgp.inputs import GAP
from biasgp.report.pages import visible
from biasgp.study.beside_oracle import ORACLE, ratio_rows
from biasgp.study.results import Results, Row
from biasgp.study.tables import FIGURE3, Ranking, unique, values, where

MEASURES = {"mse": "MSE", "nlpd": "NLPD", "fit_s": "TIME, seconds per fit"}
NUMBERS = {("1d", "mse"): 4, ("1d", "nlpd"): 5, ("1d", "fit_s"): 6}
NUMBERS |= {("friedman", "mse"): 8, ("friedman", "nlpd"): 9, ("friedman", "fit_s"): 10}
TOYS = {
    "ml": (1, "no penalty on the bias"),
    "cob": (2, "constant bias model"),
    "rab": (3, "random bias model"),
}
MAX_NAME, MAX_TITLE = 30, 100  # characters: longer ones would leave no room for what is drawn
GREY, BLACK, RED = "#8c8c8c", "#000000", "#D55E00"
# Okabe and Ito's colours; grey and black for the two references.
_LOOKS = {
    "gp": ("#7f7f7f", "s"),
    "oracle": ("#000000", "+"),
    "cob": ("#0072B2", "o"),
    "rab": ("#E69F00", "^"),
    "sparse": ("#009E73", "D"),
    "sparse@auto": ("#009E73", "d"),
    "ep": ("#D55E00", "v"),
    "mcmc": ("#CC79A7", "P"),
    "rcgp": ("#8C564B", "h"),
}
_OTHERS = [("#56B4E9", "X"), ("#F0E442", "*"), ("#44546A", "p")]


@dataclass(frozen=True)
class _Picture:
    """A figure, the name of its files, and its caption."""

    name: str
    figure: Figure
    caption: str


def _looks(methods: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Colour and marker of each method, the same in all figures; methods that are not ours take the spare ones."""
    spare = itertools.cycle(_OTHERS)
    return {name: _LOOKS.get(name) or next(spare) for name in methods}


def _panels(n: int, columns: int, size: tuple[float, float], **share: Any) -> tuple[Figure, list[Axes]]:
    """A figure of n panels, each of a size in inches, in at most so many columns."""
    columns = min(columns, n)
    lines = -(-n // columns)
    figure = Figure(figsize=(size[0] * columns, size[1] * lines), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False, **share).ravel()
    for axis in axes[n:]:
        axis.set_axis_off()
    return figure, list(axes[:n])


def pictures(results: Results) -> Iterator[_Picture]:
    """All figures that the results allow."""
    kinds = {"simulated": _simulated, "sensor": _sensor, "tables": _dirty_tables}
    yield from kinds[results.kind](results)


def _label(text: str, limit: int = MAX_NAME) -> str:
    """A text of the results for a figure: the one way in. Matplotlib reads formulas between dollar signs."""
    return visible(text, limit).replace("$", r"\$")


def _simulated(results: Results) -> Iterator[_Picture]:
    for name, (number, title) in TOYS.items():
        curve = results.curves.get(f"toy/{name}")
        if curve is not None:
            yield _toy_figure(number, title, curve)
    for dataset, kernel in dict.fromkeys((row["dataset"], row["kernel"]) for row in results.rows):
        rows = where(results.rows, dataset=dataset, kernel=kernel)
        for measure in MEASURES:
            yield _scenarios_figure(rows, dataset, kernel, measure)
    shown = {key.rsplit("/", 1)[1]: curve for key, curve in results.curves.items() if key.startswith("1d/")}
    ordered = [str(name) for name in unique(results.rows, "method") if name in shown]
    if ordered:
        yield _fits_figure({name: shown[name] for name in ordered})


def _dirty_tables(results: Results) -> Iterator[_Picture]:
    """Every fit's MAE over the oracle's, one panel per regime."""
    rows = [row for row in ratio_rows(results.rows) if row["method"] != ORACLE]
    if not rows:
        return
    methods, regimes = [str(name) for name in unique(rows, "method")], unique(rows, "regime")
    figure, axes = _panels(len(regimes), 3, (4.2, 3.0))
    for axis, regime in zip(axes, regimes, strict=True):
        _replicates(axis, where(rows, regime=regime), methods, "mae_ratio")
        axis.axhline(1.0, color=BLACK, lw=0.8)
        axis.set_title(_label(str(regime)), fontsize=9)
    figure.suptitle("MAE of clean test readings ÷ the oracle's", fontsize=11)
    caption = (
        "MAE of clean test readings over that of a plain GP without the dirtied readings. Every draw of every table is "
        "a marker, the bar is their mean; the scale is logarithmic where the values spread widely."
    )
    yield _Picture("mae", figure, caption)


def _toy_figure(number: int, title: str, curve: dict[str, Any]) -> _Picture:
    """Figures 1 to 3: the fit above, each reading's bias (or its variance) below."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    x, y, outlier = (np.array(curve[name]) for name in ("x", "y", "is_outlier"))
    _readings(above, x, y, outlier > 0)
    _band(above, curve, BLACK)
    above.set(title=f"Figure {number}: {title}", ylabel="y, f")
    above.legend(frameon=False, fontsize=8, ncols=4)
    variance = curve.get("bias_variance")
    shown = np.array(curve["bias"] if variance is None else variance)
    below.plot(x, shown, ".", color=GREY, ms=4)
    below.plot(x[outlier > 0], shown[outlier > 0], "x", color=RED, ms=8, mew=2)
    caption = "Above: readings, the estimate of f with its 95 % band, and the truth. "
    if variance is None:
        below.set(xlabel="x", ylabel="bias")
        caption += "Below: the estimated bias of each reading; crosses are the two outliers."
    else:
        below.set(xlabel="x", ylabel="variance τ̃²", yscale="log")
        most, *two = float(np.median(shown)), *np.sort(shown[outlier > 0])
        caption += (
            f"Below: each reading's variance. Median {most:.4f} and {two[0]:.3g}, {two[-1]:.3g} at the two outliers; "
            f"the paper: {FIGURE3[0]}, and {FIGURE3[1]}, {FIGURE3[2]}."
        )
    return _Picture(f"figure{number:02d}", figure, caption)


def _readings(axis: Axes, x: Any, y: Any, outlier: Any) -> None:
    axis.plot(x[~outlier], y[~outlier], ".", color=GREY, ms=3, label="readings", rasterized=len(x) > 600)
    axis.plot(x[outlier], y[outlier], "x", color=RED, ms=5, label="outliers", rasterized=len(x) > 600)


def _band(axis: Axes, curve: dict[str, Any], color: str) -> None:
    grid, mean, std = (np.array(curve[name]) for name in ("grid", "mean", "std"))
    axis.fill_between(grid, mean - NORMAL_95 * std, mean + NORMAL_95 * std, color=color, alpha=0.25, lw=0)
    axis.plot(grid, mean, color=color, lw=1.5, label="estimate, 95 % band")
    axis.plot(grid, curve["f"], color=BLACK, lw=1, ls=(0, (2, 2)), label="truth")


def _scenarios_figure(rows: Sequence[Row], dataset: str, kernel: str, measure: str) -> _Picture:
    """Figures 4 to 6 and 8 to 10: every replicate of every method, one panel per scenario, and the mean."""
    methods = [str(name) for name in unique(rows, "method")]
    scenarios = unique(rows, "scenario")
    figure, axes = _panels(len(scenarios), 4, (3.15, 2.85))
    for axis, scenario in zip(axes, scenarios, strict=True):
        _replicates(axis, where(rows, scenario=scenario), methods, measure)
        s = SCENARIOS[int(str(scenario))]
        axis.set_title(f"s{scenario}: q = {s.q:g}, μ = {s.mu:g}, σ = {s.sigma:.3g}", fontsize=9)
    number = NUMBERS[dataset, measure]
    name = f"figure{number:02d}" + ("" if kernel == "ard" else f"-{kernel}")
    figure.suptitle(f"Figure {number}: {MEASURES[measure]}, {_label(dataset)}, {_label(kernel)} kernel", fontsize=11)
    scales = "one length-scale per input" if kernel == "ard" else "one shared length-scale"
    caption = (
        f"{MEASURES[measure]} on {dataset}, {scales}. Every replicate is a marker, the bar is the mean; "
        "the scale is logarithmic where the values spread widely."
    )
    return _Picture(name, figure, caption)


def _replicates(axis: Axes, rows: Sequence[Row], methods: Sequence[str], measure: str) -> None:
    look = _looks(methods)
    every = []
    for place, name in enumerate(methods):
        found = values(where(rows, method=name), measure)
        found = found[np.isfinite(found)]
        if not len(found):
            continue
        every.append(found)
        spread = np.linspace(-0.28, 0.28, len(found)) if len(found) > 1 else np.zeros(1)
        color, marker = look[name]
        filled: dict[str, Any] = {} if marker == "+" else {"markerfacecolor": "none"}
        axis.plot(place + spread, found, marker, color=color, ms=4, mew=0.9, **filled)
        axis.hlines(found.mean(), place - 0.4, place + 0.4, color=color, lw=2)
    if every:
        together = np.concatenate(every)
        if together.min() > 0 and together.max() > 6 * together.min():
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter("{x:g}" if together.max() < 30 * together.min() else "")
    turn = 45 if max(map(len, methods)) > 5 else 0
    axis.set_xticks(range(len(methods)), list(map(_label, methods)), fontsize=7, rotation=turn)
    axis.tick_params(axis="y", which="both", labelsize=7)
    axis.grid(axis="y", color="0.9", lw=0.6)


def _fits_figure(curves: dict[str, dict[str, Any]]) -> _Picture:
    """Figure 7: what each method makes of the same readings."""
    figure, axes = _panels(len(curves), 3, (4.0, 2.8), sharex=True, sharey=True)
    look = _looks(list(curves))
    for axis, (name, curve) in zip(axes, curves.items(), strict=True):
        x, y, outlier = (np.array(curve[field]) for field in ("x", "y", "is_outlier"))
        _readings(axis, x, y, outlier > 0)
        _band(axis, curve, look[name][0])
        axis.set_title(_label(name), fontsize=10)
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, fontsize=8, ncols=4, loc="outside lower center")
    figure.suptitle("Figure 7: the methods on one replicate, q = 0.1, μ = 5, σ = 5/12", fontsize=11)
    return _Picture(
        "figure07", figure, "Mean and 95 % band of the next reading; dashes are the truth, crosses outliers."
    )


def ranking_figure(title: str, ranking: Ranking) -> Figure:
    """Mean ranks with their intervals, and the critical difference as a bar."""
    names = [rank.method for rank in ranking.ranks]
    figure = Figure(figsize=(7, 0.35 * len(names) + 1.2), layout="constrained")
    axis = figure.subplots()
    look = _looks(names)
    for place, rank in enumerate(ranking.ranks):
        color, marker = look[rank.method]
        axis.plot([rank.low, rank.high], [place, place], color=color, lw=2)
        axis.plot(rank.rank, place, marker, color=color, ms=8, mew=2)
    best = ranking.ranks[0].rank
    if np.isfinite(ranking.critical):
        axis.axvspan(best, best + ranking.critical, color="0.9", zorder=0)
    axis.set_yticks(range(len(names)), list(map(_label, names)))
    axis.invert_yaxis()
    axis.set_title(_label(title, MAX_TITLE))
    axis.set_xlabel("mean rank (1 is best), 95 % interval; grey: not to be told from the best")
    return figure


def _sensor(results: Results) -> Iterator[_Picture]:
    responses = [key.partition("/")[2] for key in results.curves if key.startswith("readings/")]
    order = [name for name in unique(results.rows, "response") if name in responses]
    if order:
        yield _campaign_figure({str(name): results.curves[f"readings/{name}"] for name in order})
    dataset = results.rows[0]["dataset"] if results.rows else ""
    shares = [share for share in unique(results.rows, "share") if share != 0.0]
    number = 12
    for place, response in enumerate(order):
        # The paper shows its first response with the smaller share and its second with the larger.
        share = shares[min(place, len(shares) - 1)] if shares else 0.1
        stem = f"{dataset}/{response}/{share:g}/r00/"
        fits = {key[len(stem) :]: curve for key, curve in results.curves.items() if key.startswith(stem)}
        methods = [name for name in results.study["configuration"]["methods"] if name in fits]
        if methods:
            readings = results.curves[f"readings/{response}"]
            yield _sensor_fits_figure(number, str(response), float(str(share)), readings, {m: fits[m] for m in methods})
            number += 1


def _campaign_figure(readings: dict[str, dict[str, Any]]) -> _Picture:
    """Figure 11: the readings over time, with the flagged ones."""
    figure, axes = _panels(len(readings), 1, (10.0, 2.6), sharex=True)
    for axis, (name, data) in zip(axes, readings.items(), strict=True):
        time, y, flagged = (np.array(data[field]) for field in ("time", "y", "flagged"))
        axis.plot(time / 24.0, y, ".", color=GREY, ms=3, label="readings", rasterized=True)
        bad = flagged > 0
        axis.plot(time[bad] / 24.0, y[bad], "o", color=RED, ms=6, mfc="none", label=f"flagged ({bad.sum()})")
        axis.set(ylabel=_label(name))
        axis.legend(frameon=False, fontsize=8)
    axes[-1].set_xlabel("days since the start")
    axes[0].set_title("Figure 11: the measurements")
    return _Picture(
        "figure11", figure, "Every reading; circles are the outliers, flagged by the operator or simulated."
    )


def _broken(time: Array, mean: Array, std: Array) -> tuple[Array, Array, Array]:
    """A curve over time that breaks off at gaps: no line without uncertainty must join both sides."""
    steps = np.diff(time)
    wide = np.flatnonzero(steps > GAP * np.median(steps)) + 1 if len(steps) else np.empty(0, dtype=np.intp)
    return np.insert(time, wide, time[wide]), np.insert(mean, wide, np.nan), np.insert(std, wide, np.nan)


def _over_gaps(axis: Axes, time: Array, fit: dict[str, Any], color: str) -> bool:
    """The fit over gaps, fainter and dashed, from the reading before to the one after; whether there are any."""
    inside = np.array(fit.get("gap_time") or [])
    if not len(inside):
        return False
    x = np.concatenate([time, inside / 24.0])
    order = np.argsort(x, kind="stable")
    mean, std = (np.concatenate([fit[name], fit[f"gap_{name}"]])[order] for name in ("mean", "std"))
    within = np.pad(order >= len(time), 1)
    # The readings on both sides belong to it, so that nothing is left open.
    mean[~(within[1:-1] | within[:-2] | within[2:])] = np.nan
    axis.fill_between(x[order], mean - NORMAL_95 * std, mean + NORMAL_95 * std, color=color, alpha=0.15, lw=0)
    axis.plot(x[order], mean, color=color, lw=0.8, ls=(0, (3, 2)))
    return True


def _sensor_fits_figure(
    number: int, response: str, share: float, readings: dict[str, Any], fits: dict[str, dict[str, Any]]
) -> _Picture:
    """Figures 12 and 13: each method's mean and band over time, and the replaced records."""
    figure, axes = _panels(len(fits), 1, (10.0, 2.1), sharex=True, sharey=True)
    look = _looks(list(fits))
    time, y = np.array(readings["time"]) / 24.0, np.array(readings["y"])
    good = np.array(readings["flagged"]) == 0
    low, high = y[good].min(), y[good].max()
    drawn = np.concatenate([np.array(fit["y"])[np.array(fit["replaced"]) > 0] for fit in fits.values()])
    # All usual readings and most of what replaced them; a spike of ten times the range would flatten the rest.
    room = 0.5 * (high - low)
    low, high = max(low - room, min(low, drawn.min())), min(high + room, max(high, drawn.max()))
    over_gaps = False
    for axis, (name, fit) in zip(axes, fits.items(), strict=True):
        trained, replaced = np.array(fit["y"]), np.array(fit["replaced"]) > 0
        mean, std = np.array(fit["mean"]), np.array(fit["std"])
        axis.plot(time[good], y[good], ".", color=GREY, ms=2, rasterized=True)
        axis.plot(time[replaced], trained[replaced], "x", color=RED, ms=3, rasterized=True)
        x, mean, std = _broken(time, mean, std)
        axis.fill_between(x, mean - NORMAL_95 * std, mean + NORMAL_95 * std, color=look[name][0], alpha=0.3, lw=0)
        axis.plot(x, mean, color=look[name][0], lw=0.8)
        over_gaps |= _over_gaps(axis, time, fit, look[name][0])
        axis.set_ylabel(_label(name), fontsize=9)
    axes[0].set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    axes[-1].set_xlabel("days since the start")
    axes[0].set_title(f"Figure {number}: {_label(response)}, {100 * share:g} % of the records replaced")
    caption = (
        "Mean and 95 % band of the next reading. Dots: readings as they were; crosses: what replaced them in training."
    )
    if over_gaps:
        caption += (
            " Dashes and the fainter band: gaps, where the other inputs are unknown; they are interpolated linearly in "
            "time, and the band does not contain what they may have been."
        )
    return _Picture(f"figure{number:02d}", figure, caption)
