"""Files that are compared with their hashes once on every machine, not by each of its processes.

All searches map the table, which may be larger than the memory of a worker. Processes of a machine
share its pages, so what one of them has compared holds for the others. A small file beside it says
so: which machine, and which state of the file.
"""

import contextlib
import random
import socket
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from dhilgt.labels.sharding.sections import Sections
from dhilgt.store.files import explained


def check_once(files: Iterable[Sections]) -> None:
    """Compare files with their hashes, but for those that this machine has compared before.

    Processes that begin at the same time begin with different files.

    Args:
        files: The files.

    Raises:
        ArtifactError: If one is damaged.
    """
    order = list(files)
    random.SystemRandom().shuffle(order)
    for one in order:
        note, state = _note(one.path), _state(one.path)
        if _noted(note) == state:
            continue
        one.check()
        with contextlib.suppress(OSError):  # the next process compares it again
            note.write_text(state, encoding="ascii")


def _note(path: Path) -> Path:
    return path.with_name(f".{path.name}.checked-{socket.gethostname()}{_running_system()}")


@lru_cache(maxsize=1)
def _running_system() -> str:
    """Return what tells machines of the same name apart; nothing where the system does not say."""
    try:  # not `uuid.getnode`: without a network it is another number in every process
        found = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        return ""
    return f"-{found[:8]}"


def _state(path: Path) -> str:
    with explained("read", path):
        found = path.stat()
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}\n"


def _noted(note: Path) -> str | None:
    try:
        return note.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None
