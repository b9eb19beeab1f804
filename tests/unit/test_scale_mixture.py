"""ScaleMixtureGP: what it reports of its draws, and what it refuses."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from scipy.stats import t as student

from biasgp import InterruptedWarning, MixingWarning
from biasgp.data import simulate
from biasgp.estimators.scale_mixture import ScaleMixtureGP
from biasgp.kernels import SquaredExponential
from biasgp.models import scale_mixture
from biasgp.models.mixture_steps import Chain
from biasgp.models.t_noise import StudentT

CHEAP = {"draws": 60, "tune": 60, "chains": 2}


@pytest.fixture(scope="module")
def data():
    return simulate("1d", 8, n=100, n_test=50, random_state=4)


@pytest.fixture(scope="module")
def fitted(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)
        return ScaleMixtureGP(**CHEAP).fit(data.X, data.y)


def test_outliers_are_found(fitted, data):
    assert_array_equal(fitted.outlier_mask_, data.is_outlier)
    assert np.all((fitted.outlier_probability_ >= 0) & (fitted.outlier_probability_ <= 1))
    assert fitted.weights_[data.is_outlier].max() < 0.2 < np.median(fitted.weights_[~data.is_outlier])
    assert_allclose(fitted.bias_[data.is_outlier], (data.y - data.f)[data.is_outlier], atol=0.8)
    assert np.median(np.abs(fitted.bias_[~data.is_outlier])) < 0.05
    assert np.mean((fitted.predict(data.X_test) - data.f_test) ** 2) < 0.06


def test_draws_are_of_every_parameter_in_the_units_of_y(fitted, data):
    names = {"variance", "length_scale[0]", "scale2", "degrees_of_freedom"}
    assert names == set(fitted.draws_) == set(fitted.r_hat_) == set(fitted.effective_sample_size_)
    assert all(values.shape == (2, 60) for values in fitted.draws_.values())
    assert fitted.scale_**2 == pytest.approx(fitted.draws_["scale2"].mean())
    assert fitted.kernel_.variance == pytest.approx(np.exp(np.log(fitted.draws_["variance"]).mean()))
    assert fitted.degrees_of_freedom_ == pytest.approx(np.median(fitted.draws_["degrees_of_freedom"]), rel=1e-3)
    assert 0.3 < np.sqrt(fitted.noise_variance_) < 0.6
    assert fitted.n_iter_ == 60


def test_moments_are_those_of_the_mixture_of_draws(fitted, data):
    draws = fitted._posterior
    pairs = [posterior.mean_and_variance(data.X_test) for posterior in draws.each()]
    means, variances = np.array([m for m, _ in pairs]), np.array([v for _, v in pairs])
    assert_allclose(draws.mean(data.X_test), means.mean(axis=0))
    mean, variance = draws.mean_and_variance(data.X_test)
    assert_allclose(variance, variances.mean(axis=0) + means.var(axis=0))
    assert np.all(variance > variances.mean(axis=0))
    same, covariance = draws.mean_and_covariance(data.X_test)
    assert_allclose(same, mean)
    assert_allclose(covariance.diagonal(), variance, rtol=1e-6)
    assert np.linalg.eigvalsh(covariance).min() > -1e-8
    noisy = fitted.predict(data.X_test, return_std=True, include_noise=True)[1]
    quiet = fitted.predict(data.X_test, return_std=True)[1]
    assert_allclose(noisy**2, quiet**2 + fitted.noise_variance_)
    cores = [
        StudentT(*pair).core_variance
        for pair in zip(fitted.draws_["scale2"].flat, fitted.draws_["degrees_of_freedom"].flat, strict=True)
    ]
    assert fitted.noise_variance_ == pytest.approx(np.mean(cores))


def test_predictive_density_is_the_mixture_and_one_in_all(fitted, data):
    x = data.X_test[:1]
    draws, scales2, nus = fitted._draws
    scale, center = fitted._scaling.scale, fitted._scaling.center
    for y in (fitted.predict(x)[0], fitted.predict(x)[0] + 4.0):
        total = 0.0
        for posterior, scale2, nu in zip(draws.each(), scales2, nus, strict=True):
            mean, variance = posterior.mean_and_variance(x)
            f = mean + np.sqrt(variance) * np.linspace(-9, 9, 2001)
            joint = norm.pdf(f, mean, np.sqrt(variance)) * student.pdf(
                (y - center) / scale - f, nu, scale=np.sqrt(scale2)
            )
            total += np.trapezoid(joint, f) / scale
        assert_allclose(fitted.log_predictive_density(x, [y]), np.log(total / len(nus)), atol=1e-5)
    y = fitted.predict(x)[0] + np.sinh(np.linspace(-14, 14, 1001))
    density = np.exp(fitted.log_predictive_density(np.repeat(x, len(y), axis=0), y))
    assert_allclose(np.trapezoid(density, y), 1.0, atol=0.01)


def test_state_kept_for_predictions_is_that_of_the_parameters_kept(fitted):
    draws, scales2, nus = fitted._draws
    stride = max(1, CHEAP["draws"] * CHEAP["chains"] // scale_mixture.Plan.kept)
    expected = fitted.draws_["degrees_of_freedom"][:, ::stride]
    assert_allclose(nus, expected.T.ravel())
    lengths = fitted.draws_["length_scale[0]"][:, ::stride].T.ravel()
    assert_allclose(np.exp(draws.thetas[:, 1]), lengths)
    assert_allclose(scales2 * fitted._scaling.scale**2, fitted.draws_["scale2"][:, ::stride].T.ravel())
    posterior = next(draws.each())
    assert_allclose(posterior.alpha, draws.alphas[0], rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore::biasgp.MixingWarning")
class TestFits:
    quick = staticmethod(lambda **changes: ScaleMixtureGP(**({"draws": 10, "tune": 8, "chains": 2} | changes)))

    def test_same_seed_same_bits_another_seed_others(self, one_d):
        first, second = (self.quick().fit(one_d.X, one_d.y) for _ in range(2))
        assert_array_equal(first.draws_["variance"], second.draws_["variance"])
        assert_array_equal(first.predict(one_d.X_test), second.predict(one_d.X_test))
        other = self.quick(random_state=1).fit(one_d.X, one_d.y)
        assert np.all(other.draws_["variance"] != first.draws_["variance"])
        assert np.all(first.draws_["variance"][0] != first.draws_["variance"][1])

    def test_what_is_held_is_not_drawn(self, one_d):
        model = self.quick(kernel=SquaredExponential(length_scale=0.7).fix("length_scale"), nu=3.0).fit(
            one_d.X, one_d.y
        )
        assert set(model.draws_) == {"variance", "scale2"}
        assert model.kernel_.length_scale == pytest.approx(0.7)
        assert model.degrees_of_freedom_ == pytest.approx(3.0)

    def test_one_wild_reading_is_an_outlier(self, one_d):
        y = one_d.y.copy()
        y[7] = 1e6
        model = self.quick(nu=2.0, draws=30).fit(one_d.X, y)
        assert model.outlier_mask_[7]
        assert model.bias_[7] == pytest.approx(1e6, rel=1e-3)
        assert np.abs(model.predict(one_d.X_test) - one_d.f_test).max() < 1.5

    def test_known_variances_are_taken_off_the_noise(self, one_d):
        free = self.quick(nu=4.0, draws=60, tune=40).fit(one_d.X, one_d.y)
        model = self.quick(nu=4.0, draws=60, tune=40).fit(one_d.X, one_d.y, noise_variance=np.full(60, 0.3))
        assert model.noise_variance_ < 0.9 * free.noise_variance_
        assert np.abs(model.predict(one_d.X_test) - free.predict(one_d.X_test)).max() < 0.4

    def test_interrupt_raises_unless_asked_otherwise(self, one_d, monkeypatch):
        self.interrupt_after(30, monkeypatch)
        with pytest.raises(KeyboardInterrupt):
            self.quick().fit(one_d.X, one_d.y)

    def test_interrupted_draws_are_returned_when_asked_for(self, one_d, monkeypatch):
        whole = self.quick().fit(one_d.X, one_d.y)
        self.interrupt_after(31, monkeypatch)  # 8 iterations of tuning, 7 of draws, and half of one
        with pytest.warns(InterruptedWarning, match="rests on 7 of the 10 draws of each chain"):
            model = self.quick(on_interrupt="return").fit(one_d.X, one_d.y)
        assert not model.converged_
        # But for rounding: exponentials of arrays depend on their lengths in the last digit on some processors.
        assert_allclose(model.draws_["variance"], whole.draws_["variance"][:, :7], rtol=1e-12)
        assert np.isfinite(model.predict(one_d.X_test, return_std=True)).all()

    def test_interrupt_before_the_first_draw_raises_always(self, one_d, monkeypatch):
        self.interrupt_after(5, monkeypatch)
        with pytest.raises(KeyboardInterrupt):
            self.quick(on_interrupt="return").fit(one_d.X, one_d.y)

    @staticmethod
    def interrupt_after(n, monkeypatch):
        advance, count = Chain.advance, iter(range(n))

        def interrupted(*arguments):
            if next(count, None) is None:
                raise KeyboardInterrupt
            return advance(*arguments)

        monkeypatch.setattr(Chain, "advance", interrupted)

    def test_a_bar_is_shown_on_request_only(self, one_d, capsys):
        self.quick().fit(one_d.X, one_d.y)
        assert capsys.readouterr().out == ""
        self.quick(progress=True).fit(one_d.X, one_d.y)
        assert "sampling" in capsys.readouterr().out

    def test_too_few_draws_to_tell_are_not_called_converged(self, one_d):
        model = self.quick(draws=3).fit(one_d.X, one_d.y)
        assert np.isnan(model.r_hat_["variance"])
        assert not model.converged_


def test_chains_that_disagree_warn(one_d, monkeypatch):
    monkeypatch.setattr(Chain, "advance", lambda *_: 1.0)  # each stays where it started
    with pytest.warns(MixingWarning, match=r"do not agree on .* \(R̂ = .*above 1\.05.*Raise draws"):
        model = ScaleMixtureGP(draws=10, tune=2, chains=3).fit(one_d.X, one_d.y)
    assert not model.converged_


def test_chains_that_agree_do_not(one_d):
    model = ScaleMixtureGP(nu=4.0).fit(one_d.X, one_d.y)
    assert model.converged_
    assert max(model.r_hat_.values()) <= 1.05
    assert min(model.effective_sample_size_.values()) > 100


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"nu": 0.0}, "nu must be a finite number above 0"),
        ({"nu": 1e9}, "use GaussianGP"),
        ({"draws": 0}, "draws must be a whole number from 1"),
        ({"tune": 1.5}, "tune must be"),
        ({"chains": -1}, "chains must be"),
        ({"noise": "loud"}, "noise must be one of 'core', 'scale'"),
        ({"on_interrupt": "ignore"}, "on_interrupt must be one of 'raise', 'return'"),
        ({"random_state": "seed"}, "seed"),
    ],
)
def test_bad_parameters_are_refused_by_name(one_d, parameters, message):
    with pytest.raises(ValueError, match=message):
        ScaleMixtureGP(**parameters).fit(one_d.X, one_d.y)
