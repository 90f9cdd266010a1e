"""Finding raw files on this machine, checking them, and saying what to do when they are not there.

A file is looked for in the folder given as ``root``, else in the one that the environment variable
``DHILGT_DATA`` names, else in the user's cache. Below it may lie at ``NAME/raw/FILE``, at
``NAME/FILE`` or, for both, one folder deeper in ``extra``.
"""

import contextlib
import gzip
import hashlib
import os
import pickle
import sys
import zipfile
import zlib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Literal

from dhilgt.datasets.registry import DatasetInfo, RawFile
from dhilgt.errors import DatasetError, DhilgtError, argument, wording
from dhilgt.readers.files import is_web_page

VARIABLE = "DHILGT_DATA"
_CHUNK_BYTES = 1 << 20

Status = Literal["ok", "repacked", "unchecked", "damaged", "missing"]


def data_folder(root: "str | PathLike[str] | None" = None) -> Path:
    """Gives the folder that holds datasets: ``root``, else $DHILGT_DATA, else the user's cache."""
    if root is not None:
        return Path(root)
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    if os.name == "nt":
        cache = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        cache = Path.home() / "Library" / "Caches"
    else:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "dhilgt" / "datasets"


class Files:
    """The raw files of one dataset, found where they are or fetched when they are asked for."""

    def __init__(
        self,
        info: DatasetInfo,
        root: "str | PathLike[str] | None" = None,
        *,
        download: bool = True,
        verify: bool = True,
        progress: bool = False,
    ) -> None:
        """Looks at nothing yet.

        Args:
            info: Which dataset.
            root: See `data_folder`.
            download: Fetch a file that is not here; otherwise it is an error.
            verify: Compare content with what is on record.
            progress: Show a bar while fetching.
        """
        self.info = info
        self.root = data_folder(root)
        self._download = download
        self._verify = verify
        self._progress = progress

    @property
    def home(self) -> Path:
        """The dataset's folder: the first that exists, else where new files go."""
        for folder in self._folders():
            if folder.is_dir():
                return folder
        return self.root / self.info.folders[0]

    def _folders(self) -> Iterator[Path]:
        for base in (self.root, self.root / "extra"):
            for name in self.info.folders:
                yield base / name

    def entry(self, path: str) -> RawFile:
        """Gives what is on record about a file, by its path in the dataset's folder."""
        return next(file for file in self.info.files if file.path == path)

    def find(self, path: str) -> Path | None:
        """Gives where a file is, or None."""
        for folder in self._folders():
            for place in (folder / path, folder / path.removeprefix("raw/")):
                if place.is_file():
                    return place
        return None

    def path(self, path: str) -> Path:
        """Gives a file that is here and whole, after fetching it where that is allowed.

        Raises:
            DatasetError: If it cannot be had, or is not what was published.
        """
        file = self.entry(path)
        found = self.find(path)
        if found is None:
            if not self._download:
                raise DatasetError(self.missing(file))
            from dhilgt.datasets import fetch

            return fetch.fetch_file(self, file, progress=self._progress)
        refuse_web_page(found)
        if self._verify:
            check(found, file)
        return found

    def missing(self, file: RawFile, why: str = "") -> str:
        """Words what is missing, where it comes from and where to put it."""
        archive = self.info.archive
        if file.url is not None:
            origin = file.url
        elif archive is not None:
            origin = f"the archive {archive.url}"
        else:
            origin = self.info.source
        place = self.home / file.path
        return (
            f"{self.info.name} needs the file {file.name}, which is not in {self.root}{why}; "
            f"get it from {origin} and put it at {place} (another folder: "
            f"{argument('root', ...)} or the variable {VARIABLE})"
        )

    def status(self, file: RawFile) -> Status:
        """Says whether a file is here and what was published."""
        found = self.find(file.path)
        if found is None:
            return "missing"
        try:
            refuse_web_page(found)
            return check(found, file)
        except DatasetError:
            return "damaged"


# ---- content -----------------------------------------------------------------------------------


def check(path: Path, file: RawFile) -> Status:
    """Compares a file with what is on record.

    Returns:
        "ok" for the published content, "repacked" for another one known to have the same values,
        "unchecked" where the published content is not on record.

    Raises:
        DatasetError: If it is something else.
    """
    if file.sha256 is None and not file.repacked and file.git_blob is None:
        return "unchecked"
    sha256, blob = _digests(path)
    if sha256 == file.sha256 or blob == file.git_blob:
        return "ok"
    if sha256 in file.repacked:
        return "repacked"
    if file.sha256 is None and file.git_blob is None:
        return "unchecked"
    size = path.stat().st_size
    wanted = "" if file.num_bytes is None else f", not {file.num_bytes:,}"
    record = f"SHA-256 {file.sha256}" if file.sha256 else f"Git blob {file.git_blob}"
    found = sha256 if file.sha256 else blob
    raise DatasetError(
        f"{path} is not the file that was published: it has {size:,} bytes{wanted}, and {found} "
        f"instead of {record}; remove it and fetch it again"
        f"{wording(', or pass verify=False to use it', '')}"
    )


def _digests(path: Path) -> tuple[str, str]:
    """Gives the SHA-256 and Git's name of a file's content."""
    sha256 = hashlib.sha256()
    # Git names content by SHA-1; nothing here rests on its strength where a SHA-256 is known.
    blob = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            sha256.update(chunk)
            blob.update(chunk)
    return sha256.hexdigest(), blob.hexdigest()


def refuse_web_page(path: Path) -> None:
    """Refuses HTML, which many servers send instead of a file, and empty files."""
    with path.open("rb") as stream:
        head = stream.read(512)
    if not head:
        raise DatasetError(f"{path} is empty; remove it and fetch it again")
    if is_web_page(head):
        raise DatasetError(
            f"{path} is a web page (HTML), not the data; remove it and fetch it again, the address "
            "it came from may need a login or another link"
        )


@contextlib.contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Words what goes wrong while a file is read.

    Args:
        path: The file.
        what: What it should be, such as "a NumPy archive".
    """
    try:
        yield
    except (DatasetError, FileNotFoundError):
        raise
    except (
        ArithmeticError,
        AttributeError,
        DhilgtError,
        EOFError,
        LookupError,
        OSError,
        TypeError,
        ValueError,
        gzip.BadGzipFile,
        pickle.UnpicklingError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise DatasetError(
            f"{path} cannot be read as {what} ({said}); it may be cut short or of another kind: "
            "remove it and fetch it again"
        ) from error
