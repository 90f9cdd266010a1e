"""Raw files of datasets on this machine: where they are, whether they are the published ones.

The folder of all datasets is ``root``, else the one that the environment variable ``DHILGT_DATA``
names, else the user's cache. A file lies in it at ``NAME/raw/FILE`` or ``NAME/FILE``, or at one of
these below ``extra``.
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
    """Return the folder of all datasets: ``root``, else $DHILGT_DATA, else the user's cache."""
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
    """The raw files of one dataset, searched in its folders and fetched when missing."""

    def __init__(
        self,
        info: DatasetInfo,
        root: "str | PathLike[str] | None" = None,
        *,
        download: bool = True,
        verify: bool = True,
        progress: bool = False,
    ) -> None:
        """Store the arguments; no file is opened.

        Args:
            info: The dataset.
            root: See `data_folder`.
            download: Fetch a missing file; otherwise it is an error.
            verify: Compare files with the catalogue.
            progress: Show a progress bar during transfers.
        """
        self.info = info
        self.root = data_folder(root)
        self._download = download
        self._verify = verify
        self._progress = progress

    @property
    def home(self) -> Path:
        """The dataset's folder: the first that exists, else the one for new files."""
        for folder in self._folders():
            if folder.is_dir():
                return folder
        return self.root / self.info.folders[0]

    def _folders(self) -> Iterator[Path]:
        for base in (self.root, self.root / "extra"):
            for name in self.info.folders:
                yield base / name

    def entry(self, path: str) -> RawFile:
        """Return the entry of a file in the catalogue, by its path in the dataset's folder."""
        return next(file for file in self.info.files if file.path == path)

    def find(self, path: str) -> Path | None:
        """Return the location of a file on this machine; None where it is missing."""
        for folder in self._folders():
            for location in (folder / path, folder / path.removeprefix("raw/")):
                if location.is_file():
                    return location
        return None

    def path(self, path: str) -> Path:
        """Return the location of a file after a check, fetching it first if that is allowed.

        Raises:
            DatasetError: If it is missing, or differs from the published file.
        """
        file = self.entry(path)
        location = self.find(path)
        if location is None:
            if not self._download:
                raise DatasetError(self.missing(file))
            from dhilgt.datasets import fetch

            return fetch.fetch_file(self, file, progress=self._progress)
        refuse_web_page(location)
        if self._verify:
            check(location, file)
        return location

    def missing(self, file: RawFile, reason: str = "") -> str:
        """Return the message about a missing file: its origin and where to put it."""
        archive = self.info.archive
        if file.url is not None:
            origin = file.url
        elif archive is not None:
            origin = f"the archive {archive.url}"
        else:
            origin = self.info.source
        place = self.home / file.path
        return (
            f"{self.info.name} needs the file {file.name}, which is not in {self.root}{reason}; "
            f"get it from {origin} and put it at {place} (another folder: "
            f"{argument('root', ...)} or the variable {VARIABLE})"
        )

    def status(self, file: RawFile) -> Status:
        """Return whether a file is on this machine and the published one."""
        location = self.find(file.path)
        if location is None:
            return "missing"
        try:
            refuse_web_page(location)
            return check(location, file)
        except DatasetError:
            return "damaged"


# ---- checks of content -------------------------------------------------------------------------


def check(path: Path, file: RawFile) -> Status:
    """Compare a file with its entry in the catalogue.

    Returns:
        "ok" for the published content, "repacked" for another one known to have the same values,
        "unchecked" where the catalogue has no hash.

    Raises:
        DatasetError: If it is another content.
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
    published = "" if file.num_bytes is None else f", not {file.num_bytes:,}"
    expected = f"SHA-256 {file.sha256}" if file.sha256 else f"Git blob {file.git_blob}"
    actual = sha256 if file.sha256 else blob
    raise DatasetError(
        f"{path} is not the file that was published: it has {size:,} bytes{published}, and "
        f"{actual} instead of {expected}; remove it and fetch it again"
        f"{wording(', or pass verify=False to use it', '')}"
    )


def _digests(path: Path) -> tuple[str, str]:
    """Return the SHA-256 and Git's hash of a file's content."""
    sha256 = hashlib.sha256()
    # Git hashes with SHA-1, which is used only where no SHA-256 is known.
    blob = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            sha256.update(chunk)
            blob.update(chunk)
    return sha256.hexdigest(), blob.hexdigest()


def refuse_web_page(path: Path) -> None:
    """Raise an error for HTML, which many servers send instead of a file, and for empty files."""
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
    """Turn errors while a file is read into a DatasetError that names it.

    Args:
        path: The file.
        what: Its expected content, such as "a NumPy archive".
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
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DatasetError(
            f"{path} cannot be read as {what} ({reason}); it may be cut short or of another kind: "
            "remove it and fetch it again"
        ) from error
