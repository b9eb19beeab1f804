"""No condition for --where executes, writes, hangs or ends in anything but a refusal."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hostile_where import KNOWN
from where_cases import condition, damaged, hostile, make_table, render, run, trouble, watched


def test_known_and_generated_conditions():
    assert run(count=1500, seed=0) == []


def test_there_are_enough_and_they_differ():
    assert len(KNOWN) == len(set(KNOWN)) >= 200
    rng = random.Random(1)
    for generate in (hostile, damaged, lambda rng: render(condition(rng, 3))):
        assert len({generate(rng) for _ in range(300)}) > 250


class Gullible:
    """A table whose conditions are run by Python."""

    def rows_where(self, expression):
        return eval(expression)  # what the language replaces

    def __len__(self):
        return 1


@pytest.mark.parametrize(
    "attack", ["open(CANARY, 'w').close()", "__import__('os').system('true')", "eval('1')", "[].no", "1 / 0", "1 is 1"]
)
def test_the_check_would_notice(tmp_path, attack):
    expression = attack.replace("CANARY", repr(str(tmp_path / "canary")))
    assert trouble(Gullible(), expression, must_refuse=True)


def test_the_watch_sees_what_happens_inside_only(tmp_path):
    with watched() as events:
        Path(tmp_path / "inside").write_text("")
    Path(tmp_path / "outside").write_text("")
    assert len([event for event in events if "inside" in event]) == 1
    assert not any("outside" in event for event in events)


def test_a_valid_condition_in_a_hostile_place_is_no_failure():
    assert trouble(make_table(), "x > 1", must_refuse=False) == ""
    assert "was accepted" in trouble(make_table(), "x > 1", must_refuse=True)
