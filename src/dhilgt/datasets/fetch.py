"""Fetching of raw files: with retries, resuming broken transfers, checked before use."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dhilgt.datasets import archive
from dhilgt.datasets.files import Files, check, refuse_web_page
from dhilgt.datasets.optional import import_optional
from dhilgt.datasets.registry import RawFile
from dhilgt.errors import DatasetError
from dhilgt.readers.files import is_web_page
from dhilgt.utils.progress import progress_bar

RETRIES = 3
TIMEOUT_SECONDS = 30.0
_CHUNK_BYTES = 1 << 18
_PARTIAL = 206
_RANGE_NOT_SATISFIABLE = 416


def fetch_file(files: Files, file: RawFile, *, progress: bool = False) -> Path:
    """Fetch one file to the dataset's folder and return its path.

    Raises:
        DatasetError: If it cannot be fetched, or differs from the published file.
    """
    path = files.home / file.path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.url is not None:
            _download(file.url, path, file.sha256, progress)
        elif files.info.archive is not None:
            _from_archive(files, progress)
        else:
            raise DatasetError("no address is known")
    except (OSError, ValueError, DatasetError) as error:
        reason = f" and could not be fetched ({_reason(error)})"
        raise DatasetError(files.missing(file, reason)) from error
    if not path.is_file():
        raise DatasetError(files.missing(file, " nor in the archive that should hold it"))
    try:
        refuse_web_page(path)
        check(path, file)
    except DatasetError:
        path.unlink()  # a wrong file that was just fetched is of no use
        raise
    return path


def fetch(files: Files, *, progress: bool = False) -> list[Path]:
    """Fetch all missing files of a dataset and return the paths of all.

    Raises:
        DatasetError: If one cannot be fetched.
    """
    return [
        files.find(file.path) or fetch_file(files, file, progress=progress)
        for file in files.info.files
    ]


def _reason(error: Exception) -> str:
    # By name: the package that raises these errors is optional.
    kind, request = type(error).__name__, getattr(error, "request", None)
    if kind in ("ConnectionError", "ConnectTimeout", "ReadTimeout") and request is not None:
        return f"no connection to {request.url.split('/')[2]}"
    if kind == "ChunkedEncodingError":
        return "the connection broke off; what arrived is kept, run it again to go on"
    return " ".join(str(error).split())[:300] or kind


def _from_archive(files: Files, progress: bool) -> None:
    entry = files.info.archive
    assert entry is not None
    packed = files.home / entry.url.rpartition("/")[2]
    missing = {
        file.path.removeprefix(f"{entry.under}/")
        for file in files.info.files
        if file.url is None and files.find(file.path) is None
    }
    _download(entry.url, packed, None, progress)
    try:
        archive.extract(
            packed,
            files.home / entry.under,
            strip=entry.strip,
            only=missing,
            max_bytes=entry.max_bytes,
        )
    finally:
        packed.unlink(missing_ok=True)


def _download(url: str, path: Path, sha256: str | None, progress: bool) -> None:
    """Write the content of an address to a file, complete and checked, or raise an error."""
    pooch = import_optional("pooch")
    pooch.get_logger().setLevel("ERROR")  # it would announce every step on standard error
    manager = pooch.create(
        path=path.parent,
        base_url="",
        registry={path.name: None if sha256 is None else f"sha256:{sha256}"},
        urls={path.name: url},
        retry_if_failed=RETRIES,
    )
    manager.fetch(path.name, downloader=_resuming(path, progress))


def _resuming(path: Path, progress: bool) -> Callable[[str, Any, Any], None]:
    """Return a downloader that keeps received bytes in ``NAME.part`` and requests the rest."""
    part = path.with_name(f"{path.name}.part")

    def download(url: str, target: Any, _: Any) -> None:
        import requests

        offset = part.stat().st_size if part.exists() else 0
        headers = {"Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT_SECONDS) as reply:
            if reply.status_code == _RANGE_NOT_SATISFIABLE:
                part.unlink()  # it is no beginning of this file; the next attempt starts at 0
            reply.raise_for_status()
            resumed = reply.status_code == _PARTIAL and _starts_at(reply, offset)
            _receive(reply, part, offset if resumed else 0, path.name, progress)
        part.replace(target)

    return download


def _starts_at(reply: Any, offset: int) -> bool:
    return str(reply.headers.get("Content-Range", "")).startswith(f"bytes {offset}-")


def _receive(reply: Any, part: Path, offset: int, name: str, progress: bool) -> None:
    length = reply.headers.get("Content-Length")
    total = None if length is None else offset + int(length)
    done = offset
    with (
        part.open("r+b" if offset else "wb") as stream,
        progress_bar(name, unit="kB", enabled=progress) as update,
    ):
        stream.seek(offset)
        stream.truncate()
        for chunk in reply.iter_content(_CHUNK_BYTES):
            if done == 0 and is_web_page(chunk):
                raise DatasetError(f"{reply.url} answered with a web page (HTML), not the file")
            stream.write(chunk)
            done += len(chunk)
            update(done >> 10, None if total is None else total >> 10)
        stream.flush()
        os.fsync(stream.fileno())
    if total is not None and done != total:
        from requests.exceptions import ChunkedEncodingError

        raise ChunkedEncodingError(f"{done:,} of {total:,} bytes arrived")
