"""A sample of damaged model files, and those that once were not refused properly."""

from __future__ import annotations

import io

import model_files
import numpy as np
import pytest
from model_files import MODELS, SCHEMA, Contents, apart, nodes, originals, together


def a_transform_that_is_a_type(contents: Contents) -> None:
    schema = contents.json(SCHEMA)
    for node in nodes(schema):
        if node["__module__"] == "biasgp.response" and node["__class__"] != "Scaling":
            node.update(__module__="builtins", __class__="str", __loader__="TypeNode")
    contents.set_json(SCHEMA, schema)


def a_reading_far_beyond_the_others(contents: Contents) -> None:
    for name in contents.arrays():
        X = np.load(io.BytesIO(contents.entries[name]))
        if X.ndim == 2 and X.shape[1] == 1:
            X[5] = 1e308
            buffer = io.BytesIO()
            np.save(buffer, X)
            contents.entries[name] = buffer.getvalue()


def triangles_of_zeros(contents: Contents) -> None:
    for name in contents.arrays():
        triangle = np.load(io.BytesIO(contents.entries[name]))
        if triangle.shape == (105,):
            buffer = io.BytesIO()
            np.save(buffer, np.zeros(105))
            contents.entries[name] = buffer.getvalue()
            return
    contents.entries.pop(contents.arrays()[0])  # a model without one: another damage


def a_value_whose_square_is_infinite(contents: Contents) -> None:
    for name in contents.arrays():
        y = np.load(io.BytesIO(contents.entries[name]))
        if y.shape == (14,) and y.dtype == np.float64:
            y[-1] = -1e300
            buffer = io.BytesIO()
            np.save(buffer, y)
            contents.entries[name] = buffer.getvalue()


FOUND = (
    a_transform_that_is_a_type,
    a_reading_far_beyond_the_others,
    triangles_of_zeros,
    a_value_whose_square_is_infinite,
)


def test_a_sample_of_damaged_files_is_refused_or_predicts():
    assert model_files.run(len(model_files.DAMAGES) * 12, 7) == []


@pytest.mark.parametrize("method", range(len(MODELS)), ids=MODELS)
@pytest.mark.parametrize("change", FOUND, ids=lambda change: change.__name__)
def test_files_that_were_once_accepted(change, method, tmp_path):
    contents = apart(originals()[method])
    change(contents)
    data = together(contents)
    assert data != originals()[method]
    assert model_files.trouble_with(data, tmp_path / "model.skops") == ""


def test_what_is_run_would_be_heard_and_what_hangs_would_end(monkeypatch, tmp_path):
    monkeypatch.setattr(model_files, "load_model", lambda path: __import__("os").system("true"))
    assert model_files.trouble_with(b"", tmp_path / "model.skops") == "runs os.system"
    monkeypatch.setattr(model_files, "SLOW", 0.05)
    monkeypatch.setattr(model_files, "load_model", lambda path: __import__("time").sleep(5.0))
    assert "takes more than" in model_files.trouble_with(b"", tmp_path / "model.skops")
