"""BLAS gets the threads that suit the problem, and has them back afterwards."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from biasgp.covariance import threads
from biasgp.covariance.threads import SMALL, blas_threads_for


@dataclass
class Pool:
    filepath: str
    num_threads: int

    def set_num_threads(self, n: int) -> None:
        self.num_threads = n


@pytest.fixture
def pools(monkeypatch):
    """NumPy's pool of 8 threads, then SciPy's of 6."""
    both = [Pool("/site/numpy.libs/libopenblas64.so", 8), Pool("/site/scipy.libs/libopenblas.so", 6)]
    monkeypatch.setattr(threads, "_pools", lambda: both)
    return both


def counts(pools):
    return [pool.num_threads for pool in pools]


def test_few_points_get_one_thread(pools):
    with blas_threads_for(SMALL - 1):
        assert counts(pools) == [1, 1]
    assert counts(pools) == [8, 6]


def test_many_points_keep_scipys_threads_only(pools):
    with blas_threads_for(SMALL):
        assert counts(pools) == [1, 6]
    assert counts(pools) == [8, 6]


def test_a_single_pool_keeps_its_threads_for_many_points(pools):
    del pools[1]
    with blas_threads_for(SMALL):
        assert counts(pools) == [8]


def test_threads_are_restored_after_an_exception(pools):
    with pytest.raises(ZeroDivisionError), blas_threads_for(10):
        raise ZeroDivisionError
    assert counts(pools) == [8, 6]
    with blas_threads_for(10):
        assert counts(pools) == [1, 1]
    assert counts(pools) == [8, 6]


def test_an_inner_use_has_its_own_threads_and_gives_them_back(pools):
    with blas_threads_for(SMALL):
        with blas_threads_for(10):
            assert counts(pools) == [1, 1]
        assert counts(pools) == [1, 6]
    assert counts(pools) == [8, 6]


def test_an_exception_in_an_inner_use_leaves_the_outer_ones_threads(pools):
    with blas_threads_for(10):
        with pytest.raises(ZeroDivisionError), blas_threads_for(SMALL):
            raise ZeroDivisionError
        assert counts(pools) == [1, 1]
    assert counts(pools) == [8, 6]


def test_another_python_thread_changes_nothing(pools):
    seen = []

    def other():
        with blas_threads_for(10):
            seen.append(counts(pools))

    with blas_threads_for(SMALL):
        worker = threading.Thread(target=other)
        worker.start()
        worker.join()
    assert seen == [[1, 6]]
    assert counts(pools) == [8, 6]


def test_the_real_pools_are_left_as_they_were():
    real = threads._pools()
    before = counts(real)
    assert before
    with blas_threads_for(10):
        assert set(counts(real)) == {1}
    assert counts(real) == before
