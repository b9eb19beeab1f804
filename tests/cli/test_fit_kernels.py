"""`biasgp fit --kernel`: kernels as text, and the one that is chosen by evidence."""

from __future__ import annotations

import json

import pytest

from conftest import FEATURES, OUTLIERS


def test_a_kernel_of_columns(run, readings, tmp_path):
    text = "matern32(time, 6h) + periodic(time, 1d, fixed=period) + linear(temperature_c)"
    result = run("fit", readings, *FEATURES, "--kernel", text, "--response", "identity", "--out", "o")
    assert result.exit_code == 0, result.output
    assert "temperature_c: has no length-scale in this kernel" in result.output
    summary = json.loads((tmp_path / "o" / "summary.json").read_text(encoding="utf-8"))
    assert "period=24)" in summary["kernel"] and "Linear" in summary["kernel"]  # hours, which times are counted in
    assert text in summary["command"] and summary["varies_over"]["temperature_c"] is None
    assert [reading["row"] - 1 for reading in summary["flagged"]] == list(OUTLIERS)


@pytest.mark.parametrize(
    "text, words",
    {
        "matern32(time": "--kernel, character 14",
        "matern32(nope)": "asks for column 'nope', but X has 'time', 'temperature_c'",
        "matern32(temperature_c, 6h)": "column 'temperature_c' of X holds no times",
        "matern32(time) * same(note)": "--together",
        "matern32(time, temperature_c, 3)": "columns of different units",
    }.items(),
)
def test_a_kernel_that_cannot_be_is_refused_in_a_line(run, readings, text, words):
    result = run("fit", readings, *FEATURES, "--kernel", text)
    assert result.exit_code == 2 and words in result.output and "Traceback" not in result.output
