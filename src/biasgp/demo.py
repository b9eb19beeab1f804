"""`make demo`: a robust fit of the simulated campaign's ozone, its summary in the terminal, its report as a page."""

from __future__ import annotations

import argparse
import html
import io
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from biasgp import SparseBiasGP, UntrustworthyFitWarning, metrics
from biasgp._typing import Array
from biasgp.data import Campaign, campaign
from biasgp.kernels import Exponential

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Ozone campaign: which readings lie</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }}
svg {{ width: 100%; height: auto }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums }}
th, td {{ padding: .2rem .9rem; text-align: right; border-bottom: 1px solid #ddd }}
</style></head><body>
<h1>Ozone campaign: which readings lie, and by how much</h1>
<p>{summary}</p>
{figure}
<h2>Flagged readings</h2>
<table><tr><th>hour</th><th>reading (ppb)</th><th>estimated truth (ppb)</th><th>estimated bias (ppb)</th>
<th>probability</th></tr>
{rows}
</table></body></html>
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit, print, and write DIR/report.html."""
    parser = argparse.ArgumentParser(prog="python -m biasgp.demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for report.html (default: demo)")
    out: Path = parser.parse_args(arguments).out
    data = campaign()
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustworthyFitWarning)  # the summary has them
        model = SparseBiasGP(Exponential(ard=True)).fit(data.X, data.o3.y)
    mean, std = model.predict(data.X, return_std=True)
    summary = _summary(data, model, mean, time.perf_counter() - began)
    print("\n".join(summary))
    out.mkdir(parents=True, exist_ok=True)
    page = out / "report.html"
    page.write_text(_page(data, model, mean, std, summary), encoding="utf-8")
    print(f"The report is in {page}")


def _summary(data: Campaign, model: SparseBiasGP, mean: Array, seconds: float) -> list[str]:
    flagged, gas = model.outlier_mask_, data.o3
    return [
        f"{len(gas.y)} simulated ozone readings over three months, {int(gas.is_outlier.sum())} of them false.",
        f"Fitted in {seconds:.1f} s. Noise of a reading: {np.sqrt(model.noise_variance_):.2f} ppb.",
        f"Flagged {int(flagged.sum())} readings: precision {metrics.precision(gas.is_outlier, flagged):.2f}, "
        f"recall {metrics.recall(gas.is_outlier, flagged):.2f}. "
        f"Their estimated bias: {model.bias_[flagged].min():.1f} to {model.bias_[flagged].max():.1f} ppb"
        + (", and their values have nothing to do with the ozone: they were replaced." if model.replaced_ else "."),
        f"Error of the curve against the truth: {np.sqrt(metrics.mse(gas.f, mean)):.2f} ppb (root mean square).",
        *(f"Note: {reason}" for reason in model.diagnosis_),
    ]


def _page(data: Campaign, model: SparseBiasGP, mean: Array, std: Array, summary: list[str]) -> str:
    flagged = [
        (f"{data.X[i, 0]:.0f}", f"{data.o3.y[i]:.1f}", f"{mean[i]:.1f}", *_verdict(model, i))
        for i in np.flatnonzero(model.outlier_mask_).tolist()
    ]
    rows = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in flagged)
    figure = _figure(data.X[:, 0], data.o3.y, mean, std, model)
    return PAGE.format(summary="<br>".join(html.escape(line) for line in summary), figure=figure, rows=rows)


def _verdict(model: SparseBiasGP, i: int) -> tuple[str, str]:
    return f"{model.bias_[i]:+.1f} ± {model.bias_std_[i]:.1f}", f"{model.outlier_probability_[i]:.2f}"


def _figure(hours: Array, y: Array, mean: Array, std: Array, model: SparseBiasGP) -> str:
    """Readings, curve with its 95 % band, and flagged readings; the biases below. As SVG."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, (top, bottom) = plt.subplots(2, 1, figsize=(10, 6), sharex=True, height_ratios=(3, 1))
    days, flagged = hours / 24.0, model.outlier_mask_
    top.plot(days[~flagged], y[~flagged], ".", ms=3, color="0.6", label="readings")
    top.fill_between(days, mean - 1.96 * std, mean + 1.96 * std, color="C0", alpha=0.3, lw=0, label="95 % band of f")
    top.plot(days, mean, color="C0", lw=1, label="estimated truth")
    top.plot(days[flagged], y[flagged], "x", color="C3", ms=5, label="flagged")
    top.set_ylabel("O₃ (ppb)")
    top.legend(ncols=4, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.12))
    bottom.vlines(days, 0.0, model.bias_, color="C3", lw=1)
    bottom.set(xlabel="days since the start", ylabel="bias (ppb)")
    figure.tight_layout()
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    plt.close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


if __name__ == "__main__":
    main()
