"""What the study on tables says: each method beside the oracle on the same draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from biasgp._typing import Array
from biasgp.study.results import Row
from biasgp.study.tables import MISSING, Ranking, ResultTable, digits, unique, values, where

ORACLE = "oracle"
CLIP = 20.0
"""Nats: no single difference in NLPD counts for more in a mean, or one fit would decide it."""
BAD = 1.25
"""A fit is bad when its MAE is this many times the oracle's."""
RANKED = ("mae", "nlpd", "crps", "nlpd_dirty")
"""Measures by which methods are ranked; the oracle, which is told, is not among them."""


@dataclass(frozen=True)
class _Pairs:
    """MAE ÷ the oracle's, CRPS ÷ the oracle's and NLPD − the oracle's, one per draw on which both ended well."""

    mae: Array
    crps: Array
    nlpd: Array

    @classmethod
    def of(cls, rows: Sequence[Row], method: str) -> _Pairs:
        told = {_place(row): row for row in where(rows, method=ORACLE, status="ok")}
        both = [(row, told[_place(row)]) for row in where(rows, method=method, status="ok") if _place(row) in told]
        mae, crps = (np.array([mine[name] / best[name] for mine, best in both]) for name in ("mae", "crps"))
        return cls(mae, crps, np.array([mine["nlpd"] - best["nlpd"] for mine, best in both]))


def _place(row: Row) -> tuple[object, ...]:
    return row["dataset"], row["regime"], row["replicate"]


def _geometric(ratios: Array) -> float:
    return float(np.exp(np.log(ratios).mean())) if len(ratios) else math.nan


def ratio_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows that ended well with "mae_ratio", the MAE over the oracle's on the same draw."""
    told = {_place(row): row["mae"] for row in where(rows, method=ORACLE, status="ok")}
    both = [row for row in where(rows, status="ok") if _place(row) in told]
    return [row | {"mae_ratio": row["mae"] / told[_place(row)]} for row in both]


def summary(rows: Sequence[Row]) -> ResultTable:
    """One line per method: accuracy and doubt beside the oracle's, mean ranks, failures and time."""
    ranked = [row for row in rows if row["method"] != ORACLE]
    ranks = {measure: {r.method: r.rank for r in Ranking.of(ranked, measure).ranks} for measure in RANKED[2:]}
    lines = []
    for method in map(str, unique(rows, "method")):
        here, pairs = where(rows, method=method), _Pairs.of(rows, method)
        found, seconds = len(pairs.mae), values(here, "fit_s")
        lines.append(
            [
                method,
                digits(_geometric(pairs.mae), ".3f"),
                f"{np.quantile(pairs.mae, 0.9):.2f}; {pairs.mae.max():.2f}" if found else MISSING,
                f"{(pairs.mae > BAD).sum()} of {found}" if found else MISSING,
                f"{np.median(pairs.nlpd):+.3f}; {np.clip(pairs.nlpd, -CLIP, CLIP).mean():+.3f}" if found else MISSING,
                digits(_geometric(pairs.crps), ".3f"),
                *(digits(ranks[measure].get(method, math.nan), ".2f") for measure in RANKED[2:]),
                str(sum(row["status"] != "ok" for row in here)),
                digits(float(np.median(seconds)) if len(seconds) else math.nan, ".2f"),
            ]
        )
    header = ["method", "MAE ÷ oracle's", "90th percentile; worst", f"above {BAD:g}", "NLPD − oracle's: median; mean"]
    header += ["CRPS ÷ oracle's", "mean rank: CRPS", "density of dirty readings", "not ok", "seconds per fit (median)"]
    note = (
        "The oracle is a plain GP without the dirtied readings. Ratios are geometric means over draws; NLPD is that of "
        f"a Gaussian, its mean with every difference clipped at {CLIP:g}. Ranks are of all methods but the oracle on "
        "the same draws; a failed fit ranks last. The density of dirty readings is the model's own, of test readings "
        "that are dirtied as the training ones are."
    )
    return ResultTable("Beside the oracle", header, lines, note)


def split_by(rows: Sequence[Row], column: str, title: str) -> ResultTable:
    """MAE ÷ the oracle's and the median difference in NLPD, by method and by the values of a column."""
    methods = [str(name) for name in unique(rows, "method") if name != ORACLE]
    lines = []
    for value in unique(rows, column):
        pairs = [_Pairs.of([row for row in rows if row[column] == value], method) for method in methods]
        cells = [f"{_geometric(p.mae):.3f}; {np.median(p.nlpd):+.3f}" if len(p.mae) else MISSING for p in pairs]
        lines.append([str(value), *cells])
    return ResultTable(title, [column, *methods], lines)
