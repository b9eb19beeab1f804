"""What the results say: means, a ranking with its uncertainty, and the paper's numbers and claims beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata, studentized_range

from biasgp._typing import Array
from biasgp.study.methods import PAPERS
from biasgp.study.results import Row
from biasgp.study.scoring import TAILS

TABLE1: dict[str, dict[str, float]] = {
    "1d": {"rab": 0.2994, "cob": 0.2674, "mcmc": 0.2601, "ep": 0.2598},
    "friedman": {"rab": 1.9074, "cob": 0.4209, "mcmc": 2.2994, "ep": 7.8828},
}
"""Mean MSE under scenario 1, by data set and method."""
TABLE2: dict[tuple[str, float], dict[str, tuple[float, float, float]]] = {
    ("no_ppb", 0.1): {"cob": (0.1104, 0.3605, 51), "mcmc": (0.0436, -0.7021, 1070), "ep": (0.5024, 2.0554, 206)},
    ("no_ppb", 0.2): {"cob": (0.1974, 0.6078, 53), "mcmc": (0.0978, 0.2193, 961), "ep": (0.5267, 1.3589, 175)},
    ("o3_ppb", 0.1): {"cob": (9.2467, 13.1931, 40), "mcmc": (9.3090, 6.4755, 983), "ep": (160.2542, 3.9824, 168)},
    ("o3_ppb", 0.2): {"cob": (5.5220, 4.3783, 50), "mcmc": (8.0989, 2.2006, 833), "ep": (126.9505, 6.8298, 991)},
}
"""MSE, NLPD and seconds on the paper's own campaign, by response, share of replaced records, and method."""
FIGURE3 = (0.0268, 0.1299, 0.7276)
"""Variances under the random bias model in Figure 3: of most readings, and of the two outliers."""
BOOTSTRAPS = 2000
"""Samples for an interval."""
SIGNIFICANCE = 0.05
"""Of the Nemenyi test."""
BAD = 1.5
"""A replicate is a bad one when its MSE is this many times the median method's on the same data."""
MUCH_SLOWER = 10.0
"""An order of magnitude."""
FEWEST_REPLICATES = 3
"""From which the spread of a method is judged."""
PLACE = ("dataset", "kernel", "scenario", "regime", "response", "share", "replicate")
"""The columns that say which data a row is about."""
MISSING = "–"


def unique(rows: Sequence[Row], name: str) -> list[object]:
    """The values of a column, in the order of the rows."""
    return list(dict.fromkeys(row[name] for row in rows))


def where(rows: Sequence[Row], **values: object) -> list[Row]:
    """The rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def values(rows: Sequence[Row], measure: str) -> Array:
    """A measure of the rows that ended well."""
    return np.array([row[measure] for row in rows if row["status"] == "ok"], dtype=float)


def mean(rows: Sequence[Row], measure: str) -> float:
    """Mean over the rows that ended well; nan without any."""
    found = values(rows, measure)
    return float(found.mean()) if len(found) else math.nan


@dataclass(frozen=True)
class ResultTable:
    """A header and lines of text, for a page or a terminal."""

    title: str
    header: list[str]
    lines: list[list[str]]
    note: str = ""


def digits(value: float, form: str = ".4f") -> str:
    """A number, or a dash for nan."""
    return MISSING if math.isnan(value) else format(value, form)


def _by_data(rows: Sequence[Row]) -> Iterator[tuple[str, str, list[Row]]]:
    """Each data set and kernel, with its rows."""
    for dataset, kernel in dict.fromkeys((row["dataset"], row["kernel"]) for row in rows):
        yield dataset, kernel, where(rows, dataset=dataset, kernel=kernel)


def table1(rows: Sequence[Row]) -> ResultTable:
    """The paper's Table 1 beside ours: mean MSE under scenario 1."""
    methods = [str(name) for name in unique(rows, "method")]
    lines = []
    for dataset, kernel, every in _by_data(rows):
        here = where(every, scenario=1)
        if here:
            lines.append([f"{dataset}, {kernel}", *(digits(mean(where(here, method=name), "mse")) for name in methods)])
    for name, printed in TABLE1.items():
        lines.append([f"{name}, the paper", *(digits(printed.get(method, math.nan)) for method in methods)])
    return ResultTable("Table 1: mean MSE, q = 0.1, μ = 3, σ = μ/6 (scenario 1)", ["data, kernel", *methods], lines)


def means(rows: Sequence[Row], measure: str, form: str = ".4f") -> list[ResultTable]:
    """Mean (standard deviation) of a measure by method and scenario, one table per data set and kernel."""
    tables = []
    for dataset, kernel, here in _by_data(rows):
        scenarios = unique(here, "scenario")
        lines = []
        for method in unique(here, "method"):
            cells = [values(where(here, method=method, scenario=scenario), measure) for scenario in scenarios]
            lines.append([str(method), *(_mean_and_sd(cell, form) for cell in cells)])
        tables.append(ResultTable(f"{measure}: {dataset}, {kernel}", ["method", *(f"s{s}" for s in scenarios)], lines))
    return tables


def _mean_and_sd(cell: Array, form: str) -> str:
    if not len(cell):
        return MISSING
    sd = f" ({cell.std(ddof=1):{form}})" if len(cell) > 1 else ""
    return f"{cell.mean():{form}}{sd}"


@dataclass(frozen=True)
class _Rank:
    """A method's mean rank over all replicates, with a 95 % bootstrap interval."""

    method: str
    rank: float
    low: float
    high: float


@dataclass(frozen=True)
class Ranking:
    """Methods by mean rank; two whose ranks differ by less than `critical` cannot be told apart (Nemenyi, 5 %)."""

    ranks: list[_Rank]
    critical: float
    blocks: int

    @classmethod
    def of(cls, rows: Sequence[Row], measure: str = "mse") -> Ranking:
        """Mean ranks, paired: methods are ranked on the same data; the bootstrap draws replicates within scenarios."""
        methods = unique(rows, "method")
        scores, strata = _blocks(rows, measure, methods)
        if not len(scores):
            return cls([], math.nan, 0)
        ranks = rankdata(scores, axis=1)
        drawn = _bootstrap_means(ranks, strata)
        low, high = np.quantile(drawn, TAILS, axis=0)
        k, n = len(methods), len(ranks)
        quantile = studentized_range.ppf(1.0 - SIGNIFICANCE, k, np.inf) / math.sqrt(2.0)
        critical = float(quantile * math.sqrt(k * (k + 1) / (6.0 * n)))
        found = [_Rank(str(m), *map(float, r)) for m, *r in zip(methods, ranks.mean(axis=0), low, high, strict=True)]
        return cls(sorted(found, key=lambda rank: rank.rank), critical if k > 1 else math.nan, n)


def _blocks(rows: Sequence[Row], measure: str, methods: Sequence[object]) -> tuple[Array, Array]:
    """One line per data set drawn, one column per method; and the scenario of each line. Failures are infinite."""
    cells: dict[tuple[object, ...], dict[object, float]] = {}
    for row in rows:
        place = tuple(row[name] for name in PLACE if name in row)
        value = row[measure] if row["status"] == "ok" else math.inf
        cells.setdefault(place, {})[row["method"]] = value
    whole = {place: found for place, found in cells.items() if all(name in found for name in methods)}
    scores = np.array([[found[name] for name in methods] for found in whole.values()])
    strata = np.unique([str(place[:-1]) for place in whole], return_inverse=True)[1] if whole else np.zeros(0)
    return scores.reshape(len(whole), len(methods)), np.asarray(strata)


def _bootstrap_means(data: Array, strata: Array) -> Array:
    """Column means of samples drawn with replacement within each stratum; shape (BOOTSTRAPS, columns)."""
    rng = np.random.default_rng(0)
    groups = [np.flatnonzero(strata == stratum) for stratum in np.unique(strata)]
    drawn = np.hstack([group[rng.integers(len(group), size=(BOOTSTRAPS, len(group)))] for group in groups])
    return np.asarray(data[drawn].mean(axis=1))


def ratio(rows: Sequence[Row], method: str, other: str, measure: str = "mse") -> tuple[float, ...]:
    """Mean of a measure over that of another method on the same data, with its 95 % bootstrap interval."""
    scores, strata = _blocks(rows, measure, [method, other])
    use = np.all(np.isfinite(scores), axis=1)
    scores, strata = scores[use], strata[use]
    if not len(scores):
        return math.nan, math.nan, math.nan
    drawn = _bootstrap_means(scores, strata)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], TAILS)
    both = scores.mean(axis=0)
    return float(both[0] / both[1]), float(low), float(high)


def claims(rows: Sequence[Row]) -> ResultTable:
    """The paper's claims about the simulated data: each with a verdict, as far as these results can tell, and why."""
    lines = []
    for dataset, kernel, here in _by_data(rows):
        there = [str(name) for name in unique(here, "method") if name in PAPERS]
        if "cob" not in there or len(there) < 2:
            continue
        checks = {_cob_is_best: dataset == "friedman", _cob_is_fastest: True}
        checks |= {_ep_spreads: "ep" in there, _rab_has_bad_replicates: "rab" in there}
        for check in (check for check, applies in checks.items() if applies):
            text, verdict, figures = check(here, there)
            lines.append([f"{text} ({dataset}, {kernel})", verdict, figures])
    return ResultTable("The paper's claims, with these figures", ["claim", "here", "figures"], lines)


def _cob_is_best(rows: Sequence[Row], there: Sequence[str]) -> tuple[str, str, str]:
    scenarios = unique(rows, "scenario")
    wins, figures = 0, []
    for scenario in scenarios:
        here = {m: mean(where(rows, scenario=scenario, method=m), "mse") for m in there}
        wins += min(here, key=lambda m: here[m] if not math.isnan(here[m]) else math.inf) == "cob"
    worse = False
    for rival in (m for m in there if m != "cob"):
        middle, low, high = ratio(rows, "cob", rival)
        worse |= low > 1.0
        figures.append(f"cob ÷ {rival} {middle:.2f} [{low:.2f}, {high:.2f}]")
    verdict = "confirmed" if wins == len(scenarios) else "denied" if worse or wins == 0 else "in part"
    why = f"lowest in {wins} of {len(scenarios)}; mean MSE, 95 % interval: {'; '.join(figures)}"
    return "COB has the lowest MSE on Friedman in every scenario", verdict, why


def _cob_is_fastest(rows: Sequence[Row], there: Sequence[str]) -> tuple[str, str, str]:
    times = {m: float(np.median(values(where(rows, method=m), "fit_s"))) for m in there}
    slower = {m: seconds / times["cob"] for m, seconds in times.items() if m != "cob"}
    least, most = min(slower.values()), max(slower.values())
    verdict = "confirmed" if least >= MUCH_SLOWER else "denied" if most < MUCH_SLOWER else "for some of them"
    why = f"cob {times['cob']:.2f} s (median); " + ", ".join(f"{m} {r:.1f} × as long" for m, r in slower.items())
    return "COB is faster than the others by more than an order of magnitude", verdict, why


def _ep_spreads(rows: Sequence[Row], there: Sequence[str]) -> tuple[str, str, str]:
    spread = {m: _relative_spread(rows, m, "mse") for m in there}
    seconds = {m: _relative_spread(rows, m, "fit_s") for m in there}
    covered = {m: mean(where(rows, method=m), "coverage95") for m in there}
    widest = max(spread, key=lambda m: spread[m]) == "ep"
    slow = max(seconds, key=lambda m: seconds[m]) == "ep"
    verdict = "confirmed" if widest and slow else "in part" if widest or slow else "denied"
    if len(unique(rows, "replicate")) < FEWEST_REPLICATES:
        verdict = "too few replicates to tell"
    figures = "; ".join(
        f"{m}: MSE {spread[m]:.2f}, TIME {seconds[m]:.2f}, 95 % intervals hold {100 * covered[m]:.0f} %" for m in there
    )
    text = "EP's results and times spread most, and its intervals are too narrow"
    return text, verdict, f"standard deviation ÷ mean within a scenario: {figures}"


def _relative_spread(rows: Sequence[Row], method: str, measure: str) -> float:
    cells = [values(where(rows, method=method, scenario=s), measure) for s in unique(rows, "scenario")]
    ratios = [cell.std(ddof=1) / cell.mean() for cell in cells if len(cell) > 1]
    return float(np.mean(ratios)) if ratios else 0.0


def _rab_has_bad_replicates(rows: Sequence[Row], there: Sequence[str]) -> tuple[str, str, str]:
    scores, _ = _blocks(rows, "mse", there)
    bad = (scores > BAD * np.median(scores, axis=1, keepdims=True)).sum(axis=0)
    counts = dict(zip(there, map(int, bad), strict=True))
    most = counts["rab"] > 0 and counts["rab"] == max(counts.values())
    verdict = "confirmed" if most else "in part" if counts["rab"] else "denied"
    figures = ", ".join(f"{m} {count}" for m, count in counts.items())
    why = f"of {len(scores)} replicates, with more than {BAD} × the median method's MSE: {figures}"
    return "RAB has a few bad replicates, more than the others", verdict, why
