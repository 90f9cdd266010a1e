"""Old pickles of arrays, read without running anything they name.

A pickle is a small program: it may name any function and have it called. Here the only names that
mean something are those of NumPy arrays, SciPy's sparse rows and a few containers, and even these
stand for plain holders of this module. Arrays are made from the holders' bytes afterwards, with
sizes checked. Any other name is refused.
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
from dhilgt.errors import DatasetError

_PLAIN_DTYPE = re.compile(r"[<>=|]?(?:b1|[iu][1248]|f[248]|S\d{1,4}|U\d{1,4}|O8?)")
_CONTAINERS = {"list": list, "dict": dict, "set": set, "tuple": tuple}
_MATRIX_MODULES = ("scipy.sparse.csr", "scipy.sparse._csr", "scipy.sparse.csc", "scipy.sparse._csc")
_MAX_DEPTH = 100


class _DType:
    """What a pickle says about the type of an array's numbers."""

    def __init__(self, code: Any = "", *_: Any) -> None:
        self.code = _text(code)
        self.order = "|"

    def __setstate__(self, state: Any) -> None:
        self.order = _text(state[1])
        if any(part is not None for part in state[2:5]):
            raise pickle.UnpicklingError("arrays of records have no place here")

    def make(self) -> np.dtype[Any]:
        if not _PLAIN_DTYPE.fullmatch(self.code):
            raise pickle.UnpicklingError(f"an array of type {self.code!r} has no place here")
        dtype = np.dtype(self.code)
        return np.dtype(self.order + dtype.str[1:]) if self.order in ("<", ">") else dtype


class _Array:
    """What a pickle says about an array."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def make(self, resolve: Any) -> NDArray[Any]:
        if not isinstance(self.state, tuple) or len(self.state) != 5:
            raise pickle.UnpicklingError("an array without content")
        _, shape, kind, by_columns, content = self.state
        if not isinstance(kind, _DType) or not isinstance(shape, tuple):
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
            content = content.encode("latin1")  # text of Python 2
        return _shaped(np.frombuffer(content, dtype=dtype), shape, by_columns).copy()


class _ArrayType:
    """Stands for the class `numpy.ndarray`: a name to pass on, not to call."""

    def __init__(self, *_: Any) -> None:
        raise pickle.UnpicklingError("numpy.ndarray is called where only its name belongs")


class _Matrix:
    """What a pickle says about a sparse matrix; ``by_rows`` says in which order."""

    by_rows = True

    def __init__(self) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def make(self, resolve: Any) -> Any:
        from dhilgt.datasets.optional import scipy_sparse

        sparse = scipy_sparse()
        state = {_text(key): resolve(value) for key, value in dict(self.state).items()}
        shape = state["_shape"] if "_shape" in state else state["shape"]
        parts = (state["data"], state["indices"], state["indptr"])
        kind = sparse.csr_matrix if self.by_rows else sparse.csc_matrix
        matrix = kind(parts, shape=tuple(int(size) for size in shape))
        matrix.check_format(full_check=True)
        return matrix.tocsr()


class _ColumnMatrix(_Matrix):
    by_rows = False


def _shaped(flat: NDArray[Any], shape: tuple[int, ...], by_columns: Any) -> NDArray[Any]:
    if by_columns:
        return flat.reshape(shape, order="F")
    return flat.reshape(shape)


def _text(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def _new_array(kind: Any, *_: Any) -> _Array:
    if kind is not _ArrayType:
        raise pickle.UnpicklingError("only plain arrays have a place here")
    return _Array()


def _bytes_of(text: str, encoding: str = "latin1") -> bytes:
    """How Python 3 writes bytes for Python 2 to read."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"text as {encoding!r} has no place here")
    return str(text).encode("latin1")


def _no_bytes() -> bytes:
    """How Python 3 writes no bytes at all for Python 2 to read."""
    return b""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            if name == "_reconstruct":
                return _new_array
        elif module == "numpy":
            if name in ("ndarray", "dtype"):
                return _ArrayType if name == "ndarray" else _DType
        elif module in _MATRIX_MODULES:
            if name in ("csr_matrix", "csc_matrix"):
                return _Matrix if name == "csr_matrix" else _ColumnMatrix
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
            f"it names {module}.{name}, which has no place in a file of numbers; nothing of it was "
            "run"
        )

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to objects outside the file")


class _Resolver:
    """Gives values with arrays and matrices in place of their holders.

    What a pickle shares is resolved once: a few bytes can refer to each other so often that
    copies would fill the memory.
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
        made = self._known[id(value)] = self._made(value)
        self._depth -= 1
        return made

    def _made(self, value: Any) -> Any:
        if isinstance(value, (_Array, _Matrix)):
            return value.make(self)
        if isinstance(value, dict):
            return {self(key): self(part) for key, part in value.items()}
        if isinstance(value, (list, tuple, set)):
            if all(type(part) is int for part in value):
                return value
            return type(value)(self(part) for part in value)
        raise pickle.UnpicklingError(f"a {type(value).__name__} has no place in a file of numbers")


def load(stream: BinaryIO) -> Any:
    """Reads one pickle of numbers, lists, dicts, arrays and sparse matrices.

    Raises:
        pickle.UnpicklingError: For anything else; nothing that the pickle names is run.

    Example:
        >>> load(io.BytesIO(pickle.dumps({"rows": [1, 2]})))
        {'rows': [1, 2]}
    """
    try:
        found = _Unpickler(stream, encoding="latin1").load()
        return _Resolver()(found)
    except RecursionError as error:
        raise pickle.UnpicklingError("it is nested too deep") from error
    except MemoryError as error:  # a text is announced with a length that no memory has
        raise pickle.UnpicklingError("it announces more than there is memory for") from error


def load_file(path: Path) -> Any:
    """Reads one pickle; see `load`.

    Raises:
        DatasetError: If it is damaged or names anything that could run.
    """
    with reading(path, "a plain pickle"), path.open("rb") as stream:
        return load(stream)


def load_object_array(path: Path) -> NDArray[Any]:
    """Reads a .npy file; one of objects, which holds a pickle, by the same rules.

    Raises:
        DatasetError: If it is damaged or names anything that could run.
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
