"""Displays draw what the fit found, in colours that everybody tells apart, and look as they did."""

from __future__ import annotations

import itertools
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from display_samples import BASELINE, displays, rendered
from matplotlib.colors import to_hex, to_rgb
from matplotlib.image import imread
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from biasgp import ConstantBiasGP, GaussianGP, ScaleMixtureGP, SparseBiasGP, palette
from biasgp.data import simulate
from biasgp.kernels import Matern32
from biasgp.plot import CalibrationDisplay, FitDisplay, OutlierDisplay, ResidualDisplay, TraceDisplay

mpl.use("agg")
pytestmark = pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")
TOLERANCE = 0.02
"""Root of the mean squared difference of two pictures, whose numbers go from 0 to 1. A line of another colour, or one
that is moved by two pixels, is beyond it; other anti-aliasing is not."""
COLOURS = {getattr(palette, name).lower() for name in dir(palette) if name.isupper()}


@pytest.fixture(autouse=True)
def closed():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module")
def model(one_d):
    return SparseBiasGP().fit(one_d.X, one_d.y)


@pytest.fixture(scope="module")
def in_time():
    """A wave read each hour with a shift of a day and one spike."""
    rng, t = np.random.default_rng(3), np.arange(100.0)
    y = np.sin(t / 12.0) + 0.05 * rng.standard_normal(100)
    y[20] += 4.0
    y[50:74] += 2.0
    X = pd.DataFrame({"time": pd.date_range("2026-06-01", periods=100, freq="1h")})
    return SparseBiasGP(Matern32()).fit(X, y)


def difference(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.sqrt(np.mean((one - other) ** 2)))


@pytest.mark.parametrize("name", displays())
def test_pictures_look_as_they_did(name):
    assert difference(rendered(displays()[name]), imread(BASELINE / f"{name}.png")[:, :, :3]) < TOLERANCE


def test_the_comparison_sees_a_change():
    for change in ({"curve": np.cos(np.linspace(0.0, 10.0, 60))}, {"flagged": np.zeros(60, dtype=bool)}):
        display = displays()["fit"]
        vars(display).update(change)
        assert difference(rendered(display), imread(BASELINE / "fit.png")[:, :, :3]) > TOLERANCE


def seen_by_deuteranopes(colour: str) -> np.ndarray:
    """Machado, Oliveira and Fernandes (2009), severity 1; in linear RGB."""
    matrix = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    rgb = np.array(to_rgb(colour))
    return np.array(matrix) @ np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def test_colours_are_those_of_the_report_and_told_apart_by_the_colour_blind():
    main = [palette.BLUE, palette.ORANGE, palette.GREY]
    for one, other in itertools.combinations(main, 2):
        assert np.linalg.norm(seen_by_deuteranopes(one) - seen_by_deuteranopes(other)) > 0.15
    # Red and green of the same lightness are not.
    assert np.linalg.norm(seen_by_deuteranopes("#c00000") - seen_by_deuteranopes("#407000")) < 0.15
    for display in displays().values():
        rendered(display)
        for axis in getattr(display, "axes_", [display.ax_]):
            drawn = [to_hex(line.get_color()) for line in axis.lines]
            drawn += [to_hex(patch.get_facecolor()) for patch in axis.patches]
            drawn += [to_hex(part.get_facecolor()[0]) for part in axis.collections if len(part.get_facecolor())]
            assert set(drawn) <= COLOURS


def test_a_fit_is_drawn_as_it_predicts(model, one_d):
    display = model.plot()
    assert isinstance(display, FitDisplay)
    assert display.figure_ is display.ax_.figure
    grid = display.curve_x[:, None]
    mean, std = model.predict(grid, return_std=True)
    assert_allclose(display.curve, mean, rtol=1e-8)
    assert_allclose(display.high - display.low, 2 * 1.959964 * std, rtol=1e-6)
    assert display.curve_x[0] < one_d.X.min() < one_d.X.max() < display.curve_x[-1]
    lines = {line.get_label(): line.get_xydata() for line in display.ax_.lines}
    assert_array_equal(lines["flagged"], np.column_stack([one_d.X[:, 0], one_d.y])[model.outlier_mask_])
    assert len(lines["readings"]) + len(lines["flagged"]) == 60


def test_quantiles_of_a_transformed_response_are_drawn(one_d):
    model = GaussianGP(response="yeo-johnson").fit(one_d.X, one_d.y)
    display = FitDisplay.from_estimator(model)
    low, median, high = model.predict_quantiles(display.curve_x[:, None], [0.025, 0.5, 0.975]).T
    for drawn, expected in ((display.low, low), (display.curve, median), (display.high, high)):
        assert_allclose(drawn, expected, rtol=1e-8)


def test_times_and_episodes_are_drawn_as_times(in_time):
    display = in_time.plot()
    assert display.x.dtype.kind == display.curve_x.dtype.kind == "M"
    assert [kind for kind, _, _ in display.episodes] == [each.kind for each in in_time.episodes_] == ["shift"]
    assert display.episodes[0][1] == np.datetime64(in_time.episodes_[0].start)
    assert display.ax_.get_xlabel() == "time"
    assert len(display.ax_.patches) == 1
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["shift", "95 % band of f", "readings", "estimated truth", "flagged"]


def test_one_of_several_inputs_has_to_be_named():
    data = simulate("friedman", 1, n=40, n_test=5)
    X = pd.DataFrame(data.X[:, :3], columns=["a", "b", "c"])
    model = ConstantBiasGP().fit(X, data.y)
    with pytest.raises(ValueError, match="several inputs: say with column= which to draw over, one of 'a', 'b', 'c'"):
        model.plot()
    with pytest.raises(ValueError, match="'d' is no column"):
        model.plot("d")
    display = model.plot("b")
    assert display.label == "b"
    assert_array_equal(display.curve_x, np.sort(X["b"]))
    assert_allclose(display.curve, model.predict(X.sort_values("b")), rtol=1e-8)


def test_outliers_are_drawn_with_their_errors(model):
    display = OutlierDisplay.from_estimator(model)
    assert_array_equal(display.bias, model.bias_[model.outlier_mask_])
    assert_allclose(display.half_width, 1.959964 * model.bias_std_[model.outlier_mask_], rtol=1e-6)
    with pytest.raises(ValueError, match="GaussianGP looks for no outliers"):
        OutlierDisplay.from_estimator(GaussianGP().fit(np.arange(9.0)[:, None], np.arange(9.0) ** 2))


def test_residuals_are_those_of_readings_left_out(one_d):
    model = GaussianGP().fit(one_d.X, one_d.y, np.full(60, 0.2))
    display = ResidualDisplay.from_estimator(model)
    # The same model, with its parameters held, without the first reading.
    fixed = GaussianGP(model.kernel_).fit(one_d.X, one_d.y, np.full(60, 0.2))
    K = fixed.kernel_(one_d.X) + np.eye(60) * (fixed.noise_variance_ + 0.2)
    center = fixed._scaling.center
    weights = np.linalg.solve(K[1:, 1:], K[1:, 0])
    mean = center + weights @ (one_d.y[1:] - center)
    std = np.sqrt(K[0, 0] - weights @ K[1:, 0])
    assert ResidualDisplay.from_estimator(fixed).residual[0] == pytest.approx((one_d.y[0] - mean) / std, rel=1e-6)
    assert len(display.residual) == 60


def test_residuals_of_new_readings_leave_out_those_that_are_outliers(model, one_d):
    y = one_d.y_test.copy()
    y[3] += 50.0
    display = ResidualDisplay.from_estimator(model, one_d.X_test, y)
    assert len(display.residual) == (model.outlier_probability(one_d.X_test, y) <= 0.5).sum() < 40
    with pytest.raises(ValueError, match="Give X and y"):
        ResidualDisplay.from_estimator(model, one_d.X_test)


def test_coverage_is_that_of_intervals_of_readings(model, one_d):
    display = CalibrationDisplay.from_estimator(model, one_d.X_test, one_d.y_test)
    mean, std = model.predict(one_d.X_test, return_std=True, include_noise=True)
    good = model.outlier_probability(one_d.X_test, one_d.y_test) <= 0.5
    inside = np.abs(one_d.y_test - mean)[good] <= 1.959964 * std[good]
    assert display.coverage[list(display.levels).index(0.95)] == pytest.approx(inside.mean())


def test_chains_are_drawn_one_axes_per_parameter(model, one_d):
    sampled = ScaleMixtureGP(draws=8, tune=8, chains=2).fit(one_d.X[:30], one_d.y[:30])
    display = TraceDisplay.from_estimator(sampled)
    assert [axis.get_ylabel() for axis in display.axes_] == list(sampled.draws_)
    for axis, chains in zip(display.axes_, sampled.draws_.values(), strict=True):
        assert_array_equal([line.get_ydata() for line in axis.lines], chains)
    assert display.axes_[-1].get_title() == f"R̂ = {list(sampled.r_hat_.values())[-1]:.3f}"
    one = TraceDisplay.from_estimator(sampled, ["degrees_of_freedom"])
    assert one.plot(ax=one.ax_).axes_ == [one.ax_]
    with pytest.raises(ValueError, match=f"ax must be {len(sampled.draws_)} axes, got 1"):
        display.plot(ax=one.ax_)
    with pytest.raises(ValueError, match=r"some of .*'scale2'.*, got \['mu'\]"):
        TraceDisplay.from_estimator(sampled, ["mu"])
    with pytest.raises(ValueError, match="SparseBiasGP has no chains"):
        TraceDisplay.from_estimator(model)


def test_pictures_want_a_fit_and_name_the_extra(model, monkeypatch):
    with pytest.raises(NotFittedError):
        SparseBiasGP().plot()
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'biasgp\[plot\]'"):
        model.plot()


def test_notebooks_show_what_came_of_a_fit(in_time):
    html = in_time._repr_html_()
    assert "too high for 23 h from 2026-06-03 02:00" in html
    assert "100 readings, 25 flagged, noise 0.05" in html
    summary = html[html.index('<div class="biasgp-fit">') :]
    assert summary.count("<tr>") == 2  # the one outlier that is in no episode
    assert in_time._repr_mimebundle_()["text/html"].endswith(summary)
    assert "biasgp-fit" not in SparseBiasGP()._repr_html_()


def test_texts_from_a_table_are_shown_as_text(model):
    from biasgp.estimators.notebook import summary_html
    from biasgp.models.diagnosis import Finding

    hostile = SparseBiasGP()
    vars(hostile).update(vars(model), diagnosis_=(Finding("ambiguous", "<script>alert(1)</script>"),))
    assert "<script>" not in summary_html(hostile)
    assert "&lt;script&gt;" in summary_html(hostile)
