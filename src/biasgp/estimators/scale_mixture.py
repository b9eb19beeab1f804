"""ScaleMixtureGP: a Gaussian process with Student-t noise, by Markov chain Monte Carlo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.utils.validation import check_random_state

from biasgp._typing import Array
from biasgp.covariance.protocol import Posterior
from biasgp.estimators.student_t import StudentTNoiseGP
from biasgp.estimators.validation import check_choice, check_positive_integer
from biasgp.kernels import Kernel
from biasgp.models import scale_mixture
from biasgp.models.diagnosis import Finding
from biasgp.models.problem import Problem
from biasgp.models.t_noise import StudentT
from biasgp.response import ScaledResponse

MAX_R_HAT = 1.05
"""Above it chains do not agree (Vehtari and others, 2021, ask for 1.01 where tails matter)."""


@dataclass(eq=False, repr=False, kw_only=True)
class ScaleMixtureGP(StudentTNoiseGP):
    """Gaussian process with Student-t noise, y = f(x) + ε, ε ~ σ·t_ν, by MCMC (the paper's MCMC).

    The t is a mixture of Gaussians: each reading has a variance of its own, drawn by Gibbs sampling. The kernel's
    parameters are drawn by Hamiltonian Monte Carlo with f integrated out. Slower than the other estimators, and the
    only one whose predictions account for not knowing the parameters.

    Parameters
    ----------
    {inherited}
    draws : int
        Iterations kept, of each chain.
    tune : int
        Iterations before those, of each chain, in which the sampler is tuned; they are not kept.
    chains : int
        Chains, from starts that are further apart than the posterior is wide.
    random_state : int, RandomState instance or None
        Seed of the draws. None: another one each time.
    progress : bool
        Show a bar while sampling, where rich is installed.
    on_interrupt : {"raise", "return"}
        What Ctrl-C does while draws are taken: "return" ends the fit with those taken so far and an
        InterruptedWarning. Before the first draw it always raises.

    Attributes
    ----------
    {inherited}
    draws_ : dict of str to ndarray of shape (chains, draws)
        The draws of each parameter that is not fixed, by name; variances in y's unit squared. (Parameters of a
        scikit-learn kernel are in units of the scaled response.)
    r_hat_, effective_sample_size_ : dict of str to float
        Split-R̂ and bulk effective sample size of each of these.
    converged_ : bool
        Whether every R̂ is at most 1.05 and nothing was interrupted.

    Notes
    -----
    Values given to the kernel are the middle of its parameters' priors.
    `fit(X, y, noise_variance=...)` takes known variances as those of a Gaussian error beside the t.
    Predictions average over some hundred draws: the mean of their means; the mean of their variances plus the variance
    of their means. `predict(include_noise=True)` adds `noise_variance_` to that, and quantiles are those of the
    Gaussian with these moments. The density of the next reading, `log_predictive_density`, is exact.

    Examples
    --------
    >>> from biasgp import ScaleMixtureGP
    >>> from biasgp.data import simulate
    >>> data = simulate("1d", 1, n=60)
    >>> model = ScaleMixtureGP(draws=50, tune=50, chains=2).fit(data.X, data.y)  # few, to be quick
    >>> mean, std = model.predict(data.X_test, return_std=True)
    """

    draws: int = 300
    tune: int = 100
    chains: int = 4
    random_state: Any = 0
    progress: bool = False
    on_interrupt: str = "raise"

    def _infer(self, problem: Problem, nu: float | None) -> scale_mixture.ScaleMixtureFit:
        check_choice("on_interrupt", self.on_interrupt, ("raise", "return"))
        plan = scale_mixture.Plan(
            draws=check_positive_integer("draws", self.draws),
            tune=check_positive_integer("tune", self.tune),
            chains=check_positive_integer("chains", self.chains),
            nu=nu,
            keep_on_interrupt=self.on_interrupt == "return",
        )
        if find_spec("arviz_stats") is None:
            raise ImportError("ScaleMixtureGP judges its chains with arviz-stats: pip install 'biasgp[mcmc]'.")
        seed = np.random.SeedSequence(check_random_state(self.random_state).randint(2**31, size=4).tolist())
        with _bar(bool(self.progress)) as progress:
            return scale_mixture.fit(problem, self.max_iter, plan, seed, progress)

    def _unpack(self, model: scale_mixture.ScaleMixtureFit, response: ScaledResponse) -> None:
        super()._unpack(model, response)
        self.draws_ = _in_units_of_y(model.draws, model.kernel, response.scaling.scale**2)
        self.r_hat_, self.effective_sample_size_ = model.r_hat, model.effective_sample_size
        self.converged_ = not model.interrupted and not _unmixed(model.r_hat)
        self._draws = model.posterior, model.scales2, model.nus

    def _findings(self, model: scale_mixture.ScaleMixtureFit) -> Iterator[Finding]:
        yield from super()._findings(model)
        if model.interrupted:
            text = f"Interrupted: this fit rests on {model.report.n_iter} of the {self.draws} draws of each chain."
            yield Finding("interrupted", text)
        worst = _unmixed(model.r_hat)
        if worst:
            text = (
                f"The chains do not agree on {worst} (R̂ = {model.r_hat[worst]:.2f}, above {MAX_R_HAT}) after "
                f"{self.draws} draws and {self.tune} to tune. More draws do not help where the readings have more than "
                "one explanation."
            )
            yield Finding("not-mixed", text, ("more draws", "compare sparse bias"))

    def _draws_of_noise(self) -> Iterator[tuple[StudentT, Posterior]]:
        draws, scales2, nus = self._draws
        return zip(map(StudentT, scales2, nus), draws.each(), strict=True)


def _unmixed(r_hat: dict[str, float]) -> str:
    """The parameter with the worst R̂ above the limit, or not known; empty where all are fine."""
    bad = {name: value for name, value in r_hat.items() if not value <= MAX_R_HAT}
    return max(bad, key=lambda name: np.nan_to_num(bad[name], nan=np.inf)) if bad else ""


def _in_units_of_y(draws: dict[str, Array], kernel: Kernel, unit: float) -> dict[str, Array]:
    """Draws of variances multiplied by the square of y's unit."""
    factors = {"scale2": unit}
    scaled = kernel.scaled(unit)
    if scaled.parameter_names == kernel.parameter_names:
        factors |= dict(zip(kernel.parameter_names, np.exp(scaled.theta - kernel.theta).tolist(), strict=True))
    return {name: factors.get(name, 1.0) * values for name, values in draws.items()}


@contextmanager
def _bar(wanted: bool) -> Iterator[scale_mixture.Progress | None]:
    """A progress bar of rich's, if it is wanted and there."""
    if not wanted or find_spec("rich") is None:
        yield None
        return
    from rich.progress import Progress

    with Progress() as bar:
        task = bar.add_task("sampling", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
