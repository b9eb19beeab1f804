"""Records in blocks: the same as in one piece, here and on a cluster."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from biasgp import ConstantBiasGP, GaussianGP, SparseBiasGP
from biasgp import long_record as module
from biasgp.covariance.markov import MarkovEngine
from biasgp.kernels import Constant, Exponential, Matern32
from biasgp.long_record import FORGOTTEN, fit_long_record

N, BLOCKS = 12_000, 4
START = pd.Timestamp("2026-01-01")


@pytest.fixture(scope="module")
def record() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    minutes = np.arange(N, dtype=float)
    f = np.sin(minutes / 40.0) + 0.5 * np.sin(minutes / 171.0)
    out = rng.uniform(size=N) < 0.05
    y = 20.0 + 5.0 * (f + 0.2 * rng.standard_normal(N) + 2.0 * out)
    y[[5, 7000]] = np.nan
    return pd.DataFrame({"time": START + pd.to_timedelta(minutes, unit="min"), "ppb": y, "id": 1}), out, 20.0 + 5.0 * f


@pytest.fixture
def folder(tmp_path: Path, record) -> Path:
    place = tmp_path / "record"
    place.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(N), BLOCKS)):
        record[0].iloc[rows].to_parquet(place / f"day-{number}.parquet")
    return place


def fitted(source, out: Path, model=None, **options):
    return fit_long_record(model or SparseBiasGP(Matern32()), source, out, time="time", reading="ppb", **options)


def test_as_in_one_piece(record, folder: Path, tmp_path: Path) -> None:
    frame, out, _ = record
    found = fitted(folder, tmp_path / "out")
    kept = frame["ppb"].notna().to_numpy()
    whole = SparseBiasGP(Matern32(), order=None).fit(frame.loc[kept, ["time"]], frame.loc[kept, "ppb"])
    results = pd.concat([pd.read_parquet(part) for part in found.parts], ignore_index=True)
    assert list(results) == ["time", "ppb", "mean", "std", "outlier_probability", "bias"]
    pd.testing.assert_series_equal(results["time"], frame["time"])
    np.testing.assert_allclose(found.kernel.theta, whole.kernel_.theta, atol=0.05)
    assert found.noise_variance == pytest.approx(whole.noise_variance_, rel=0.02)
    flagged = results["outlier_probability"].to_numpy() > 0.5
    np.testing.assert_array_equal(flagged[kept], whole.outlier_mask_)
    np.testing.assert_array_equal(flagged[kept], out[kept])
    assert found.n_outliers == flagged.sum() and found.n_readings == N
    mean, std = whole.predict(frame[["time"]], return_std=True)
    np.testing.assert_allclose(results["mean"], mean, atol=0.05)
    np.testing.assert_allclose(results["std"], std, rtol=0.05)
    np.testing.assert_allclose(results.loc[kept, "bias"], whole.bias_, atol=0.3)
    assert results.loc[~kept, ["outlier_probability", "bias"]].isna().all(axis=None)
    assert results["mean"].notna().all()
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [part.name for part in found.parts]


def test_the_likelihood_of_the_blocks_is_that_of_the_record(record, folder: Path, tmp_path: Path) -> None:
    """To the accuracy that the overlap states, in value and gradient."""
    workers = module._Workers(None)
    blocks = workers.blocks(folder, module._Columns("time", "ppb"))
    state = module._fit_to_sample(GaussianGP(Exponential()), blocks, workers)
    parts = module._Record(blocks, workers, state)
    parts.prepare(tmp_path)
    assert 1 < parts.reach < N // BLOCKS
    x = np.append(state.kernel.theta, np.log(state.noise)) + 0.1
    found = parts.density(x)
    frame = record[0].dropna()
    X, z, _ = module._numbers(state, frame, blocks[0].columns)
    kernel = state.kernel.with_theta(x[:-1])
    noise = np.full(len(z), np.exp(x[-1]))
    whole = MarkovEngine(kernel, X).covariance(kernel, noise).negative_log_density(z)
    assert found.value == pytest.approx(whole.value, rel=FORGOTTEN)
    np.testing.assert_allclose(found.by_theta, whole.by_theta, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.by_noise, whole.by_noise, rtol=1e-6)


def test_on_a_cluster_and_from_a_frame(record, folder: Path, tmp_path: Path) -> None:
    dd = pytest.importorskip("dask.dataframe")
    from distributed import Client, LocalCluster

    alone = fitted(folder, tmp_path / "alone")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", processes=False) as local,
        Client(local) as client,
    ):
        together = fitted(folder, tmp_path / "together", client=client)
        frame = fitted(dd.from_pandas(record[0], npartitions=BLOCKS), tmp_path / "frame", client=client)
    np.testing.assert_array_equal(together.kernel.theta, alone.kernel.theta)
    assert together.log_likelihood == alone.log_likelihood
    for one, other in zip(alone.parts, together.parts, strict=True):
        pd.testing.assert_frame_equal(pd.read_parquet(one), pd.read_parquet(other))
    np.testing.assert_allclose(frame.kernel.theta, alone.kernel.theta, atol=1e-6)


class TestRefused:
    def test_files_that_overlap(self, record, folder: Path, tmp_path: Path) -> None:
        record[0].iloc[2900:3100].to_parquet(folder / "late.parquet")
        with pytest.raises(ValueError, match=r"late.parquet begins at .*, before .*day-0.parquet ends"):
            fitted(folder, tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_a_file_that_is_not_in_order(self, record, folder: Path, tmp_path: Path) -> None:
        record[0].iloc[[0, 2, 1]].to_parquet(folder / "day-0.parquet")
        with pytest.raises(ValueError, match=r"day-0.parquet, row 2: the time is before"):
            fitted(folder, tmp_path / "out")

    def test_a_missing_column(self, folder: Path, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"day-0.parquet has no column 'ppm'; it has 'time', 'ppb', 'id'"):
            fit_long_record(SparseBiasGP(Matern32()), folder, tmp_path / "out", time="time", reading="ppm")

    def test_a_missing_time(self, record, folder: Path, tmp_path: Path) -> None:
        frame = record[0].iloc[:3000].copy()
        frame.loc[4, "time"] = pd.NaT
        frame.to_parquet(folder / "day-0.parquet")
        with pytest.raises(ValueError, match=r"day-0.parquet, row 4: the time 'time' is missing"):
            fitted(folder, tmp_path / "out")

    def test_no_files(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="There is no Parquet file"):
            fitted(tmp_path, tmp_path / "out")
        with pytest.raises(FileNotFoundError, match=r"gone.parquet"):
            fitted([tmp_path / "gone.parquet"], tmp_path / "out")

    def test_a_file_of_something_else(self, folder: Path, tmp_path: Path) -> None:
        (folder / "day-0.parquet").write_text("time,ppb")
        with pytest.raises(ValueError, match=r"day-0.parquet is no Parquet file"):
            fitted(folder, tmp_path / "out")

    def test_files_shorter_than_the_memory(self, record, tmp_path: Path) -> None:
        folder = tmp_path / "short"
        folder.mkdir()
        for number, rows in enumerate(np.array_split(np.arange(3000), 100)):
            record[0].iloc[rows].to_parquet(folder / f"{number:03d}.parquet")
        with pytest.raises(ValueError, match="make the files longer"):
            fitted(folder, tmp_path / "out")

    @pytest.mark.parametrize(
        "model, words",
        [
            (ConstantBiasGP(Matern32()), "must be a GaussianGP or a SparseBiasGP"),
            (SparseBiasGP(Matern32() + Constant()), "that is exactly Markov and forgets"),
        ],
    )
    def test_models_and_kernels(self, folder: Path, tmp_path: Path, model, words: str) -> None:
        with pytest.raises((ValueError, TypeError), match=words):
            fitted(folder, tmp_path / "out", model)

    def test_a_client_that_is_none(self, folder: Path, tmp_path: Path) -> None:
        with pytest.raises(TypeError, match="must be a dask"):
            fitted(folder, tmp_path / "out", client="here")


def test_a_record_without_readings_is_refused(tmp_path: Path) -> None:
    pd.DataFrame({"time": [], "ppb": []}, dtype=float).to_parquet(tmp_path / "empty.parquet")
    with pytest.raises(ValueError, match="The record holds no readings"):
        fit_long_record(GaussianGP(Exponential()), tmp_path, tmp_path / "out", time="time", reading="ppb")


def test_a_dask_frame_wants_the_client_that_holds_it(tmp_path: Path) -> None:
    class Frame:
        def to_delayed(self) -> list[object]:
            return []

    with pytest.raises(ValueError, match="pass client="):
        fit_long_record(GaussianGP(Exponential()), Frame(), tmp_path / "out", time="time", reading="ppb")
    assert not (tmp_path / "out").exists()
