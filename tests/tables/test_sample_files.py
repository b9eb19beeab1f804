"""Every sample file is read right without an option, or refused with the option named; none is misread."""

from __future__ import annotations

import numpy as np
import pytest
from sample_files import NAMES, SAMPLES, TEMPERATURE, write_all

from biasgp.data.columns import read_readings
from biasgp.data.table import Table, TableError

READ_AT_LEAST = 37


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_all(tmp_path_factory.mktemp("samples"))


def found_in(path, guessed):
    table = Table.read(path)
    return table, read_readings(table, None if guessed else "ozone", None)


@pytest.mark.parametrize("name", SAMPLES)
def test_it_is_read_right_or_refused_with_the_option(files, name):
    path, truth = files[name]
    if truth.refused:
        with pytest.raises(TableError) as refusal:
            found_in(path, truth.guessed)
        assert truth.refused in str(refusal.value) and "\n" not in str(refusal.value)
        return
    table, found = found_in(path, truth.guessed)
    assert found.target == "ozone" and found.names[-1] == "temperature"
    assert found.features[0].is_time and len(found.features) == 2
    n = len(truth.ozone)
    np.testing.assert_allclose(found.X, np.column_stack([np.arange(n), TEMPERATURE]))
    np.testing.assert_allclose(found.y, truth.ozone)
    codes = np.zeros(n) if found.censored is None else found.censored
    assert {i: int(code) for i, code in enumerate(codes) if code} == truth.censored
    assert {name: table.units[name] for name in NAMES[1:] if name in table.units} == truth.units


def test_there_are_enough(files):
    read = [name for name, (_, truth) in files.items() if not truth.refused]
    assert len(files) >= 40 and len(read) >= READ_AT_LEAST
