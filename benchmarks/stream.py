"""Streams: every figure of docs/streams.md.

    python benchmarks/stream.py                    everything
    python benchmarks/stream.py --only peers --readings 20000

Parts: speed (readings per second of one core: many per call, and one), watch (rows of a CSV file per second, by the
command, its start left out), agreement (labels after the lag, against a
fresh fit of the whole record), peers (RMSE of the filtered mean, against our own versions of WoLF and ST-RCGP). Times
are of the processor, the best of three.

The record: Matérn 3/2 with a length-scale of 60 readings and variance 1, noise .3, 5 % outliers, one shift of 300
readings by 8 noise standard deviations in the streamed part. The model is fitted to a first part without the shift, and
all filters have its kernel and noise variance. WoLF and ST-RCGP have no labels and no episodes; each is given the
setting that is best on the very stream that it is judged by.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from biasgp import SparseBiasGP
from biasgp.covariance.markov_passes import _compile
from biasgp.kernels import Matern32

SIGMA, LENGTH, SHARE, SHIFT, LASTS = 0.3, 60.0, 0.05, 8.0, 300
FITTED = 3000
SETTINGS = np.geomspace(0.5, 32.0, 25)
REPEATS = 3


@dataclass(frozen=True)
class Record:
    """Readings at times t, the true f, and which are outliers or in the shift."""

    t: np.ndarray
    y: np.ndarray
    f: np.ndarray
    outlier: np.ndarray
    shifted: np.ndarray

    def part(self, rows: slice) -> Record:
        return Record(self.t[rows], self.y[rows], self.f[rows], self.outlier[rows], self.shifted[rows])


@_compile
def _walk(A: np.ndarray, root: np.ndarray, start: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The first number of a state that moves by A and a root of Q."""
    f, s0, s1 = np.empty(len(noise)), start[0], start[1]
    for i in range(len(noise)):
        f[i] = s0
        n0, n1 = noise[i]
        m0, m1 = A[0, 0] * s0 + A[0, 1] * s1, A[1, 0] * s0 + A[1, 1] * s1
        s0, s1 = m0 + root[0, 0] * n0, m1 + root[1, 0] * n0 + root[1, 1] * n1
    return f


def simulate(n: int, seed: int, one_sided: bool, lasts: int = LASTS) -> Record:
    """A record of n readings; outliers are 10 σ too high, or N(0, (10 σ)²)."""
    rng = np.random.default_rng(seed)
    kernel = Matern32(variance=1.0, length_scale=LENGTH).bind(np.arange(2.0)[:, None])
    form = kernel.state_space(1)
    A, Q = form.move(np.ones(1))
    f = _walk(A[0], np.linalg.cholesky(Q[0]), rng.standard_normal(2), rng.standard_normal((n, 2)))
    outlier = rng.random(n) < SHARE
    y = f + SIGMA * rng.standard_normal(n)
    y += outlier * 10.0 * SIGMA * (1.0 if one_sided else rng.standard_normal(n))
    shifted = np.zeros(n, dtype=bool)
    if n > FITTED + 2 * LASTS and lasts:
        begin = int(rng.integers(FITTED + LASTS // 2, n - 3 * LASTS // 2))
        shifted[begin : begin + lasts] = True
    return Record(np.arange(float(n)), y + SHIFT * SIGMA * shifted, f, outlier, shifted)


def fitted(record: Record) -> SparseBiasGP:
    return SparseBiasGP(Matern32(), approximation="state-space").fit(record.t[:, None], record.y)


def spent(work: Callable[[], object]) -> float:
    """Processor seconds, the best of three."""
    found = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def speed(n: int) -> None:
    record = simulate(FITTED + n, 0, one_sided=False)
    model, rest = fitted(record.part(slice(FITTED))), record.part(slice(FITTED, None))
    model.stream().push(rest.t[:50], rest.y[:50])
    for lag in (10, 20, 40):
        rate = n / spent(lambda lag=lag: model.stream(lag=lag).push(rest.t, rest.y))
        print(f"lag {lag}: {rate:,.0f} readings per second, {n} in one call")

    def in_blocks(size: int, total: int) -> None:
        stream = model.stream()
        for i in range(0, total, size):
            stream.push(rest.t[i : i + size], rest.y[i : i + size])

    def one_by_one() -> None:
        stream = model.stream()
        for t, y in zip(rest.t[:2000].tolist(), rest.y[:2000].tolist(), strict=True):
            stream.push(t, y)

    print(f"lag 20, blocks of 1000: {n / spent(lambda: in_blocks(1000, n)):,.0f} readings per second")
    print(f"lag 20, one per call: {spent(one_by_one) / 2000 * 1e6:.0f} µs per reading")


def watch(n: int) -> None:
    """The command on files of n and of one row: the difference is what the rows cost."""
    record = simulate(FITTED + n, 0, one_sided=False)
    rows = [f"{t:.0f},{y:.6f}" for t, y in zip(record.t, record.y, strict=True)]
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:

        def run(*words: str) -> None:
            subprocess.run([sys.executable, "-m", "biasgp", *words], cwd=folder, check=True, capture_output=True)

        def write(name: str, part: list[str]) -> None:
            (Path(folder) / name).write_text("\n".join(["t,y", *part, ""]))

        write("fitted.csv", rows[:FITTED])
        run("fit", "fitted.csv", "--target", "y", "--features", "t", "--out", "fit")
        for count in (1, n):
            write(f"{count}.csv", rows[FITTED : FITTED + count])
            start = time.perf_counter()
            run("watch", f"{count}.csv", "--model", "fit/model.skops", "--out", f"{count}.jsonl")
            seconds[count] = time.perf_counter() - start
    print(f"{n} rows: {n / (seconds[n] - seconds[1]):,.0f} rows per second; start and end {seconds[1]:.1f} s")


def agreement(n: int) -> None:
    # A fit of many readings looks for episodes in windows of 500: longer ones than this a stream finds alone.
    for one_sided, lasts in ((True, 0), (True, 100), (False, 0), (False, 100)):
        for seed in range(2):
            record = simulate(FITTED + n, seed, one_sided, lasts)
            rest = record.part(slice(FITTED, None))
            settled = fitted(record.part(slice(FITTED))).stream().push(rest.t, rest.y).settled
            fresh = fitted(record)
            mine = settled.outlier | (settled.episode != "")
            others = fresh.outlier_mask_[FITTED : FITTED + len(mine)]
            bad = (rest.outlier | rest.shifted)[: len(mine)]
            found = ", ".join(
                f"{name} {(mask & bad).sum() / max(mask.sum(), 1):.4f}, {(mask & bad).sum() / bad.sum():.4f}"
                for name, mask in (("stream", mine), ("fresh fit", others))
            )
            kind = f"{'one' if one_sided else 'two'}-sided, shift of {lasts}"
            print(
                f"{kind}, seed {seed}: agreement {np.mean(mine == others):.4f}; precision, recall: {found}", flush=True
            )


@_compile
def _wolf(y: np.ndarray, model: tuple, c: float, inverse: bool) -> np.ndarray:
    """WoLF (Duran-Martín et al. 2024): the precision of a reading times W², W from its residual in units of the noise.

    Inverse multi-quadric: W² = 1/(1 + r²/c²); or, thresholded Mahalanobis distance: W = 1 where r² ≤ c², else 0.
    """
    A, Q, m, P, R = model
    m, P, out = m.copy(), P.copy(), np.empty(len(y))
    for t in range(len(y)):
        m, P = A @ m, A @ P @ A.T + Q
        r = y[t] - m[0]
        weight = 1.0 / (1.0 + r * r / R / c**2) if inverse else (1.0 if r * r / R <= c**2 else 0.0)
        gain = weight * P[:, 0] / (weight * P[0, 0] + R)
        m, P = m + gain * r, P - np.outer(gain, P[0])
        out[t] = m[0]
    return out


@_compile
def _st_rcgp(y: np.ndarray, model: tuple, c: float, adaptive: bool) -> np.ndarray:
    """ST-RCGP (Laplante et al. 2025), in time: w² = (σ²/2)/(1 + r²/c²), r from the mean predicted by the filter.

    A reading then has the noise σ⁴/(2w²) and the value y − σ² ∂ log w²/∂y. `adaptive`: c is in units of the predicted
    standard deviation of the reading, else of the noise's.
    """
    A, Q, m, P, R = model
    m, P, out = m.copy(), P.copy(), np.empty(len(y))
    for t in range(len(y)):
        m, P = A @ m, A @ P @ A.T + Q
        r = y[t] - m[0]
        c2 = c**2 * (P[0, 0] + R if adaptive else R)
        noise = R * (1.0 + r * r / c2)
        moved = r + 2.0 * R * r / (c2 + r * r)
        gain = P[:, 0] / (P[0, 0] + noise)
        m, P = m + gain * moved, P - np.outer(gain, P[0])
        out[t] = m[0]
    return out


@dataclass(frozen=True)
class Trial:
    """A stream, the readings of it in model units and those of the lag before it, and what filters begin with."""

    rest: Record
    mine: np.ndarray
    z: np.ndarray
    given: tuple
    bad: np.ndarray
    backward: Callable[[np.ndarray], np.ndarray]
    judged: np.ndarray

    @classmethod
    def of(cls, record: Record, without_shift: bool) -> Trial:
        rest, model = record.part(slice(FITTED, None)), fitted(record.part(slice(FITTED)))
        stream = model.stream()
        first, form = stream._live.settled, model._posterior.kernel.state_space(1)
        rows = slice(FITTED - stream.lag, None)  # all filters begin where the lag of ours does
        A, Q = form.move(np.ones(1))
        given = (A[0].copy(), Q[0].copy(), first.mean[:2].copy(), first.covariance[:2, :2].copy())
        judged = np.ones(len(rest.t), dtype=bool)
        if without_shift:  # and without the time in which filters recover from it
            begin = int(np.flatnonzero(rest.shifted)[0])
            judged[begin : begin + 2 * LASTS] = False
        return cls(
            rest,
            stream.push(rest.t, rest.y).mean,
            np.ascontiguousarray(model._scaling.forward(record.y[rows])),
            (*given, model._scaled_noise_variance),
            (record.outlier | record.shifted)[rows],
            model._scaling.backward,
            judged,
        )

    def rmse(self, mean: np.ndarray) -> float:
        return float(np.sqrt(np.mean((mean - self.rest.f)[self.judged] ** 2)))

    def best(self, run: Callable[..., np.ndarray], option: bool) -> float:
        """Of the settings of a filter."""
        n = len(self.rest.t)
        return min(self.rmse(self.backward(run(self.z, self.given, c, option))[-n:]) for c in SETTINGS)

    def told(self) -> float:
        """Of the Kalman filter that is told which readings to leave out: their residuals are beyond its threshold."""
        mean = _wolf(np.where(self.bad, 1e12, self.z), self.given, 1e9, False)
        return self.rmse(self.backward(mean)[-len(self.rest.t) :])


def peers(n: int) -> None:
    for kind in ("one-sided", "two-sided"):
        for without_shift in (False, True):
            totals: dict[str, list[float]] = {}
            for seed in range(5):
                trial = Trial.of(simulate(FITTED + n, 100 + seed, kind == "one-sided"), without_shift)
                found = {
                    "ours": trial.rmse(trial.mine),
                    "WoLF, IMQ": trial.best(_wolf, True),
                    "WoLF, TMD": trial.best(_wolf, False),
                    "ST-RCGP": trial.best(_st_rcgp, True),
                    "ST-RCGP, constant c": trial.best(_st_rcgp, False),
                    "Kalman filter, told": trial.told(),
                }
                for name, value in found.items():
                    totals.setdefault(name, []).append(value)
            print(f"{kind}{', outside the shift' if without_shift else ''}: RMSE {np.mean(totals['ours']):.4f}")
            for name, values in totals.items():
                ratio = np.array(totals["ours"]) / np.array(values)
                print(f"  ÷ {name}: {ratio.mean():.3f}, at most {ratio.max():.3f}", flush=True)


PARTS = {"speed": (speed, 200_000), "watch": (watch, 100_000), "agreement": (agreement, 5000), "peers": (peers, 5000)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--readings", type=int, help="readings of the stream")
    options = parser.parse_args()
    for name, (part, readings) in PARTS.items():
        if options.only in (None, name):
            print(f"== {name}")
            part(options.readings or readings)


if __name__ == "__main__":
    main()
