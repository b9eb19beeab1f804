"""Model files: what comes back is what was saved, and nothing else comes in."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.linear_model import LinearRegression

from biasgp import BiasGPWarning, GaussianGP
from biasgp.estimators import METHODS
from biasgp.kernels import Linear, Matern32, SquaredExponential
from biasgp.persistence import DIGEST, SEAL, ModelFileError, load_model, read_model, save_model
from biasgp.persistence.archive import NOTE

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


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"a": 1}, "not a model of biasgp"),
        (SquaredExponential(), "not a model of biasgp"),
        (LinearRegression(), "types that are not biasgp's"),
        (OrderedDict(), "types that are not biasgp's"),
    ],
)
def test_a_file_that_holds_something_else_is_refused(tmp_path, content, reason):
    path = tmp_path / "else.skops"
    path.write_bytes(archive(content, {"format": 1}))
    with pytest.raises(ModelFileError, match=reason):
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


DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize("path", sorted(DATA.glob("format-1-*.skops")), ids=lambda path: path.stem)
def test_files_of_format_1_still_load_and_predict_the_same(path):
    saved = read_model(path)
    mean, std = saved.estimator.predict(np.array(saved.about["at"]), return_std=True)
    np.testing.assert_allclose(mean, saved.about["mean"], rtol=1e-9)
    np.testing.assert_allclose(std, saved.about["std"], rtol=1e-7)


N = 600
"""Readings of a file that is mostly a matrix."""


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(N, 2))
    y = np.sin(6.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(N)
    y[::12] += 3.0
    return X, y


EXACT = ["sparse", "gp", "cob", "rab", "ep", "rcgp"]


@pytest.mark.parametrize("method", EXACT)
def test_a_file_holds_half_a_matrix_and_predicts_the_same_to_the_bit(method, many, tmp_path):
    X, y = many
    # Known variances, too: EP has them on the diagonal of its covariance.
    model = METHODS[method](max_iter=2).fit(X, y, np.linspace(0.0, 0.01, len(y)))
    path = tmp_path / "model.skops"
    save_model(path, model)
    new = np.random.default_rng(3).uniform(size=(40, 2))
    back = load_model(path)
    for other in (back, copy.deepcopy(model), pickle.loads(pickle.dumps(model)), roundtrip(back, tmp_path)):
        for before, after in zip(everything(model, new), everything(other, new), strict=True):
            np.testing.assert_array_equal(before, after)
    whole = 8 * len(y) ** 2
    if method == "ep":  # the covariance and two matrices with a column for each site of negative precision, as well
        sites = len(model._posterior.signed.minus)
        whole += 8 * (len(y) ** 2 + 2 * len(y) * sites + sites**2)
    # The readings and where the search ended are kept for a refit: some numbers per reading, and a hundred names.
    kept = 120_000 if method == "sparse" else 0
    assert path.stat().st_size <= 0.55 * whole + kept


def everything(model, X):
    """All that a model can say."""
    yield from model.predict(X, return_std=True)
    yield from model.predict(X, return_cov=True)
    yield model.predict_quantiles(X, [0.1, 0.9], include_noise=True)
    yield model.sample_y(X, 3)
    yield model.log_predictive_density(X, np.zeros(len(X)))


def roundtrip(model, folder):
    save_model(folder / "again.skops", model)
    return load_model(folder / "again.skops")


def forged(saved, folder, **changes):
    """The file with entries replaced (or, given twice, added) and the checksum made right again."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            new.writestr(name, changes.pop(name, None) or old.read(name))
        new.comment = SEAL + b"0" * DIGEST
    path = folder / "forged.skops"
    path.write_bytes(sealed(buffer.getvalue()[:-DIGEST]))
    return path


def test_a_file_of_any_format_may_use_the_old_name_of_a_class(saved, tmp_path):
    with zipfile.ZipFile(saved) as file:
        schema = file.read("schema.json").decode()
    old = schema.replace('"biasgp.kernels.stationary"', '"biasgp.kernels"')
    assert old != schema
    model = load_model(forged(saved, tmp_path, **{"schema.json": old}))
    assert repr(model.kernel_) == repr(load_model(saved).kernel_)


def test_a_note_of_nested_brackets_is_refused_in_one_line(saved, tmp_path):
    path = forged(saved, tmp_path, **{NOTE: "[" * 10_000 + "]" * 10_000})
    with pytest.raises(ModelFileError, match=r"^forged.skops cannot be loaded \(RecursionError.*again\.$"):
        load_model(path)


def test_a_schema_of_nested_brackets_is_refused(saved, tmp_path):
    for depth in (300, 10_000):
        nested = '{"a":' * depth + "1" + "}" * depth
        with pytest.raises(ModelFileError, match=r"nested deeper|RecursionError"):
            load_model(forged(saved, tmp_path, **{"schema.json": nested}))


def test_an_encrypted_entry_is_refused_in_one_line(saved, tmp_path):
    data = bytearray(saved.read_bytes())
    at = data.index(b"PK\x01\x02")
    while at >= 0:  # the flags of each entry in the directory
        data[at + 8] |= 1
        at = data.find(b"PK\x01\x02", at + 1)
    path = tmp_path / "encrypted.skops"
    path.write_bytes(sealed(bytes(data[:-DIGEST])))
    with pytest.raises(ModelFileError, match=r"^encrypted.skops was not written by biasgp \(it is encrypted\)\.$"):
        load_model(path)


@pytest.mark.parametrize("note", [{"format": True}, {"format": 1.0}, {"format": 0}, {"format": 1, "about": [1]}])
def test_notes_of_the_wrong_types_are_refused(saved, tmp_path, note):
    with pytest.raises(ModelFileError, match="damaged"):
        load_model(forged(saved, tmp_path, **{NOTE: json.dumps(note)}))


def test_a_format_of_hundreds_of_digits_is_newer(saved, tmp_path):
    with pytest.raises(ModelFileError, match="newer"):
        load_model(forged(saved, tmp_path, **{NOTE: json.dumps({"format": 10**400})}))


def npy(descr, shape, body):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": False, "shape": shape})
    return buffer.getvalue() + body


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (npy("<f8", (10**12,), b"\0" * 64), "not as long as it says"),
        (npy("<f8", (-2, -4), b"\0" * 64), "not as long as it says"),
        (npy("|O", (8,), b"\0" * 64), "type object"),
        (npy("<U4", (4,), b"\0" * 64), "type <U4"),
        (b"PK\x03\x04 a zip inside", "ValueError"),
        (npy("<f8", (8,), np.full(8, np.nan).tobytes()), "parts do not belong together|cannot be loaded"),
        (npy("<f8", (2, 4), np.ones(8).tobytes()), "parts do not belong together|cannot be loaded"),
        (npy("<f4", (16,), np.ones(16, np.float32).tobytes()), "parts do not belong together|cannot be loaded"),
    ],
)
def test_arrays_that_no_model_has_are_refused(saved, tmp_path, content, reason):
    with zipfile.ZipFile(saved) as file:
        arrays = [name for name in file.namelist() if name.endswith(".npy")]
    for name in arrays:
        with pytest.raises(ModelFileError, match=reason):
            load_model(forged(saved, tmp_path, **{name: content}))


def test_a_schema_that_unfolds_without_end_is_refused(saved, tmp_path):
    plain = {"__module__": "builtins", "__class__": "list", "__loader__": "ListNode"}
    node = {**plain, "content": [], "__id__": 1}
    for depth in range(2, 62):
        node = {**plain, "content": [node, {**plain, "content": [], "__id__": depth - 1}], "__id__": depth}
    schema = {**node, "protocol": 2, "_skops_version": skops.__version__}
    with pytest.raises(ModelFileError, match="an id stands for two things"):
        load_model(forged(saved, tmp_path, **{"schema.json": json.dumps(schema)}))


def test_our_own_classes_are_not_called_with_what_a_file_says(saved, tmp_path):
    node = {"__module__": "biasgp.covariance.cluster", "__class__": "ClusterPool", "__id__": 2}
    node |= {"__loader__": "ConstructorFromReduceNode"}
    node["content"] = {"__module__": "builtins", "__class__": "tuple", "__loader__": "TupleNode", "content": []}
    node["content"]["__id__"] = 3
    schema = {**node, "protocol": 2, "_skops_version": skops.__version__}
    with pytest.raises(ModelFileError, match="not biasgp's"):
        load_model(forged(saved, tmp_path, **{"schema.json": json.dumps(schema)}))


def test_a_long_record_with_an_episode_and_outliers_loads_again(tmp_path):
    """Some readings are left out with the episode, others as outliers: the file knows of both."""
    rng = np.random.default_rng(6)
    t = np.arange(2600.0)
    y = np.sin(t / 30.0) + 0.1 * rng.standard_normal(len(t))
    y[::97] += 4.0
    y[1000:1030] = y[1000]  # stuck
    model = METHODS["sparse"](Matern32(ard=True), max_iter=3).fit(t[:, None], y)
    assert len(model.episodes_) > 0 and model.outlier_mask_.sum() > 30
    back = roundtrip(model, tmp_path)
    new = np.linspace(0.0, 2600.0, 50)[:, None]
    np.testing.assert_array_equal(back.predict(new), model.predict(new))
    assert back.explain(97).log_odds == model.explain(97).log_odds
