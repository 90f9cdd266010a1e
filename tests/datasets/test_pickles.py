"""Pickles from elsewhere: arrays and lists are read, anything that could run is refused."""

import io
import os
import pickle
import subprocess
from collections import OrderedDict, defaultdict
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dhilgt.datasets import safe_pickle
from dhilgt.errors import DatasetError
from tests.datasets import cases as dataset_cases


def read(data):
    return safe_pickle.load(io.BytesIO(data))


def same(one, other):
    return one.dtype == other.dtype and one.shape == other.shape and np.array_equal(one, other)


# ---- what is read ------------------------------------------------------------------------------


@given(
    hnp.arrays(
        st.sampled_from(["<i8", ">i4", "u1", "<f4", ">f8", "?", "S3", "<U2"]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0),
        elements={"allow_nan": False},
        fill=st.nothing(),
    ),
    st.sampled_from([0, 1, 2, 3, 4]),
    st.booleans(),
)
def test_arrays_come_back_as_they_were(array, protocol, by_columns):
    array = np.asfortranarray(array) if by_columns else array
    assert same(read(pickle.dumps(array, protocol)), array)


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.csc_matrix])
def test_sparse_matrices_come_back_by_rows(kind, protocol):
    matrix = kind(np.array([[0, 1.5], [2, 0], [0, 0]]))
    actual = read(pickle.dumps(matrix, protocol))
    assert actual.format == "csr"
    assert np.array_equal(actual.toarray(), matrix.toarray())


def test_containers_come_back():
    value = defaultdict(list, {1: [2, 3], "a": [(4, 5.5), None, True, b"x", {6}]})
    assert read(pickle.dumps(value)) == dict(value)


def test_an_array_of_objects_comes_back_with_its_arrays(tmp_path):
    path = dataset_cases.linkx_splits(tmp_path / "splits.npy", [([1, 2], [3], [4])] * 2)
    actual = safe_pickle.load_object_array(path)
    assert actual.shape == (2,)
    assert actual[1]["train"].tolist() == [1, 2]


def test_a_plain_npy_needs_no_pickle(tmp_path):
    np.save(tmp_path / "plain.npy", np.arange(3))
    assert safe_pickle.load_object_array(tmp_path / "plain.npy").tolist() == [0, 1, 2]


# ---- what is refused ---------------------------------------------------------------------------


class Calls:
    """Pickles to a call of any function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


class Builds:
    """Pickles to a holder with any state."""

    def __init__(self, function, arguments, state):
        self.parts = function, arguments, state

    def __reduce__(self):
        return self.parts


RECONSTRUCT = np.array([1]).__reduce__()[0]


def hostile(flag):
    run = Calls(os.system, f"touch {flag}")
    return {
        "a shell": run,
        "eval": Calls(eval, f"open({str(flag)!r}, 'w')"),
        "exec": Calls(exec, f"open({str(flag)!r}, 'w')"),
        "a process": Calls(subprocess.Popen, ["touch", str(flag)]),
        "getattr": Calls(getattr, list, "append"),
        "import": Calls(__import__, "os"),
        "a file": Calls(open, str(flag), "w"),
        "a path": Path(flag),
        "a nested call": Calls(list, [Calls(eval, f"open({str(flag)!r}, 'w')")]),
        "in a list": [1, [2, run]],
        "in a key": {"a": {"b": (run,)}},
        "in an array of objects": np.array([run, 1], dtype=object),
        "as the state of an array": Builds(RECONSTRUCT, (np.ndarray, (0,), b"b"), run),
        "as the type of an array": Calls(RECONSTRUCT, run, (0,), b"b"),
        "as the factory of a dict": Calls(defaultdict, Calls(eval, "print")),
        "through numpy": Calls(np.load, str(flag)),
        "through scipy": Calls(scipy.sparse.load_npz, str(flag)),
        "another container": OrderedDict(a=1),
    }


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("case", hostile("flag"))
def test_nothing_that_a_pickle_names_is_run(tmp_path, case, protocol):
    flag = tmp_path / "flag"
    with pytest.raises(pickle.UnpicklingError):
        read(pickle.dumps(hostile(flag)[case], protocol))
    assert not flag.exists()


@pytest.mark.parametrize("case", hostile("flag"))
def test_a_hostile_file_is_an_error_that_names_it(tmp_path, case):
    flag, path = tmp_path / "flag", tmp_path / "ind.cora.x"
    path.write_bytes(pickle.dumps(hostile(flag)[case], 2))
    with pytest.raises(DatasetError, match=r"ind\.cora\.x"):
        safe_pickle.load_file(path)
    assert not flag.exists()


def test_a_hostile_pickle_in_a_npy_file_is_refused(tmp_path):
    flag, path = tmp_path / "flag", tmp_path / "splits.npy"
    np.save(path, np.array([Calls(os.system, f"touch {flag}")], dtype=object), allow_pickle=True)
    with pytest.raises(DatasetError, match=r"it names posix\.system|it names nt\.system"):
        safe_pickle.load_object_array(path)
    assert not flag.exists()


def test_names_that_are_allowed_cannot_be_called_for_harm():
    huge = Calls(np.ndarray, (1 << 40,))
    with pytest.raises(pickle.UnpicklingError, match="may be named, but not called"):
        read(pickle.dumps(huge))
    with pytest.raises(pickle.UnpicklingError, match="an array without content"):
        read(pickle.dumps(Calls(RECONSTRUCT, np.ndarray, (1 << 40,), b"b")))


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ((1, (1 << 40,), np.dtype("<i8"), False, b"12345678"), ValueError),
        ((1, (2,), np.dtype("O"), False, [1, 2, 3]), pickle.UnpicklingError),
        ((1, (1,), np.dtype([("a", "<i8")]), False, bytes(8)), pickle.UnpicklingError),
        ((1, (1,), "<i8", False, bytes(8)), pickle.UnpicklingError),
        ((1, 2), pickle.UnpicklingError),
    ],
)
def test_arrays_that_lie_about_themselves_are_refused(state, error):
    with pytest.raises(error):
        read(pickle.dumps(Builds(RECONSTRUCT, (np.ndarray, (0,), b"b"), state)))


def test_a_matrix_with_columns_outside_is_refused(tmp_path):
    matrix = scipy.sparse.csr_matrix(np.eye(2))
    matrix.indices[0] = 1 << 20
    (tmp_path / "ind.cora.x").write_bytes(pickle.dumps(matrix, 2))
    with pytest.raises(DatasetError, match=r"ind\.cora\.x cannot be read"):
        safe_pickle.load_file(tmp_path / "ind.cora.x")


def test_what_refers_to_itself_or_nests_without_end_is_refused():
    loop = []
    loop.append(loop)
    deep = 0
    for _ in range(200):
        deep = [deep]
    for value in (loop, deep):
        with pytest.raises(pickle.UnpicklingError, match="nested too deep"):
            read(pickle.dumps(value))


def test_what_is_shared_many_times_is_not_copied():
    value = ["x"]
    for _ in range(60):  # 2 ** 60 entries if each were copied
        value = [value, value]
    assert read(pickle.dumps(value))[0] is not None


@given(st.binary(max_size=200))
@example(b"\x8d\x00\x00\x00\x00\x00\x00\x00\x01")  # a text of 2**56 bytes
def test_noise_is_an_error_and_nothing_else(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("noise") / "ind.cora.x"
    path.write_bytes(data)
    message = path.name
    try:
        safe_pickle.load_file(path)
    except DatasetError as error:
        message = str(error)
    assert path.name in message
