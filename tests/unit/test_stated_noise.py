"""`--noise`: what a data sheet states, as text."""

from __future__ import annotations

import numpy as np
import pytest

from biasgp.analysis.noise import StatedNoise
from biasgp.messages import WrongUseError

MEANT = {
    "0.2": (0.0, 0.2),
    " .5 ": (0.0, 0.5),
    "2%": (0.02, 0.0),
    "2% + 0.1": (0.02, 0.1),
    "0.1+2 %": (0.02, 0.1),
    "1e-3": (0.0, 1e-3),
    "1% + 1% + 1 + 1": (0.02, 2.0),
}


@pytest.mark.parametrize("text", MEANT)
def test_a_text_means_a_noise(text):
    assert StatedNoise.parse(text) == pytest.approx(StatedNoise(*MEANT[text])) or StatedNoise.parse(
        text
    ) == StatedNoise(*MEANT[text])


@pytest.mark.parametrize(
    "text", ["", "a", "-1", "2% 0.1", "0", "0% + 0", "1e999", "%", "0.1 +", "nan", "1" * 300, "1,5"]
)
def test_what_is_no_noise_is_refused(text):
    with pytest.raises(WrongUseError, match=r"--noise .*Write one standard deviation"):
        StatedNoise.parse(text)


def test_an_outlier_does_not_excuse_itself():
    y = np.append(np.linspace(10.0, 20.0, 100), [1e4, np.nan])
    variances = StatedNoise(0.02, 0.1).variances(y)
    np.testing.assert_allclose(variances[50], (0.02 * y[50] + 0.1) ** 2)
    assert variances[100] < 0.6**2 and np.isnan(variances[101])
