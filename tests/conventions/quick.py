"""Estimators that take long, with settings that do not."""

from __future__ import annotations

from biasgp import ScaleMixtureGP


class QuickScaleMixtureGP(ScaleMixtureGP):
    """A few draws of two chains: enough for a rough fit."""

    def __init__(
        self,
        kernel=None,
        *,
        nu=None,
        draws=12,
        tune=12,
        chains=2,
        random_state=0,
        noise="core",
        response="identity",
        max_iter=200,
        progress=False,
        on_interrupt="raise",
    ):
        super().__init__(
            kernel,
            nu=nu,
            draws=draws,
            tune=tune,
            chains=chains,
            random_state=random_state,
            noise=noise,
            response=response,
            max_iter=max_iter,
            progress=progress,
            on_interrupt=on_interrupt,
        )
