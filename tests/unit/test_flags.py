"""Flags of QARTOD and CF from what is known of each row."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from biasgp.analysis.flags import FlagScheme, flags_of
from biasgp.messages import WrongUseError

NAN = np.nan


def outcome(**changes):
    """Seven rows: good, doubtful, bad, in a shift, missing, not used, and a detection limit."""
    found = {
        "probability": np.array([0.01, 0.6, 0.99, 0.97, NAN, NAN, NAN]),
        "kind": np.array(["", "spike", "group", "shift", "", "", ""], dtype=object),
        "estimator": SimpleNamespace(outlier_mask_=None),
        **changes,
    }
    probability = found["probability"]
    readings = SimpleNamespace(
        target="y",
        y=np.array([1.0, 2.0, 3.0, 4.0, NAN, 5.0, 0.5]),
        kept=np.array([True] * 4 + [False] * 3),
        complete=np.ones(7, dtype=bool),
        censored=np.array([0.0] * 6 + [-1.0]),
    )
    flagged = np.nan_to_num(probability) > 0.5 if np.isfinite(probability).any() else np.arange(7) == 2
    return SimpleNamespace(
        readings=readings,
        verdict=SimpleNamespace(probability=probability, flagged=flagged),
        fitted=SimpleNamespace(estimator=found["estimator"]),
        explained={"kind": found["kind"]} if found["kind"] is not None else {},
    )


def test_qartod():
    found = flags_of(outcome(), FlagScheme("qartod"))
    assert found.column == "y_qartod"
    assert found.values.tolist() == [1, 3, 4, 4, 9, 2, 2] and found.values.dtype == np.int8
    assert found.counts == {"pass": 1, "not_evaluated": 2, "suspect": 1, "fail": 2, "missing": 1}


def test_thresholds_decide():
    assert flags_of(outcome(), FlagScheme("qartod", 0.005, 0.98)).values.tolist() == [3, 3, 4, 3, 9, 2, 2]
    assert flags_of(outcome(), FlagScheme("qartod", 0.7, 0.7)).values.tolist() == [1, 1, 4, 4, 9, 2, 2]
    for suspect, fail in ((0.0, 0.5), (0.6, 0.5), (0.5, 1.1), (NAN, 0.9)):
        with pytest.raises(WrongUseError, match="--suspect-at"):
            FlagScheme("qartod", suspect, fail)


def test_cf_names_the_kind():
    found = flags_of(outcome(), FlagScheme("cf"))
    words = [found.meanings[code] for code in found.values.tolist()]
    assert words == ["good", "spike", "group_of_outliers", "shift", "missing", "not_evaluated", "detection_limit"]


def test_a_method_without_probabilities_says_yes_or_no():
    plain = outcome(probability=np.full(7, NAN), kind=None)
    assert flags_of(plain, FlagScheme("qartod")).values.tolist() == [1, 1, 4, 1, 9, 2, 2]
    assert flags_of(plain, FlagScheme("cf")).values.tolist() == [0, 0, 7, 0, 9, 8, 10]


def test_a_method_that_flags_nothing_evaluates_nothing():
    plain = outcome(estimator=SimpleNamespace())
    assert flags_of(plain, FlagScheme("qartod")).values.tolist() == [2, 2, 2, 2, 9, 2, 2]
    assert flags_of(plain, FlagScheme()) is None
