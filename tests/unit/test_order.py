"""The order of the readings, and the events of each group on it."""

from __future__ import annotations

import io

import pandas as pd
import pytest

from biasgp.analysis.fitting import Settings
from biasgp.analysis.order import EventTable, order_column
from biasgp.data.columns import Feature, choose
from biasgp.data.table import Table
from biasgp.messages import WrongUseError

TIME, A, B = Feature("time", ("time",), is_time=True), Feature("a", ("a",)), Feature("b", ("b",))


def table(text: str, name: str = "s.csv") -> Table:
    return Table(name, pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False))


@pytest.mark.parametrize(
    ("features", "column"), [((A, TIME), 1), ((TIME, Feature("t2", ("t2",), True)), 0), ((A,), 0), ((A, B), None)]
)
def test_the_order_is_that_of_the_first_time_or_of_the_only_feature(features, column):
    assert order_column(features) == column
    assert Settings(episodes=None).settled(features).episodes == (column is not None)
    assert Settings("gp", episodes=None).settled(features).episodes is False
    assert Settings(episodes=False).settled(features).episodes is False


def test_what_is_asked_for_and_cannot_be_is_refused():
    with pytest.raises(WrongUseError, match=r"none of the features is a time \(a, b\)"):
        Settings(episodes=True).settled((A, B))


READINGS = table("time,y\n" + "".join(f"{day}/5/2003,{day}\n" for day in range(10, 20)), "r.csv")


def test_the_events_of_a_group_are_read_as_the_whole_file_is():
    """5/6 alone may be either; that it is the sixth of May here is known from another group's 5/16."""
    _, features, _ = choose(READINGS, "y", ["time"])
    events = table("who,time,at\n1,5/6/2003,x\n2,5/16/2003,x\n1,5/7/2003,x\n")
    parts = EventTable(events, READINGS, features).by_group("who", ["1", "2", "3"])
    hours = {name: (EventTable(part, READINGS, features).values() / 24.0).tolist() for name, part in parts.items()}
    assert hours == {"1": [-4.0, -3.0], "2": [6.0]}


def test_events_that_do_not_tell_are_read_as_the_readings_are():
    _, features, _ = choose(READINGS, "y", ["time"])
    parts = EventTable(table("time,who\n5/6/2003,1\n"), READINGS, features).by_group("who", ["1"])
    assert (EventTable(parts["1"], READINGS, features).values() / 24.0).tolist() == [26.0]
