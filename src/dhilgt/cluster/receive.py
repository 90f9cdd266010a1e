"""Files of a unit that is done: written by the driver, or seen in the shared folder."""

from __future__ import annotations

import time

from dhilgt.cluster.folder import JobFolder
from dhilgt.cluster.units import Report
from dhilgt.errors import ArtifactError
from dhilgt.store.files import CHUNK_BYTES, explained, write_file

_SECONDS_TO_APPEAR = 10.0


def receive(folder: JobFolder, unit: str, report: Report) -> None:
    """Make sure that the files of a unit are in the folder of the job.

    Args:
        folder: Of the job.
        unit: Name of the unit.
        report: Of the worker. If it does not see the folder, the report has the files' bytes.

    Raises:
        ArtifactError: If a file is not there, or its bytes are not those that were hashed.
    """
    assert report.outcome is not None
    if report.sees_folder:
        for file in report.outcome.files:
            _wait_for(folder, file.name, file.num_bytes, f"{unit} on node {report.node}")
        return
    for file, content in zip(report.outcome.files, report.contents, strict=True):
        path = folder.folder / file.name
        path.parent.mkdir(exist_ok=True)
        data = content.data
        chunks = (data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES))
        with explained("write", path, file.num_bytes):
            write_file(path, chunks)
        if not folder.is_whole(file):
            raise ArtifactError(
                f"{path} came with other bytes from node {report.node} than were written there; "
                "run the same call again"
            )


def _wait_for(folder: JobFolder, name: str, num_bytes: int, origin: str) -> None:
    """Wait until a file is seen here: a network file system may show it a moment later."""
    path = folder.folder / name
    limit = time.monotonic() + _SECONDS_TO_APPEAR
    while True:
        try:
            found = path.stat().st_size
        except FileNotFoundError:
            found = None
        if found == num_bytes:
            return
        if time.monotonic() > limit:
            state = "is not there" if found is None else f"has {found} bytes here"
            raise ArtifactError(
                f"{path} {state}, though {origin} wrote {num_bytes} bytes; check that the folder "
                "is the same on all nodes"
            )
        time.sleep(0.1)
