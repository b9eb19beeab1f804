"""Time as time: every figure of docs/large-data.md on the exact O(N) engine.

    python benchmarks/state_space.py                        everything
    python benchmarks/state_space.py --only likelihood peers --size 1000000 --save FILE.json

Parts: exactness, likelihood, million, growth, slow, auto, blocks, peers. Each runs in a process of its own. Times are
wall clock after a first run that compiles; a ratio is of two times of the same run. `peers` needs celerite2, tinygp and
jax (pip install celerite2 tinygp), and leaves out what is not installed.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

import saved
from biasgp import ConstantBiasGP, GaussianGP, RandomBiasGP, SparseBiasGP
from biasgp.covariance.dense_engine import DenseEngine
from biasgp.covariance.markov import MarkovEngine
from biasgp.kernels import Constant, Exponential, Kernel, Linear, Matern32, Matern52, Periodic
from saved import figure as row

LENGTH, SIGMA, SHARE, SIZE = 240.0, 0.2, 0.05, 10.0
"""Of the record: length-scale in readings, noise of f with variance 1, share of outliers, and how many σ they are."""
DEFAULT_SIZE = 1_000_000


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def best_of(work: Callable[[], Any], times: int = 3) -> float:
    work()
    return min(timed(work)[0] for _ in range(times))


def signal(n: int, length: float, rng: np.random.Generator) -> np.ndarray:
    """A draw of Matérn 3/2 of variance 1 at 0, 1, 2, …"""
    kernel = Matern32(length_scale=length, variance=1.0).bind(np.arange(3.0)[:, None])
    form = kernel.state_space(1)
    (A,), (Q,) = form.move(np.ones(1))
    pushes, f = rng.standard_normal((n, 2)) @ np.linalg.cholesky(Q).T, np.empty(n)
    (a, b), (c, d) = A.tolist()
    x, v = rng.standard_normal(2).tolist()
    for start in range(0, n, 10_000):  # few numbers as objects at a time: they are ten times as large
        for t, (p, q) in enumerate(pushes[start : start + 10_000].tolist(), start):
            x, v = a * x + b * v + p, c * x + d * v + q
            f[t] = x
    return f


def record(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """X, y with outliers, which these are, and f."""
    rng = np.random.default_rng(seed)
    f = signal(n, LENGTH, rng)
    outlier = rng.uniform(size=n) < SHARE
    y = f + SIGMA * rng.standard_normal(n) + SIZE * SIGMA * outlier
    return np.arange(n, dtype=float)[:, None], y, outlier, f


def exactness(_: int) -> None:
    """Against the dense engine."""
    rng = np.random.default_rng(0)
    n = 500
    t = rng.uniform(0.0, 100.0, n)
    X, y, noise = t[:, None], np.sin(t) + 0.3 * rng.standard_normal(n), rng.uniform(0.05, 0.2, n)
    at = rng.uniform(-10.0, 110.0, (100, 1))
    kernels: dict[str, Kernel] = {
        "exponential": Exponential(),
        "Matern 3/2": Matern32(),
        "Matern 5/2": Matern52(),
        "sum, with a trend": Matern52() + Exponential(length_scale=0.5) + Linear() + Constant(),
        "product": Matern32() * Exponential(),
        "quasi-periodic": Matern32() * Periodic(period=7.0),
    }
    for name, kernel in kernels.items():
        bound = kernel.bind(X)
        pairs = []
        for make in (lambda: MarkovEngine(bound, X), lambda: DenseEngine(X)):  # noqa: B023
            density = make().covariance(bound, noise).negative_log_density(y, each_noise=True)
            posterior = make().covariance(bound, noise).posterior(y)
            pairs.append((*density, *posterior.mean_and_variance(at), *posterior.leave_one_out()))
        worst = [float(np.abs(np.subtract(a, b)).max()) for a, b in zip(*pairs, strict=True)]
        text = " ".join(f"{value:.0e}" for value in worst)
        bar = "1e-8" if bound.state_space(1).accuracy == 0.0 else "its accuracy"
        row(f"{name}: likelihood, d/dtheta, d/dnoise, mean, var, leave-one-out mean, var", text, bar)


def likelihood(size: int) -> None:
    """One evaluation of the likelihood with its gradient."""
    rng = np.random.default_rng(0)
    y, noise = rng.standard_normal(size), np.full(size, SIGMA**2)
    for spacing, times in (
        ("even", np.arange(size, dtype=float)),
        ("uneven", np.cumsum(rng.exponential(size=size))),
    ):
        for kernel in (Exponential(length_scale=LENGTH), Matern32(length_scale=LENGTH), Matern52(length_scale=LENGTH)):
            bound = kernel.bind(times[:100, None])
            K = MarkovEngine(bound, times[:, None])
            seconds = best_of(lambda K=K, bound=bound: K.covariance(bound, noise).negative_log_density(y))
            bar = "<= .5 (.2)" if isinstance(kernel, Matern32) else ""
            name = type(kernel).__name__
            row(f"N = {size:,}, {spacing} times, {name}: likelihood with gradient, s", f"{seconds:.3f}", bar)


def million(size: int) -> None:
    """A robust fit of a million readings, by states and by nearest neighbours."""
    X, y, outlier, f = record(size)
    small = record(3000)
    spent = {}
    for engine in ("state-space", "vecchia"):
        SparseBiasGP(Matern32(), approximation=engine).fit(small[0], small[1])
        spent[engine], model = timed(lambda e=engine: SparseBiasGP(Matern32(), approximation=e).fit(X, y))
        row(f"N = {size:,}, robust fit, {engine}, s", f"{spent[engine]:.1f}")
        if engine == "vecchia":
            continue
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        row("  peak memory of the process, GB", f"{peak:.2f}", "<= .6 (.4)")
        flagged = model.outlier_mask_
        hits = (flagged & outlier).sum()
        row("  precision, recall", f"{hits / flagged.sum():.4f}, {hits / outlier.sum():.4f}", ">= .99")
        seconds, oracle = timed(lambda: GaussianGP(Matern32()).fit(X[~outlier], y[~outlier]))
        row("  plain fit without the outliers, s", f"{seconds:.1f}")
        seconds, mean = timed(lambda m=model: m.predict(X))
        row(f"  {size:,} predictions, s", f"{seconds:.1f}")
        ratio = np.mean((mean - f) ** 2) / np.mean((oracle.predict(X) - f) ** 2)
        row("  MSE of f / that of the plain fit without the outliers", f"{ratio:.5f}", "<= 1.01")
    row("  robust fit, states / nearest neighbours", f"{spent['state-space'] / spent['vecchia']:.3f}", "<= .25 (.1)")


def growth(size: int) -> None:
    """Four times the readings."""
    small = record(3000)
    SparseBiasGP(Matern32(), approximation="state-space").fit(small[0], small[1])
    spent = []
    for n in (size, 4 * size):
        X, y, *_ = record(n)
        spent.append(timed(lambda X=X, y=y: SparseBiasGP(Matern32()).fit(X, y))[0])
        row(f"N = {n:,}, robust fit, s", f"{spent[-1]:.1f}")
    row("  time(4 N) / time(N)", f"{spent[1] / spent[0]:.2f}", "<= 4.3 (4.05)")


def slow(_: int) -> None:
    """A slow signal that is sampled densely: against the dense engine on means of 50 readings."""
    n, per_mean, length = 100_000, 50, 10_000.0
    rng = np.random.default_rng(0)
    ratios: dict[str, list[float]] = {"state-space": [], "vecchia": []}
    for _ in range(3):
        f = signal(n, length, rng)
        y, X = f + SIGMA * rng.standard_normal(n), np.arange(n, dtype=float)[:, None]
        means, places = (each.reshape(-1, per_mean).mean(axis=1) for each in (y, X[:, 0]))
        kernel = Matern32(length_scale=length, variance=1.0).fix("length_scale", "variance")
        bound = Matern32(length_scale=length, variance=1.0).bind(X)
        dense = DenseEngine(places[:, None]).covariance(bound, np.full(len(means), SIGMA**2 / per_mean))
        reference = np.mean((dense.posterior(means).mean(X) - f) ** 2)
        ours = MarkovEngine(bound, X).covariance(bound, np.full(n, SIGMA**2)).posterior(y).mean(X)
        ratios["state-space"].append(np.mean((ours - f) ** 2) / reference)
        neighbours = GaussianGP(kernel, approximation="vecchia").fit(X, y).predict(X[::per_mean])
        ratios["vecchia"].append(np.mean((neighbours - f[::per_mean]) ** 2) / reference)
    for name, values in ratios.items():
        bar = "<= 1.02" if name == "state-space" else "(its noise is learnt)"
        row(f"length-scale of 10,000 readings, N = {n:,}: MSE of f / dense on means, {name}", f"{max(values):.3f}", bar)


def auto(_: int) -> None:
    """From how many readings on states are faster than all of K."""
    for n in (200, 400, 700, 1000, 1500):
        X, y, *_ = record(n)
        for Model in (GaussianGP, ConstantBiasGP, RandomBiasGP, SparseBiasGP):
            models = [Model(Matern32(), approximation=engine) for engine in ("exact", "state-space")]
            spent = [best_of(lambda m=model, X=X, y=y: m.fit(X, y), 1) for model in models]
            row(f"N = {n}: {Model.__name__}, exact, state-space, s", f"{spent[0]:.2f}, {spent[1]:.2f}")


def peers(size: int) -> None:
    """celerite2 and tinygp, by JAX's gradients, on the same readings and kernels."""
    if find_spec("jax") is None:
        row("celerite2, tinygp", "not installed")
        return
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(0)
    for n in (size // 10, size):
        times, y = np.cumsum(rng.exponential(size=n)), rng.standard_normal(n)
        t, z = jnp.asarray(times), jnp.asarray(y)
        for ours in (Exponential(length_scale=LENGTH, variance=1.0), Matern32(length_scale=LENGTH, variance=1.0)):
            bound, name = ours.bind(times[:100, None]), type(ours).__name__
            engine, noise = MarkovEngine(bound, times[:, None]), np.full(n, SIGMA**2)
            found = engine.covariance(bound, noise).negative_log_density(y)
            spent = best_of(lambda e=engine, b=bound, v=noise, y=y: e.covariance(b, v).negative_log_density(y))
            row(f"N = {n:,}, uneven, {name}: ours, s", f"{spent:.3f}")
            for peer, negative in _peers(name, t, z).items():
                compiled = jax.jit(jax.value_and_grad(negative))
                theta = jnp.asarray([*bound.theta, np.log(SIGMA**2)])
                value, gradient = compiled(theta)
                gap = abs(float(value) - found.value) / abs(found.value)
                slope = float(np.abs(np.asarray(gradient)[:2] - found.by_theta).max())
                theirs = best_of(lambda c=compiled, x=theta: jax.block_until_ready(c(x)))
                row(
                    f"  ours / {peer} (value differs by {gap:.0e}, gradient by {slope:.0e})",
                    f"{spent / theirs:.2f}",
                    "<= 1 (.5)",
                )


def _peers(name: str, t: Any, y: Any) -> dict[str, Callable[[Any], Any]]:
    """−log p(y) of each peer that is installed, as a function of log variance, log length-scale and log σ²."""
    import jax.numpy as jnp

    found: dict[str, Callable[[Any], Any]] = {}
    if find_spec("tinygp") is not None:
        from tinygp import GaussianProcess
        from tinygp.kernels import quasisep

        def by_tinygp(theta: Any) -> Any:
            variance, length, noise = jnp.exp(theta)
            kind = {"Exponential": quasisep.Exp, "Matern32": quasisep.Matern32}[name]
            return -GaussianProcess(variance * kind(scale=length), t, diag=noise).log_probability(y)

        found["tinygp"] = by_tinygp
    if find_spec("celerite2") is not None:
        import celerite2.jax
        from celerite2.jax import terms

        def by_celerite(theta: Any) -> Any:
            variance, length, noise = jnp.exp(theta)
            if name == "Exponential":
                term = terms.RealTerm(a=variance, c=1.0 / length)
            else:  # celerite2's own approximation of Matérn 3/2
                term = terms.Matern32Term(sigma=jnp.sqrt(variance), rho=length)
            process = celerite2.jax.GaussianProcess(term, mean=0.0)
            process.compute(t, diag=noise, check_sorted=False)
            return -process.log_likelihood(y)

        found["celerite2"] = by_celerite
    return found


def blocks(size: int) -> None:
    """A record in files of a million readings, never whole in one process: on two workers, and alone."""
    import tempfile
    from pathlib import Path

    import pandas as pd
    from distributed import Client, LocalCluster

    from biasgp.long_record import fit_long_record

    n_blocks = 10
    with tempfile.TemporaryDirectory() as place:
        folder, every = Path(place) / "record", []
        folder.mkdir()
        for number in range(n_blocks):  # independent blocks: the signal jumps between files, and costs the same
            X, y, outlier, _ = record(size, number)
            every.append(outlier)
            frame = pd.DataFrame({"time": number * size + X[:, 0], "reading": y})
            frame.to_parquet(folder / f"{number:03d}.parquet")
        del X, y, frame
        model = SparseBiasGP(Matern32())

        def fit(client: Any = None) -> Any:
            return fit_long_record(model, folder, Path(place) / "out", time="time", reading="reading", client=client)

        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as local, Client(local) as client:
            seconds, found = timed(lambda: fit(client))
        outlier = np.concatenate(every)
        parts = [pd.read_parquet(part, columns=["outlier_probability"]).to_numpy()[:, 0] for part in found.parts]
        flagged = np.concatenate(parts) > 0.5
        hits = (flagged & outlier).sum()
        row(f"N = {n_blocks * size:,} in {n_blocks} files, two Dask workers: robust fit, s", f"{seconds:.0f}")
        row("  overlap, readings", f"{found.overlap}")
        row("  precision, recall", f"{hits / flagged.sum():.4f}, {hits / outlier.sum():.4f}")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        row("  peak memory of this process, GB (it made the readings, a file at a time)", f"{peak:.2f}")


PARTS = {part.__name__: part for part in (exactness, likelihood, million, growth, slow, auto, blocks, peers)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--size", type=int, default=DEFAULT_SIZE, help="the N that the others are multiples of")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    saved.add_option(parser)
    arguments = parser.parse_args()
    for name in arguments.only:
        if arguments.here:
            PARTS[name](arguments.size)
        else:
            saved.part([__file__, "--only", name, "--size", str(arguments.size), "--here"])
    saved.write_figures(arguments.save)


if __name__ == "__main__":
    main()
