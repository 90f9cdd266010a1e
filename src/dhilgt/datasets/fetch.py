"""Fetching raw files: with retries, from where a broken transfer stopped, checked before use."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dhilgt.datasets import archive, optional
from dhilgt.datasets.files import Files, check, refuse_web_page
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
    """Fetches one file to the dataset's folder and gives its path.

    Raises:
        DatasetError: If it cannot be had, or is not what was published.
    """
    place = files.home / file.path
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.url is not None:
            _download(file.url, place, file.sha256, progress)
        elif files.info.archive is not None:
            _from_archive(files, progress)
        else:
            raise DatasetError("no address is known")
    except (OSError, ValueError, DatasetError) as error:
        reason = f" and could not be fetched ({_said(error)})"
        raise DatasetError(files.missing(file, reason)) from error
    if not place.is_file():
        raise DatasetError(files.missing(file, " nor in the archive that should hold it"))
    try:
        refuse_web_page(place)
        check(place, file)
    except DatasetError:
        place.unlink()  # what was fetched and is wrong is of no use to anyone
        raise
    return place


def fetch(files: Files, *, progress: bool = False) -> list[Path]:
    """Fetches all files of a dataset that are not here and gives the paths of all.

    Raises:
        DatasetError: If one cannot be had.
    """
    return [
        files.find(file.path) or fetch_file(files, file, progress=progress)
        for file in files.info.files
    ]


def _said(error: Exception) -> str:
    # By name: without the package that raises them these errors cannot come up.
    kind, request = type(error).__name__, getattr(error, "request", None)
    if kind in ("ConnectionError", "ConnectTimeout", "ReadTimeout") and request is not None:
        return f"no connection to {request.url.split('/')[2]}"
    if kind == "ChunkedEncodingError":
        return "the connection broke off; what arrived is kept, run it again to go on"
    return " ".join(str(error).split())[:300] or kind


def _from_archive(files: Files, progress: bool) -> None:
    described = files.info.archive
    assert described is not None
    packed = files.home / described.url.rpartition("/")[2]
    wanted = {
        file.path.removeprefix(f"{described.under}/")
        for file in files.info.files
        if file.url is None and files.find(file.path) is None
    }
    _download(described.url, packed, None, progress)
    try:
        archive.extract(
            packed,
            files.home / described.under,
            strip=described.strip,
            only=wanted,
            max_bytes=described.max_bytes,
        )
    finally:
        packed.unlink(missing_ok=True)


def _download(url: str, place: Path, sha256: str | None, progress: bool) -> None:
    """Puts the content of an address in place, whole and checked, or raises."""
    pooch = optional.pooch()
    pooch.get_logger().setLevel("ERROR")  # it would announce every step on standard error
    keeper = pooch.create(
        path=place.parent,
        base_url="",
        registry={place.name: None if sha256 is None else f"sha256:{sha256}"},
        urls={place.name: url},
        retry_if_failed=RETRIES,
    )
    keeper.fetch(place.name, downloader=_resuming(place, progress))


def _resuming(place: Path, progress: bool) -> Callable[[str, Any, Any], None]:
    """Gives a downloader that keeps what arrived in ``NAME.part`` and asks only for the rest."""
    part = place.with_name(f"{place.name}.part")

    def download(url: str, target: Any, _: Any) -> None:
        import requests

        have = part.stat().st_size if part.exists() else 0
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT_SECONDS) as reply:
            if reply.status_code == _RANGE_NOT_SATISFIABLE:
                part.unlink()  # nothing of it fits; the next try starts afresh
            reply.raise_for_status()
            resumed = reply.status_code == _PARTIAL and _starts_at(reply, have)
            _receive(reply, part, have if resumed else 0, place.name, progress)
        part.replace(target)

    return download


def _starts_at(reply: Any, have: int) -> bool:
    return str(reply.headers.get("Content-Range", "")).startswith(f"bytes {have}-")


def _receive(reply: Any, part: Path, have: int, name: str, progress: bool) -> None:
    length = reply.headers.get("Content-Length")
    total = None if length is None else have + int(length)
    done = have
    with (
        part.open("r+b" if have else "wb") as stream,
        progress_bar(name, unit="kB", enabled=progress) as update,
    ):
        stream.seek(have)
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
