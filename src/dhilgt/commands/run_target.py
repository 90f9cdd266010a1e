"""The folder a run goes to: refused before any work, or left as it was."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from dhilgt.errors import ArtifactError
from dhilgt.settings_file import NAME


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
def taken_back(path: Path) -> Iterator[None]:
    """Removes a new folder if the block fails before anything of worth is in it."""
    made = [path, *path.resolve().parents]
    made = [one for one in made if not one.exists()]
    try:
        yield
    except BaseException:
        if path in made and path.is_dir():
            if any(one.name != NAME for one in path.iterdir()):
                raise
            (path / NAME).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                for one in made:
                    one.rmdir()
        raise
