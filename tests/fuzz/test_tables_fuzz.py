"""Generated tables are read right or refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from biasgp.data import column, csv_text
from biasgp.data.numbers import tidy
from biasgp.data.times import parse_times
from tables import DAMAGES, draw_dialect, draw_rows, run


def test_tables_in_any_dialect_whole_and_damaged():
    assert run(count=400, seed=0) == []


def test_dialects_differ():
    dialects = {draw_dialect(np.random.default_rng(i)) for i in range(300)}
    assert len(dialects) > 250 and len({dialect.date_form for dialect in dialects}) == 12
    _, rows = draw_rows(np.random.default_rng(0), draw_dialect(np.random.default_rng(0)))
    assert len(rows) > 8 and len(DAMAGES) == 7


def test_a_misreading_is_found(monkeypatch):
    """Every comma taken for a decimal mark."""
    points = property(lambda self: [tidy(str(cell)).replace(",", ".") for cell in self.cells])
    monkeypatch.setattr(column.Column, "_tidied", points)
    assert any("are not those that were written" in words for words in run(count=150, seed=0))


def test_times_an_hour_late_are_found(monkeypatch):
    def late(*given: Any) -> Any:
        found = parse_times(*given)
        return replace(found, values=found.values + np.timedelta64(1, "h"))

    monkeypatch.setattr(column, "parse_times", late)
    assert any("of column 0 are not those that were written" in words for words in run(count=20, seed=0))


def test_a_lost_row_is_found(monkeypatch):
    frame = csv_text._frame
    monkeypatch.setattr(csv_text, "_frame", lambda rows, columns: frame(rows, columns).iloc[:-1])
    assert any(" rows of " in words for words in run(count=20, seed=0))


def test_a_wrong_cell_far_from_the_damage_is_found(monkeypatch):
    """One digit of one cell."""
    read = column.Column._numbers.func

    def wrong(self: Any) -> Any:
        found = read(self)
        found[len(found) // 2] *= 1.01
        return found

    monkeypatch.setattr(column.Column, "_numbers", property(wrong))
    failures = run(count=150, seed=0)
    assert any("1 values of column" in words and "(none," not in words for words in failures)


@pytest.mark.parametrize("broken", [KeyError("odd"), OverflowError("far")])
def test_an_exception_is_found(monkeypatch, broken):
    def fail(*_: object) -> None:
        raise broken

    monkeypatch.setattr(column, "parse_times", fail)
    assert any(type(broken).__name__ in words for words in run(count=10, seed=0))
