"""Kernels as text: what each construct means, and how everything else is refused."""

from __future__ import annotations

import time

import numpy as np
import pytest

from biasgp.kernels import (
    Constant,
    Exponential,
    Linear,
    Matern32,
    Matern52,
    Periodic,
    Same,
    SquaredExponential,
    parse,
)
from biasgp.kernels.language import MAX_DEPTH, MAX_KERNELS, MAX_LENGTH

MEANINGS = {
    "matern32(time) + periodic(time, 1d) + linear(temperature)": Matern32().on("time")
    + Periodic(period="1d").on("time")
    + Linear().on("temperature"),
    "exponential(x)": Exponential().on("x"),
    "matern52(x, 3)": Matern52(length_scale=3.0).on("x"),
    "se(x, y, ard=True)": SquaredExponential(ard=True).on("x", "y"),
    "squared_exponential()": SquaredExponential(),
    "Matern32(x)": Matern32().on("x"),
    "matern32": Matern32(ard=True),
    "matern32 + linear": Matern32(ard=True) + Linear(ard=True),
    "matern32(time, length_scale=1d 12h, variance=2e-1)": Matern32(length_scale="1d 12h", variance=0.2).on("time"),
    "periodic(time, period=24h, fixed=period)": Periodic(period="24h").on("time").fix("period"),
    "periodic(time, 1d, variance=2, fixed=(period, variance))": Periodic(period="1d", variance=2.0)
    .on("time")
    .fix("period", "variance"),
    "matern32(`my column`, 'T (°C)')": Matern32().on("my column", "T (°C)"),
    "matern32(`a``b`)": Matern32().on("a`b"),
    "linear(x, center=-3)": Linear(center=(-3.0,)).on("x"),
    "matern32(columns=(0, 2), length_scale=(1, 2))": Matern32(length_scale=(1.0, 2.0), ard=True).on(0, 2),
    "matern32(t) * same(sensor)": Matern32().on("t") * Same("sensor"),
    "same(sensor, variance=(1, 2))": Same("sensor", variance=(1.0, 2.0)),
    "matern32(a) + matern32(b) * linear(c)": Matern32().on("a") + Matern32().on("b") * Linear().on("c"),
    "(matern32(a) + constant(variance=4)) * linear(c)": (Matern32().on("a") + Constant(variance=4.0))
    * Linear().on("c"),
}


@pytest.mark.parametrize("text", MEANINGS)
def test_a_text_means_a_kernel(text):
    assert parse(text) == MEANINGS[text]


@pytest.mark.parametrize("kernel", [each for each in MEANINGS.values() if "fixed" not in repr(each)], ids=repr)
def test_what_is_shown_of_a_kernel_can_be_parsed(kernel):
    assert repr(parse(repr(kernel))) == repr(kernel)


def test_a_fitted_kernel_can_be_parsed_to_the_digits_that_it_shows():
    X = np.random.default_rng(0).uniform(size=(20, 2))
    bound = (Matern32(ard=True) + Periodic(period=0.25).on(0) + Linear().on(1)).bind(X)
    np.testing.assert_allclose(parse(repr(bound)).theta, bound.theta, atol=1e-3)


REFUSED = {
    "": "nothing in it",
    "   ": "nothing in it",
    "foo(x)": "character 1, 'foo': this is no kernel; there is exponential",
    "matern32(x) + foo": "character 15, 'foo'",
    "matern32(time": "character 14, the end: a comma or a closing parenthesis",
    "(matern32(x)": "parenthesis of character 1 is not closed",
    "matern32(x))": "character 12, '\\)': a kernel ends",
    "matern32(x) linear(x)": "character 13, 'linear': a kernel ends before this",
    "matern32(x) * ": "the end: this is no kernel",
    "3 * matern32(x)": "character 1, '3': this is no kernel",
    "matern32(x) + 3": "Write constant",
    "matern32(x, 3 parsecs)": "'3 parsecs' is not a duration",
    "matern32(x, length_scale=-1)": "must be positive",
    "matern32(x, variance=1h)": "variance must be a number, not a duration",
    "matern32(x, 1, 2)": "character 16, '2': this value needs its name",
    "matern32(x, width=3)": "character 13, 'width': Matern32 has no such argument; it has length_scale",
    "matern32(x, variance=1, variance=2)": "character 25, 'variance': this has a value already",
    "matern32(x, variance=1, y)": "columns come before values",
    "matern32(x, columns=y)": "given twice",
    "matern32(columns=1.5)": "a whole number",
    "matern32(x, ard=3)": "ard must be True or False",
    "matern32(x, variance=True)": "must be a number",
    "matern32(x, fixed=variance)": "give variance a value before fixing it",
    "matern32(x, 3, fixed=period)": "has no parameter 'period'",
    "matern32(x; y)": "character 11, ';'",
    "matern32('x)": "It is not closed",
    "constant(x)": "a constant has no columns",
    "same()": "Same needs the column",
    "__import__('os').system('true')": "character 17, '.': this has no meaning",
    "__import__('os')": "'__import__': this is no kernel",
    "matern32(x, length_scale=nan)": "a number or a duration",
    "matern32(x, length_scale=1e999)": "must be positive and finite",
    "matern32(x, length_scale=(1, ": "the end",
    "\x1b[31m(x)": "character 1, '�'",
    "(" * (MAX_DEPTH + 1) + "matern32(x)": f"more than {MAX_DEPTH} levels",
    "+".join(["matern32(x)"] * (MAX_KERNELS + 1)): f"more than {MAX_KERNELS} kernels",
    "x" * (MAX_LENGTH + 1): f"at most {MAX_LENGTH:,}",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:30])
def test_what_is_no_kernel_is_refused_with_its_place(text):
    with pytest.raises(ValueError, match=REFUSED[text]) as caught:
        parse(text)
    assert str(caught.value).startswith("kernel") and str(caught.value).isprintable()


def test_no_text_takes_long():
    for piece in ("1", "1e", "1d ", "`", "((", "a.", "1 1d", "matern32(x,1d", "''"):
        began = time.perf_counter()
        with pytest.raises(ValueError, match="kernel"):
            parse((piece * MAX_LENGTH)[:MAX_LENGTH])
        assert time.perf_counter() - began < 0.5


def test_only_text_is_parsed():
    with pytest.raises(ValueError, match="must be text, got Matern32"):
        parse(Matern32())


def test_a_kernel_in_other_units_is_the_same_function():
    rng = np.random.default_rng(0)
    X, units = rng.uniform(0.0, 1e5, size=(12, 2)), np.array([3600.0, 1.0])
    text = (
        "matern32(a, 6h, variance=2) * se(a, b, length_scale=(1d, 3e4)) + periodic(a, 1d) + linear(a, 1e-9, center=3e3)"
    )
    seconds = parse(text).in_seconds([True, False], ["a", "b"])
    hours = seconds.in_units(units, ["a", "b"])
    np.testing.assert_allclose(hours.bind(X / units, ["a", "b"])(X / units), seconds.bind(X, ["a", "b"])(X), rtol=1e-9)
    with pytest.raises(ValueError, match="columns of different units"):
        parse("se(a, b, 3)").in_units(units, ["a", "b"])
