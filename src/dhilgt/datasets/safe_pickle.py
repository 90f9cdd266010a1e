"""Old pickles of arrays, read without running any code that they name.

A pickle is a program: it can name any function and call it. Here only the names of NumPy arrays,
SciPy's sparse matrices and a few containers are allowed, and even these are replaced by plain
classes of this module that record the state. Arrays are made from that state afterwards, with sizes
checked. Any other name is an error.
"""

import io
import math
import pickle
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dhilgt.datasets.files import reading
from dhilgt.datasets.optional import import_optional
from dhilgt.errors import DatasetError

_PLAIN_DTYPE = re.compile(r"[<>=|]?(?:b1|[iu][1248]|f[248]|S\d{1,4}|U\d{1,4}|O8?)")
_CONTAINERS = {"list": list, "dict": dict, "set": set, "tuple": tuple}
_MATRIX_MODULES = ("scipy.sparse.csr", "scipy.sparse._csr", "scipy.sparse.csc", "scipy.sparse._csc")
_MAX_DEPTH = 100


class _DTypeState:
    """The state of a dtype in a pickle."""

    def __init__(self, code: Any = "", *_: Any) -> None:
        self.code = _text(code)
        self.order = "|"

    def __setstate__(self, state: Any) -> None:
        self.order = _text(state[1])
        if any(part is not None for part in state[2:5]):
            raise pickle.UnpicklingError("arrays of records are not allowed")

    def make(self) -> np.dtype[Any]:
        if not _PLAIN_DTYPE.fullmatch(self.code):
            raise pickle.UnpicklingError(f"arrays of type {self.code!r} are not allowed")
        dtype = np.dtype(self.code)
        return np.dtype(self.order + dtype.str[1:]) if self.order in ("<", ">") else dtype


class _ArrayState:
    """The state of an array in a pickle."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def make(self, resolve: Any) -> NDArray[Any]:
        if not isinstance(self.state, tuple) or len(self.state) != 5:
            raise pickle.UnpicklingError("an array without content")
        _, shape, kind, by_columns, content = self.state
        if not isinstance(kind, _DTypeState) or not isinstance(shape, tuple):
            raise pickle.UnpicklingError("an array without shape or type")
        dtype = kind.make()
        if dtype.kind == "O":
            if not isinstance(content, list) or len(content) != math.prod(shape):
                raise pickle.UnpicklingError("an array of objects of the wrong length")
            out = np.empty(len(content), dtype=object)
            for at, value in enumerate(content):
                out[at] = resolve(value)
            return _shaped(out, shape, by_columns)
        if not isinstance(content, bytes):
            content = content.encode("latin1")  # a str of Python 2
        return _shaped(np.frombuffer(content, dtype=dtype), shape, by_columns).copy()


class _ArrayType:
    """In place of the class `numpy.ndarray`, which may be named but not called."""

    def __init__(self, *_: Any) -> None:
        raise pickle.UnpicklingError("numpy.ndarray may be named, but not called")


class _MatrixState:
    """The state of a sparse matrix in a pickle, by rows or by columns."""

    by_rows = True

    def __init__(self) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def make(self, resolve: Any) -> Any:
        sparse = import_optional("scipy.sparse")
        state = {_text(key): resolve(value) for key, value in dict(self.state).items()}
        shape = state["_shape"] if "_shape" in state else state["shape"]
        parts = (state["data"], state["indices"], state["indptr"])
        kind = sparse.csr_matrix if self.by_rows else sparse.csc_matrix
        matrix = kind(parts, shape=tuple(int(size) for size in shape))
        matrix.check_format(full_check=True)
        return matrix.tocsr()


class _ColumnMatrixState(_MatrixState):
    by_rows = False


def _shaped(flat: NDArray[Any], shape: tuple[int, ...], by_columns: Any) -> NDArray[Any]:
    if by_columns:
        return flat.reshape(shape, order="F")
    return flat.reshape(shape)


def _text(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def _new_array(kind: Any, *_: Any) -> _ArrayState:
    if kind is not _ArrayType:
        raise pickle.UnpicklingError("only plain arrays are allowed")
    return _ArrayState()


def _bytes_of(text: str, encoding: str = "latin1") -> bytes:
    """Return bytes that Python 3 wrote for Python 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"text as {encoding!r} is not allowed")
    return str(text).encode("latin1")


def _no_bytes() -> bytes:
    """Return the empty bytes that Python 3 wrote for Python 2."""
    return b""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            if name == "_reconstruct":
                return _new_array
        elif module == "numpy":
            if name in ("ndarray", "dtype"):
                return _ArrayType if name == "ndarray" else _DTypeState
        elif module in _MATRIX_MODULES:
            if name in ("csr_matrix", "csc_matrix"):
                return _MatrixState if name == "csr_matrix" else _ColumnMatrixState
        elif module in ("__builtin__", "builtins"):
            if name in _CONTAINERS:
                return _CONTAINERS[name]
            if name == "bytes":
                return _no_bytes
        elif (module, name) == ("collections", "defaultdict"):
            return defaultdict
        elif (module, name) == ("_codecs", "encode"):
            return _bytes_of
        raise pickle.UnpicklingError(
            f"it names {module}.{name}, which is not allowed in a file of numbers; no code of it "
            "was run"
        )

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to objects outside the file")


class _Resolver:
    """Returns values with arrays and matrices in place of their states.

    A value that occurs many times is resolved once: a few bytes can refer to each other so often
    that copies would fill the memory.
    """

    def __init__(self) -> None:
        self._known: dict[int, Any] = {}
        self._depth = 0

    def __call__(self, value: Any) -> Any:
        if value is None or type(value) in (int, float, str, bytes, bool):
            return value
        if id(value) in self._known:
            return self._known[id(value)]
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise pickle.UnpicklingError("it is nested too deep")
        resolved = self._known[id(value)] = self._resolved(value)
        self._depth -= 1
        return resolved

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, (_ArrayState, _MatrixState)):
            return value.make(self)
        if isinstance(value, dict):
            return {self(key): self(part) for key, part in value.items()}
        if isinstance(value, (list, tuple, set)):
            if all(type(part) is int for part in value):
                return value
            return type(value)(self(part) for part in value)
        raise pickle.UnpicklingError(
            f"a {type(value).__name__} is not allowed in a file of numbers"
        )


def load(stream: BinaryIO) -> Any:
    """Read one pickle of numbers, lists, dicts, arrays and sparse matrices.

    Raises:
        pickle.UnpicklingError: For anything else; no code that the pickle names is run.

    Example:
        >>> load(io.BytesIO(pickle.dumps({"rows": [1, 2]})))
        {'rows': [1, 2]}
    """
    try:
        return _Resolver()(_Unpickler(stream, encoding="latin1").load())
    except RecursionError as error:
        raise pickle.UnpicklingError("it is nested too deep") from error
    except MemoryError as error:  # a string can declare any length
        raise pickle.UnpicklingError("it declares more bytes than the memory has") from error


def load_file(path: Path) -> Any:
    """Read one pickle; see `load`.

    Raises:
        DatasetError: If it is damaged or names code.
    """
    with reading(path, "a plain pickle"), path.open("rb") as stream:
        return load(stream)


def load_object_array(path: Path) -> NDArray[Any]:
    """Read a .npy file; an array of objects, which is a pickle, as `load` does.

    Raises:
        DatasetError: If it is damaged or names code.
    """
    with reading(path, "a NumPy array"), path.open("rb") as stream:
        try:
            return np.asarray(np.load(io.BytesIO(stream.read()), allow_pickle=False))
        except ValueError:
            stream.seek(0)
        version = np.lib.format.read_magic(stream)
        header = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        _, _, dtype = header(stream)
        if dtype.kind != "O":
            raise DatasetError(f"{path} is damaged; remove it and fetch it again")
        return np.asarray(load(stream), dtype=object)
