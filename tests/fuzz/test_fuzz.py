"""A thousand generated pairs, every case that ever failed, and the driver; the rest have tests beside this one."""

from __future__ import annotations

import drive
import pairs
import pytest
from cases import CASES

PAIRS, AT_A_TIME = 1000, 25
"""In chunks, so that they spread over the processes of a test run."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_failed_once_does_not_fail_again(case):
    assert pairs.fault(case.build()) == "", case.wrong


@pytest.mark.parametrize("chunk", range(PAIRS // AT_A_TIME))
def test_generated_pairs_are_fitted_or_refused(chunk):
    assert pairs.run(AT_A_TIME, chunk) == []


class TestDriver:
    """`make fuzz` runs every generator, and fails if one of them finds something."""

    def outcome(self, monkeypatch, name):
        monkeypatch.setattr(drive, "GENERATORS", dict.fromkeys(drive.GENERATORS, 10))
        monkeypatch.setattr("sys.argv", ["drive.py", "--only", name, "--chunk", "1000001"])
        return drive.main()

    @pytest.mark.parametrize("name", drive.GENERATORS)
    def test_a_chunk_of_each_generator(self, name, monkeypatch, capsys):
        assert self.outcome(monkeypatch, name) == 0
        assert f"10 {name}; 0 failed" in capsys.readouterr().out

    def test_a_failure_is_told_and_fails(self, monkeypatch, capsys):
        monkeypatch.setattr(pairs, "_check_attributes", lambda model, drawn: pairs._hold(False, "spoiled"))
        assert self.outcome(monkeypatch, "pairs") == 1
        out = capsys.readouterr().out
        assert "Wrong: spoiled" in out
        assert "python tests/fuzz/pairs.py 1000001" in out
        assert "drive.py --only pairs --chunk 1000001" in out


def test_a_pair_is_the_same_whenever_it_is_drawn():
    one, other = pairs.pair(3, 14), pairs.pair(3, 14)
    assert one.words == other.words
    assert one.words != pairs.pair(3, 15).words
    assert str(one.data) == str(other.data)


def test_every_estimator_is_drawn():
    found = pairs.tally(200, 0)
    assert len(found) == 6
    assert min(found.values()) > 10


class TestFaults:
    """The checks find what they are there for."""

    @pytest.fixture
    def good(self):
        return next(case.build() for case in CASES if case.name == "a linear kernel on constant columns")

    def spoil(self, monkeypatch, name, make):
        from biasgp.estimators.base import BaseGP

        original = getattr(BaseGP, name)
        monkeypatch.setattr(BaseGP, name, lambda self, *args, **kwargs: make(original(self, *args, **kwargs)))

    @pytest.mark.parametrize(
        ("name", "make", "words"),
        [
            ("predict", lambda out: (out[0], 0.0 * out[1]) if isinstance(out, tuple) else out, "std with noise is 0"),
            ("predict", lambda out: (out[0] + float("nan"), out[1]) if isinstance(out, tuple) else out, "mean is"),
            ("predict", lambda out: (out[0] + 1e9, out[1]) if isinstance(out, tuple) else out, "at reading"),
            ("predict_quantiles", lambda out: out[:, ::-1], "out of order"),
            ("sample_y", lambda out: out[:-1], "shape"),
        ],
    )
    def test_a_wrong_answer_is_found(self, good, monkeypatch, name, make, words):
        self.spoil(monkeypatch, name, make)
        assert words in pairs.fault(good)

    def test_a_warning_of_numpy_is_found(self, good, monkeypatch):
        import numpy as np

        self.spoil(monkeypatch, "predict", lambda out: (np.log(np.zeros(1)), out)[1])
        assert "RuntimeWarning: divide by zero" in pairs.fault(good)

    def test_a_refusal_that_is_not_ours_is_found(self, good, monkeypatch):
        from biasgp.estimators.base import BaseGP

        def fail(self, *args, **kwargs):
            raise ValueError("operands could not be broadcast together")

        monkeypatch.setattr(BaseGP, "fit", fail)
        assert "operands could not be broadcast" in pairs.fault(good)
