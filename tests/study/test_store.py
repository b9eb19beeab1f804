"""The file of finished tasks survives whatever stops its writer."""

from __future__ import annotations

import os

import pytest

from biasgp.runner import Outcome, Store, StoreError
from biasgp.staging import InUseError


def lines(path):
    return path.read_text().splitlines()


def test_what_was_added_is_there_again(tmp_path):
    path = tmp_path / "deep" / "tasks.jsonl"
    outcomes = [Outcome("a", "ok", {"x": 0.1}), Outcome("b", "failed", message="no\nway")]
    with Store(path) as store:
        for outcome in outcomes:
            store.add(outcome)
    with Store(path) as store:
        assert list(store.outcomes.values()) == outcomes
    assert len(lines(path)) == 2


@pytest.mark.parametrize("rest", ['{"key":"b","sta', '{"key":"b"', "{", "\0\0\0\n", '{"no":"outcome"}\n'])
def test_a_half_written_last_line_is_dropped_and_can_be_written_again(tmp_path, rest):
    path = tmp_path / "tasks.jsonl"
    with Store(path) as store:
        store.add(Outcome("a", "ok", 1))
    with path.open("a") as file:
        file.write(rest)
    with Store(path) as store:
        assert list(store.outcomes) == ["a"]
        store.add(Outcome("b", "ok", 2))
    with Store(path) as store:
        assert list(store.outcomes) == ["a", "b"]


def test_damage_in_the_middle_is_named(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text("garbage\n" + Outcome("a", "ok").line() + "\n")
    with pytest.raises(StoreError, match=r"Line 1 of .* is damaged"), Store(path):
        pass


def test_only_one_run_at_a_time(tmp_path):
    path = tmp_path / "tasks.jsonl"
    who = rf"Another run is writing to .*: process {os.getpid()} on .*, since 20\d\d-"
    with Store(path), pytest.raises(InUseError, match=who), Store(path):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["tasks.jsonl"]
    with Store(path) as store:
        store.add(Outcome("a", "ok"))


def test_a_closed_store_takes_nothing(tmp_path):
    with pytest.raises(StoreError, match="not open"):
        Store(tmp_path / "tasks.jsonl").add(Outcome("a", "ok"))
