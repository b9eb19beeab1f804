"""What is asked first, and about which readings as one."""

from __future__ import annotations

import numpy as np
import pytest

from biasgp import SparseBiasGP
from biasgp.analysis.questions import (
    ALIKE,
    CHECK,
    EPISODE,
    FALSE_ALARMS,
    READING,
    Labels,
    ReadingSet,
    questions,
    ranked,
)
from biasgp.kernels import Matern32

pytestmark = pytest.mark.filterwarnings("ignore::biasgp.UntrustworthyFitWarning")


def some(rows, probability=0.5, about=EPISODE):
    return ReadingSet(about, tuple(rows), probability, "a fault", "the truth")


def test_a_set_is_worth_the_labels_that_each_answer_changes_times_its_probability():
    flagged = np.array([True, True, True, False])
    assert some(range(4), 0.9).worth(flagged, np.arange(4)) == pytest.approx(0.9 * 1 + 0.1 * 3)
    assert some(range(4), 0.9).worth(flagged, np.array([0, 1])) == pytest.approx(0.2)


def test_what_is_worth_most_comes_first_and_readings_of_a_set_are_not_asked_about_twice():
    single = np.array([0.5, 0.4, 0.3, 0.0, 0.45, np.nan])
    flagged, open_ones = np.array([True, True, True, False, True, True]), np.ones(6, dtype=bool)
    found = ranked([some(range(3), 0.6)], Labels(single, flagged, open_ones))
    assert [each.rows for each in found] == [(0, 1, 2), (4,)]
    assert found[0].worth == pytest.approx(1.2) and found[1].about == READING
    # A set that is worth less than its readings follows them.
    found = ranked([some(range(3), 0.95)], Labels(single, flagged, open_ones))
    assert [each.rows for each in found] == [(0,), (4,), (1,), (2,), (0, 1, 2)]
    # With a verdict on most of it, it is no question any more.
    open_ones[:2] = False
    assert [each.rows for each in ranked([some(range(3), 0.6)], Labels(single, flagged, open_ones))] == [(4,), (2,)]


def test_what_is_neither_is_halved_as_long_as_there_is_something_to_halve():
    single, flagged, open_ones = np.zeros(12), np.zeros(12, dtype=bool), np.ones(12, dtype=bool)
    rows = (*range(0, 12, 2), *range(1, 12, 2))
    passed = [range(12)]
    found = ranked([some(rows)], Labels(single, flagged, open_ones), passed)
    assert [each.rows for each in found] == [tuple(range(0, 12, 2)), tuple(range(1, 12, 2))]
    passed.append(found[0].rows)
    found = ranked([some(rows)], Labels(single, flagged, open_ones), passed)
    assert [each.rows for each in found] == [tuple(range(1, 12, 2)), (0, 2, 4), (6, 8, 10)]
    passed += [each.rows for each in found]
    assert [len(each.rows) for each in ranked([some(rows)], Labels(single, flagged, open_ones), passed)] == [3, 3]


def test_a_flag_beyond_doubt_is_asked_about_when_nothing_else_is_left():
    flagged = np.array([True, False])
    (one,) = ranked([], Labels(np.zeros(2), flagged, np.ones(2, dtype=bool)))
    assert one.rows == (0,) and one.worth == FALSE_ALARMS
    assert ranked([], Labels(np.zeros(2), flagged, np.ones(2, dtype=bool)), [(0,)]) == []


@pytest.fixture(scope="module")
def model():
    """Eight days, hourly: a check at 03:00 that reads zero, peaks at odd times, and a shift."""
    hours = np.arange(8 * 24.0)
    rng = np.random.default_rng(3)
    y = 10.0 + np.sin(hours / 9.0) + 0.1 * rng.standard_normal(len(hours))
    y[3::24] = 0.2 + 0.1 * rng.standard_normal(8)
    y[27] = 10.5  # the check of the second day was left out
    y[[10, 40, 62, 90, 130, 138, 161]] += 4.0
    y[101:113] += 2.5
    return SparseBiasGP(Matern32(), response="identity").fit(hours[:, None], y), hours


def test_checks_episodes_and_flags_that_are_alike_are_asked_about_as_one(model):
    fitted, hours = model
    found = {each.about: each for each in questions(fitted, hours, most=50) if each.about != READING}
    assert found[CHECK].rows == tuple(range(3, 192, 24))
    assert "every day at 03:00" in found[CHECK].of.if_bad
    assert found[EPISODE].rows == tuple(range(101, 113)) and "too high" in found[EPISODE].of.if_bad
    assert set(found[ALIKE].rows) == {10, 40, 62, 90, 130, 138, 161}
    assert "7 faults" in found[ALIKE].of.if_bad and "peaks of the truth: 4%" in found[ALIKE].of.if_good
    # Without a clock there are no checks.
    assert CHECK not in {each.about for each in questions(fitted)}


def test_an_answer_about_several_changes_what_it_is_expected_to(model):
    fitted, hours = model
    first = next(each for each in questions(fitted, hours, most=50) if each.about == CHECK)
    assert first.worth == pytest.approx(7 / 8 * 1 + 1 / 8 * 7)  # seven of eight are flagged
    verdict = fitted.verdict_.copy()
    verdict[list(first.rows)] = 1.0
    before = fitted.outlier_mask_.copy()
    after = fitted.refit(verdict)
    assert after.outlier_mask_[27] and not before[27]
    assert all(set(each.rows).isdisjoint(first.rows) for each in questions(after, hours))
