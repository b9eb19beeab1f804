"""A page without a table, and one with a fit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from app_pages import Page, opened, readings


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A page without a table."""
    with opened(tmp_path / "project") as found:
        yield found


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One with a table and a fit, which tests of a module share: they undo what they do."""
    with opened(tmp_path_factory.mktemp("fitted") / "project") as found:
        found.upload("readings.csv", readings().to_csv(index=False).encode())
        found.fit()
        yield found
