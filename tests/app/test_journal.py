"""The journal of verdicts: what is in it is what was said, whatever happened to the process that wrote it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from biasgp.app.journal import BAD, GOOD, OPEN, Journal, ranges
from biasgp.messages import WrongUseError


def mark(rows, verdict="bad", table="t", target="y"):
    about = {"verdict": verdict, "why": "a truck", "who": "me", "when": "now", "rows": rows}
    return {"action": "mark", "table": table, "target": target, **about}


def step(action):
    return {"action": action, "table": "t", "target": "y", "when": "now"}


def codes(journal, n=8):
    return journal.history("t", "y").verdicts(n).codes.tolist()


def test_later_verdicts_replace_earlier_ones_row_by_row(tmp_path):
    journal = Journal(tmp_path / "j")
    journal.append(mark([[1, 3]], "bad"))
    journal.append(mark([[2, 2]], "good"))
    journal.append(mark([[3, 3]], "open"))
    assert codes(journal, 4) == [BAD, GOOD, OPEN, OPEN]
    assert codes(Journal(tmp_path / "j"), 4) == [BAD, GOOD, OPEN, OPEN]


def test_undo_and_redo_go_along_the_actions_and_a_new_one_ends_what_could_be_redone(tmp_path):
    journal = Journal(tmp_path / "j")
    history = journal.history("t", "y")
    for row in (1, 2, 3):
        journal.append(mark([[row, row]]))
    journal.append(step("undo"))
    journal.append(step("undo"))
    assert codes(journal, 3) == [BAD, OPEN, OPEN] and history.can_undo and history.can_redo
    journal.append(step("redo"))
    assert codes(journal, 3) == [BAD, BAD, OPEN]
    journal.append(mark([[1, 1]], "good"))
    assert codes(journal, 3) == [GOOD, BAD, OPEN] and not history.can_redo
    again = Journal(tmp_path / "j")
    assert codes(again, 3) == [GOOD, BAD, OPEN] and not again.history("t", "y").can_redo


def test_random_sessions_are_replayed_as_they_were(tmp_path):
    """Against a plain list of states, with an undo stack as an editor has it."""
    rng = np.random.default_rng(5)
    journal, states, at = Journal(tmp_path / "j"), [[OPEN] * 8], 0
    for _ in range(200):
        action = rng.choice(["mark", "mark", "undo", "redo"])
        if action == "mark":
            first, last = sorted(rng.integers(1, 9, 2).tolist())
            verdict = str(rng.choice(["good", "bad", "open"]))
            journal.append(mark([[first, last]], verdict))
            state = list(states[at])
            state[first - 1 : last] = [{"open": OPEN, "good": GOOD, "bad": BAD}[verdict]] * (last - first + 1)
            states[at + 1 :] = [state]
            at += 1
        else:
            journal.append(step(action))
            at = max(at - 1, 0) if action == "undo" else min(at + 1, len(states) - 1)
        assert codes(journal) == states[at]
    assert codes(Journal(tmp_path / "j")) == states[at]


def test_verdicts_are_those_of_one_table_and_one_column(tmp_path):
    journal = Journal(tmp_path / "j")
    journal.append(mark([[1, 1]]))
    journal.append(mark([[2, 2]], table="other"))
    journal.append(mark([[3, 3]], target="temperature"))
    assert codes(journal, 3) == [BAD, OPEN, OPEN]
    assert journal.version == 3


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_line_that_was_cut_short_is_dropped_and_the_next_is_whole(tmp_path, cut):
    path = tmp_path / "j"
    journal = Journal(path)
    journal.append(mark([[1, 1]]))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:cut])
    again = Journal(path)
    assert codes(again, 2) == [BAD, OPEN] and path.read_bytes() == whole
    again.append(mark([[2, 2]], "good"))
    assert codes(Journal(path), 2) == [BAD, GOOD]


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"action":"erase","table":"t","target":"y"}',
        b'{"action":"undo","table":1,"target":"y"}',
        json.dumps(mark([[0, 1]])).encode(),
        json.dumps(mark([[2, 1]])).encode(),
        json.dumps(mark([[1.5, 2]])).encode(),
        json.dumps(mark([[True, True]])).encode(),
        json.dumps(mark("all")).encode(),
        json.dumps(mark([[1, 1]], "maybe")).encode(),
        b"[" * 5000,
        b"\xff\xfe",
    ],
)
def test_a_line_that_is_none_is_refused_with_its_number(tmp_path, line):
    path = tmp_path / "j"
    Journal(path).append(mark([[1, 1]]))
    with path.open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(WrongUseError, match="Line 2 of"):
        Journal(path)


def test_whoever_only_reads_leaves_a_line_that_is_being_written(tmp_path):
    path = tmp_path / "j"
    Journal(path).append(mark([[1, 1]]))
    data = path.read_bytes() + b'{"action": "ma'
    path.write_bytes(data)
    assert codes(Journal(path, 1), 2) == [BAD, OPEN] and path.read_bytes() == data


def test_rows_are_kept_as_ranges():
    assert ranges(np.array([4, 0, 1, 2, 9, 4])) == [[1, 3], [5, 5], [10, 10]]
    assert ranges(np.arange(100_000)) == [[1, 100_000]]


def test_rows_beyond_a_table_are_no_error(tmp_path):
    """A journal may be older than the copy of the table beside it."""
    journal = Journal(tmp_path / "j")
    journal.append(mark([[7, 20]]))
    assert codes(journal, 8) == [OPEN] * 6 + [BAD] * 2


def test_the_digest_is_that_of_what_holds(tmp_path):
    journal = Journal(tmp_path / "j")
    journal.append(mark([[1, 1]]))
    before = journal.history("t", "y").verdicts(4).digest()
    journal.append(mark([[2, 2]]))
    assert journal.history("t", "y").verdicts(4).digest() != before
    journal.append(step("undo"))
    assert journal.history("t", "y").verdicts(4).digest() == before
