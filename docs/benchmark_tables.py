"""The measured tables of the documentation, made from the result files that benchmarks write with --save.

    python docs/benchmark_tables.py

What a file docs/results/NAME.json says stands in a page between the marks `<!-- results: NAME -->` and
`<!-- end of results -->`, and is never typed. Where there is no such file yet, what stands there is of an earlier run,
and says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
BLOCK = re.compile(r"(?<=<!-- results: )(?P<name>[\w-]+)( -->\n)(?P<text>.*?)(?=<!-- end of results -->)", re.DOTALL)
EARLIER = "*Of an earlier run, typed in.*"
"""The first line of a block that has no result file yet."""

Row = dict[str, Any]


def number(value: float | None, digits: int = 2, sign: str = "") -> str:
    """As the tables have numbers: no zero before the point, a true minus; – where there is none."""
    if value is None:
        return "–"
    if not sign and abs(value) >= 10.0:
        return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"
    text = f"{value:{sign}.{digits}f}".replace("-", "−")
    return re.sub(r"^([+−]?)0\.", r"\1.", text)


def percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines)


def accuracy(rows: list[Row]) -> str:
    """One column per scenario; mean MSE over the oracle's."""
    titles = {"1d": "1D", "friedman": "Friedman"}
    scenarios = sorted({row["scenario"] for row in rows})
    lines = [
        ("oracle", "oracle's MSE", lambda row: number(row["mse"], 4)),
        ("sparse", "`SparseBiasGP`", lambda row: number(row["over_oracle"], 3)),
        ("sparse", "worst replicate", lambda row: number(row["worst"], 3)),
        ("sparse", "NLPD − oracle's", lambda row: number(row["nlpd_less_oracle"], 3, "+")),
        ("cob", "`ConstantBiasGP`", lambda row: number(row["over_oracle"], 3)),
        ("rab", "`RandomBiasGP`", lambda row: number(row["over_oracle"], 3)),
    ]
    by_key = {(row["dataset"], row["scenario"], row["method"]): row for row in rows}
    body = [
        [f"{titles[dataset]}, {name}" if method == "oracle" else name]
        + [shown(by_key[dataset, scenario, method]) for scenario in scenarios]
        for dataset in dict.fromkeys(row["dataset"] for row in rows)
        for method, name, shown in lines
        if (dataset, scenarios[0], method) in by_key
    ]
    sparse = [row for row in rows if row["method"] == "sparse"]
    least = {name: number(min(row[name] for row in sparse), 3) for name in ("precision", "recall")}
    most = number(max(row["over_clean"] for row in sparse), 3)
    return table(["", *(f"s{scenario}" for scenario in scenarios)], body) + (
        f"\n\n`SparseBiasGP`'s `outlier_mask_`: precision ≥ {least['precision']} and recall ≥ {least['recall']} in "
        f"every scenario.\nIts mean MSE is at most {most} times that of a plain GP on the data before the "
        "outliers were added."
    )


def accuracy_in_short(rows: list[Row]) -> str:
    sparse = [row for row in rows if row["method"] == "sparse"]
    low, high = (number(extreme(row["over_oracle"] for row in sparse), 3) for extreme in (min, max))
    worst = number(max(row["worst"] for row in sparse), 3)
    return (
        f"On the paper's {len(sparse)} scenarios (N = 300) the mean squared error of `SparseBiasGP` is {low} to {high} "
        f"times that of a GP\nthat was *told* which readings are outliers, and no single replicate is "
        f"worse than {worst} times."
    )


def speed(rows: list[Row]) -> str:
    """Seconds of the plain GP and ratios within the run."""
    by_key = {(row["data"], row["method"]): row for row in rows}

    def cell(data: str, method: str, figure: str) -> str:
        row = by_key.get((data, method))
        return "–" if row is None else number(row[figure], 1)

    scenarios = [data for data, method in by_key if method == "gp" and " s" in data]
    head = ["N = 300", "`GaussianGP`", "`ConstantBiasGP` ÷ it", "`SparseBiasGP` ÷ it"]
    head += ["scikit-learn ÷ `ConstantBiasGP`", "scikit-learn ÷ `SparseBiasGP`"]
    body = [
        [
            data.replace("1d", "1D").replace("friedman", "Friedman"),
            f"{number(by_key[data, 'gp']['seconds'])} s",
            *(cell(data, method, "over_plain") for method in ("cob", "sparse")),
            *(cell(data, method, "sklearn_over_it") for method in ("cob", "sparse")),
        ]
        for data in scenarios
    ]
    text = table(head, body)
    if ("N = 1,400", "gp") in by_key:
        cob, sparse, plain = (cell("N = 1,400", name, "sklearn_over_it") for name in ("cob", "sparse", "gp"))
        text += (
            f"\n\nN = 1,400, three inputs, exponential kernel: scikit-learn's plain GP takes {cob} times as long as "
            f"`ConstantBiasGP`,\n{sparse} times as long as `SparseBiasGP` and {plain} times as long as `GaussianGP`."
        )
    if ("import", "biasgp.estimators") in by_key:
        ratio = 1.0 / by_key["import", "biasgp.estimators"]["sklearn_over_it"]
        text += f" Importing the\nestimators takes {number(ratio)} times as long as `import sklearn.gaussian_process`."
    return text


def stress(rows: list[Row]) -> str:
    head = ["data", "draws", "÷ oracle's", "worst", "÷ the better of plain and COB", "NLPD − the plain GP's"]
    body = [
        [
            row["data"],
            str(row["replicates"]),
            *(number(row[name], 3) for name in ("over_oracle", "worst", "over_others")),
            number(row["nlpd"], 3, "+"),
            percent(row["flagged"]),
            str(row["warned"]),
            str(row["silent"]),
        ]
        for row in rows
    ]
    return table([*head, "flagged", "condemned", "bad and not condemned"], body)


def shapes(rows: list[Row]) -> str:
    """A table per part."""
    others = {"over_cob": "÷ `cob`", "over_rab": "÷ `rab`", "over_ep": "÷ `ep`"}
    titles = {
        "many": "many outliers on one side: MSE of f",
        "sizes": "outliers of all sizes: RMSE of f",
        "few": "few readings of many inputs: RMSE of f",
        "two-sided": "outliers on both sides: MSE",
        "tables": "real tables: mean absolute error",
        "stress": "the draws of `stress.py`: MSE",
    }
    texts = []
    for part in dict.fromkeys(row["part"] for row in rows):
        here = [row for row in rows if row["part"] == part]
        shown = [name for name in others if name in here[0]]
        body = [
            [
                row["row"],
                str(row["draws"]),
                *(number(row[name]) for name in ("over_oracle", "worst", *shown)),
                *(str(row[name]) for name in ("bad", "silent", "condemned")),
            ]
            for row in here
        ]
        head = [titles[part], "draws", "÷ oracle's", "worst", *(others[name] for name in shown)]
        texts.append(table([*head, "bad", "bad and not condemned", "condemned"], body))
    fits, bad = sum(row["draws"] for row in rows), sum(row["bad"] for row in rows)
    condemned, silent = (sum(row[name] for row in rows) for name in ("condemned", "silent"))
    texts.append(f"Of all {fits:,} fits {bad} are bad, and {condemned} are condemned; {bad - silent} are both.")
    return "\n\n".join(texts)


def calibration(rows: list[Row]) -> str:
    body = [
        [
            f"{row['readings']:,}",
            *(number(row[name], 3) for name in ("probability", "outliers")),
            f"± {number(row['error'], 3)}",
        ]
        for row in rows
        if row["readings"]
    ]
    return table(["readings", "their mean probability", "share that are outliers", "standard error"], body)


def student_t(rows: list[Row]) -> str:
    cases = [row for row in rows if "mse" in row]
    head = ["data set", "MSE ÷ GPstuff's", "NLPD − GPstuff's", "with the t's scale²", "exact NLPD − GPstuff's"]
    body = [
        [
            row["data"],
            number(row["mse_over_theirs"], 3),
            *(
                number(row[name], 3, "+")
                for name in ("nlpd_less_theirs", "nlpd_less_theirs_with_scale", "exact_nlpd_less_theirs")
            ),
            f"{number(row['speed_up'], 1)} ×",
        ]
        for row in cases
    ]
    together, told = (next(row for row in rows if name in row["data"]) for name in ("all four", "convergence"))
    return table([*head, "speed at equal cost of a plain GP"], body) + (
        f"\n\nOn the four Friedman sets together it is {number(together['speed_up'], 1)} times as fast; "
        f"{told['converged']} of {told['fits']} fits of the 16 scenarios converge."
    )


def memory(rows: list[Row]) -> str:
    body = [[f"`{row['method']}`", row["kernel"], f"{row['n']:,}", number(row["arrays"], 1)] for row in rows]
    return table(["", "kernel", "N", "peak over the baseline, in N×N arrays of doubles"], body)


def faults(rows: list[Row]) -> str:
    """Series with faults of one sensor."""
    head = ["series", "draws", "MSE of f ÷ oracle's", "within 1.25 times", "or all faults named", "both ends found"]
    body = [
        [
            row["row"],
            str(row["series"]),
            number(row["over_oracle"]),
            *(percent(row[name]) for name in ("within", "or_named", "ends", "flagged", "inside")),
            str(row["episodes"]),
            number(row["time"], 1),
        ]
        for row in rows
        if "ends" in row
    ]
    more = ["faulty readings flagged", "f inside its band there", "series with an episode", "time ÷ without episodes"]
    return table([*head, *more], body)


def faults_together(rows: list[Row]) -> str:
    """Co-located sensors, one of which drifts."""
    head = ["", "draws", "RMSE of y − `bias_` of that sensor against f, in σ", "the worst"]
    head += ["RMSE of f ÷ that of a GP told to leave the sensor out", "f inside its 95 % band", "time"]
    body = [
        [
            row["row"],
            str(row["series"]),
            *(number(row[name]) for name in ("drifting", "worst", "f_over_oracle")),
            percent(row["inside"]),
            f"{number(row['seconds'], 1)} s",
        ]
        for row in rows
        if "drifting" in row
    ]
    return table(head, body)


def figures(rows: list[Row]) -> str:
    """Figures that the benchmark has in words."""
    return table(["figure", "measured"], [[row["figure"], row["value"]] for row in rows])


TABLES: dict[str, Callable[[list[Row]], str]] = {
    "accuracy": accuracy,
    "accuracy-in-short": accuracy_in_short,
    "speed": speed,
    "stress": stress,
    "shapes": shapes,
    "shapes-sizes": shapes,
    "calibration": calibration,
    "student-t": student_t,
    "memory": memory,
    "faults": faults,
    "faults-together": faults_together,
    "state-space": figures,
    "large": figures,
}
"""By the name of the block, which is that of its result file as a rule."""
FILES = {"accuracy-in-short": "accuracy", "faults-together": "faults"}
"""Of blocks that have none of their own."""
IN_SHORT = {"accuracy-in-short"}
"""Sentences, which do not say where they are from: the page that they lead to does."""


def rendered(name: str, result: dict[str, Any]) -> str:
    """What stands in a page for a result file: the command, the version, of how many runs, and the tables."""
    if name in IN_SHORT:
        return f"{TABLES[name](result['rows'])}\n"
    made = f"Made by `{result['made_by']}` with biasgp {result['version']} ({result['machine']})."
    if result.get("size"):
        made += f" It is of {result['size']}."
    return f"{made}\n\n{TABLES[name](result['rows'])}\n"


def in_step(page: str, results: Path) -> str:
    """The text of a page with its blocks as the result files have them; one without a file says that it is typed."""

    def block(match: re.Match[str]) -> str:
        name, text = match["name"], match["text"]
        file = results / f"{FILES.get(name, name)}.json"
        if file.exists():
            text = rendered(name, json.loads(file.read_text(encoding="utf-8")))
        elif name not in IN_SHORT and not text.startswith(EARLIER):
            text = f"{EARLIER}\n\n{text}"
        return f"{name} -->\n{text}"

    return BLOCK.sub(block, page)


def pages() -> list[Path]:
    texts = [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]
    return [page for page in texts if BLOCK.search(page.read_text(encoding="utf-8"))]


def main() -> None:
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = in_step(before, DOCS / "results")
        if after != before:
            page.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
