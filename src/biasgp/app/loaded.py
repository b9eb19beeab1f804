"""A project's table as its options have it read: the readings, the sensors among them, or why it cannot be read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Mask
from biasgp.analysis.fitting import Selection, Settings
from biasgp.analysis.places import Axis
from biasgp.app.options import Options, on_page
from biasgp.data.columns import MIN_READINGS, Readings
from biasgp.data.table import Table
from biasgp.fleet import FleetGroup
from biasgp.messages import TableError, WrongUseError

Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Loaded:
    """What was understood of a table. Without a `problem`, all of it is there."""

    path: Path
    options: Options
    table: Table | None = None
    readings: Readings | None = None
    groups: dict[str, FleetGroup] = field(default_factory=dict)
    problem: str = ""

    @classmethod
    def of(cls, path: Path, options: Options, table: Table | None = None) -> Loaded:
        """Read it; `table` is what was read of the file before, where the options for that are the same."""
        try:
            selection = options.selection(str(path))
            settings = options.settings()
            table = selection.table() if table is None else table
        except (TableError, WrongUseError, MemoryError) as error:
            return cls(
                path, options, problem=on_page(str(error) or "The table is too large for this machine's memory.")
            )
        groups: dict[str, FleetGroup] = {}
        try:
            rest = table
            if options.by is not None:
                column = table.column(options.by)
                groups = {each.name: each for each in FleetGroup.all_in(column.cells.where(~column.missing))}
                if not groups:
                    raise WrongUseError(f"Column {options.by!r} names no sensor: all its cells are empty.")
                rest = replace(table, cells=table.cells.drop(columns=[options.by]))
            readings = selection.readings(rest, options.events_table())
            settings.settled(readings.features)
        except (TableError, WrongUseError) as error:
            return cls(path, options, table, problem=on_page(str(error)))
        return cls(path, options, table, readings, groups)

    @property
    def settings(self) -> Settings:
        """How to fit, for the columns that were found."""
        assert self.readings is not None
        return self.options.settings().settled(self.readings.features)

    @property
    def selection(self) -> Selection:
        """The columns that were found, by name."""
        assert self.readings is not None
        columns = tuple(name for feature in self.readings.features for name in feature.columns)
        return replace(self.options.selection(str(self.path)), target=self.readings.target, features=columns)

    def part(self, sensor: str) -> tuple[Table, Readings, Rows | None]:
        """The table, readings and rows of a sensor; of the whole table where there are no sensors."""
        assert self.table is not None and self.readings is not None
        if not self.groups:
            return self.table, self.readings, None
        group, selection = self.groups[sensor], self.selection
        assert isinstance(selection.features, tuple)
        table = self.table.part(f"sensor {sensor!r}", group.rows, [self.readings.target, *selection.features])
        return table, selection.readings(table, self.options.events_table()), group.rows

    @cached_property
    def axis(self) -> Axis:
        """What all rows are drawn against: the first time, else the first feature."""
        assert self.readings is not None
        j = next((j for j, feature in enumerate(self.readings.features) if feature.is_time), 0)
        return Axis.of(self.readings.features[j], self.readings.X[:, j])

    @cached_property
    def usable(self) -> Mask:
        """Rows that can be judged: those that are used."""
        assert self.readings is not None
        return self.readings.kept

    @cached_property
    def sensor_of(self) -> NDArray[np.object_]:
        """The sensor that each row is of; None where there is none."""
        names = np.full(len(self.usable), None, dtype=object)
        for name, group in self.groups.items():
            names[group.rows] = name
        return names

    def inside(self, sensor: str | None) -> Mask:
        """Usable rows of a sensor, or of all."""
        return self.usable if sensor is None else self.usable & (self.sensor_of == sensor)

    @property
    def fit_for(self) -> list[str]:
        """Sensors with enough readings; the others cannot be fitted."""
        return [name for name in self.groups if int(self.inside(name).sum()) >= MIN_READINGS]
