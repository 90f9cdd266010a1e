"""The folder a run goes to: refused before any work, or left as it was."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from dhilgt.errors import ArtifactError
from dhilgt.settings_file import NAME
from dhilgt.store_files import explained, write_file


def check_place(path: Path, *, resume: bool) -> None:
    """Refuses a folder that cannot take a run; makes nothing.

    Args:
        path: The folder.
        resume: Whether a run that is there is to go on.

    Raises:
        ArtifactError: If it cannot be used; the message says why.
    """
    from dhilgt.run_folder import RunFolder

    if path.exists():
        folder = RunFolder(path)
        folder.open(resume=resume)
        folder.close()
        return
    above = path.resolve().parent
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        raise ArtifactError(f"{above} is a file, so {path} cannot be made; choose another path")
    if not os.access(above, os.W_OK | os.X_OK):
        raise ArtifactError(f"{above} cannot be written; allow it or choose another folder")


@contextlib.contextmanager
def started(path: Path, config: str) -> Iterator[None]:
    """Puts config.yaml in a run's folder; if the block fails, the folder is as it was before.

    What training saved stays: an interrupted run goes on from there.

    Args:
        path: The folder.
        config: The text of the file.
    """
    file = path / NAME
    new = [one for one in (path.resolve(), *path.resolve().parents) if not one.exists()]
    before = file.read_bytes() if file.exists() else None
    try:
        with explained("write", file):
            path.mkdir(parents=True, exist_ok=True)
            _write(file, config.encode())
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):
            if all(one.name == NAME for one in path.iterdir()):
                file.unlink(missing_ok=True)
            if before is not None and not isinstance(error, KeyboardInterrupt):
                _write(file, before)
            for one in new:  # those that are not empty stay
                one.rmdir()
        raise


def _write(file: Path, data: bytes) -> None:
    write_file(file, iter((memoryview(data),)))
