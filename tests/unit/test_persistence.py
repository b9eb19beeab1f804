"""Model files: what comes back is what was saved, and nothing else comes in."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections import OrderedDict

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.linear_model import LinearRegression

from biasgp import BiasGPWarning, GaussianGP
from biasgp.estimators.methods import METHODS
from biasgp.kernels import Linear, SquaredExponential
from biasgp.persistence import DIGEST, NOTE, SEAL, ModelFileError, load_model, read_model, save_model

pytestmark = pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")


class Foreign:
    """A class that is not ours, and tells when it is made."""

    made = 0

    def __setstate__(self, state):
        type(self).made += 1


@pytest.fixture(scope="module")
def saved(one_d, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.skops"
    save_model(path, GaussianGP().fit(one_d.X, one_d.y), {"target": "y"})
    return path


def sealed(body: bytes) -> bytes:
    """A file with the right checksum, whatever is in it."""
    return body + hashlib.sha256(body).hexdigest().encode()


def archive(content: object, note: object) -> bytes:
    buffer = io.BytesIO(skops.io.dumps(content))
    with zipfile.ZipFile(buffer, "a") as file:
        file.writestr(NOTE, json.dumps(note))
        file.comment = SEAL + b"0" * DIGEST
    return sealed(buffer.getvalue()[:-DIGEST])


@pytest.mark.parametrize("response", ["identity", "log"])
@pytest.mark.parametrize("method", METHODS)
def test_predictions_come_back_bit_for_bit(method, response, one_d, tmp_path):
    X = pd.DataFrame(one_d.X, columns=["time"])
    kernel = SquaredExponential(ard=True).on("time") + Linear()
    model = METHODS[method](kernel, response=response).fit(X, one_d.y)
    save_model(tmp_path / "model.skops", model, {"features": ["time"]})
    back = read_model(tmp_path / "model.skops")
    new = pd.DataFrame(one_d.X_test, columns=["time"])
    for before, after in zip(
        model.predict(new, return_std=True), back.estimator.predict(new, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(before, after)
    y = one_d.f_test if hasattr(one_d, "f_test") else np.full(len(new), float(np.median(one_d.y)))
    np.testing.assert_array_equal(model.log_predictive_density(new, y), back.estimator.log_predictive_density(new, y))
    assert back.about == {"features": ["time"]}
    assert repr(back.estimator.kernel_) == repr(model.kernel_)


def test_a_whole_file_loads(saved):
    assert isinstance(load_model(saved), GaussianGP)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_file_cut_short_is_refused(saved, tmp_path, share):
    data = saved.read_bytes()
    short = tmp_path / "short.skops"
    short.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ModelFileError, match=r"cut short|not a model file|damaged"):
        load_model(short)


def test_a_file_with_any_byte_changed_is_refused(saved, tmp_path, rng):
    data = saved.read_bytes()
    changed = tmp_path / "changed.skops"
    for at in [len(data) - 1, len(data) - DIGEST - 3, *rng.integers(0, len(data), 25).tolist()]:
        changed.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(ModelFileError):
            load_model(changed)


def test_a_file_of_a_newer_version_is_refused(tmp_path):
    path = tmp_path / "newer.skops"
    path.write_bytes(archive({}, {"format": 99, "biasgp": "9.1"}))
    with pytest.raises(ModelFileError, match=r"biasgp 9\.1, which is newer"):
        load_model(path)


def test_foreign_types_are_refused_and_nothing_of_them_runs(tmp_path, one_d):
    model = GaussianGP().fit(one_d.X, one_d.y)
    thing = Foreign()
    thing.x = 1
    model.extra = thing
    Foreign.made = 0
    path = tmp_path / "foreign.skops"
    save_model(path, model)
    with pytest.raises(ModelFileError, match="Foreign"):
        load_model(path)
    assert Foreign.made == 0


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "biasgp.cli.main", "biasgp.kernels.as_kernel"])
def test_functions_are_refused_even_our_own(tmp_path, name):
    module, function = name.rsplit(".", 1)
    node = {"__class__": function, "__module__": module, "__loader__": "FunctionNode"}
    schema = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": [node]}
    schema |= {"protocol": 2, "_skops_version": skops.__version__}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("schema.json", json.dumps(schema))
        file.writestr(NOTE, json.dumps({"format": 1}))
        file.comment = SEAL + b"0" * DIGEST
    path = tmp_path / "function.skops"
    path.write_bytes(sealed(buffer.getvalue()[:-DIGEST]))
    with pytest.raises(ModelFileError, match=r"not biasgp's|cannot be loaded"):
        load_model(path)


@pytest.mark.parametrize("content", [{"a": 1}, LinearRegression(), OrderedDict()])
def test_a_file_that_holds_something_else_is_refused(tmp_path, content):
    path = tmp_path / "else.skops"
    path.write_bytes(archive(content, {"format": 1}))
    with pytest.raises(ModelFileError, match="not a model of biasgp"):
        load_model(path)


@pytest.mark.parametrize("note", ["text", {"format": "1"}, [], {}])
def test_a_file_with_notes_that_make_no_sense_is_refused(tmp_path, note):
    path = tmp_path / "odd.skops"
    path.write_bytes(archive({}, note))
    with pytest.raises(ModelFileError, match="damaged"):
        load_model(path)


def test_other_files_are_refused(tmp_path, one_d):
    path = tmp_path / "other.skops"
    with pytest.raises(ModelFileError, match="no file"):
        load_model(path)
    path.write_bytes(b"not a zip at all")
    with pytest.raises(ModelFileError, match="not a model file"):
        load_model(path)
    skops.io.dump(GaussianGP().fit(one_d.X, one_d.y), path)
    with pytest.raises(ModelFileError, match="not one that biasgp wrote"):
        load_model(path)
    skops.io.dump({"a": 1}, path, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelFileError, match="compressed"):
        load_model(path)
    with pytest.raises(ModelFileError, match="cannot be read"):
        load_model(tmp_path)


def test_the_warnings_that_are_filtered_above_are_ours():
    assert issubclass(BiasGPWarning, UserWarning)
