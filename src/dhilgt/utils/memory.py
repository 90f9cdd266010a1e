"""The memory a process may use, and sizes such as "4GB"."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dhilgt.errors import MemoryLimitError

_DECIMAL = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
# "you tried to allocate 123 bytes", "Unable to allocate 7.11 PiB", "malloc of size 123 failed"
_REFUSED = re.compile(
    r"(?:allocate|of size) ([0-9]+(?:\.[0-9]*)?)(?: ([KMGTP]iB)| bytes| failed)", re.IGNORECASE
)
_ALLOCATOR_WORDS = ("can't allocate memory", "out of memory")
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([KMGTP]?)(I?)B?\s*", re.IGNORECASE)


def available_bytes(
    proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """Return the bytes this process can still allocate before it is refused or killed.

    This is the smallest of the free memory of the machine, the headroom of each control group
    around the process (container, job), and the rest of the address space limit (``ulimit -v``).

    Args:
        proc: Mount point of the ``proc`` file system.
        cgroup: Mount point of the control groups.

    Returns:
        The number of bytes, or None if the system does not report any.

    Example:
        >>> free = available_bytes()
        >>> free is None or free >= 0
        True
    """
    machine = _machine_available(proc)
    limits = [*_cgroup_headrooms(proc, cgroup), *_address_space_headroom(proc)]
    if machine is not None:
        limits.append(machine)
    return max(0, min(limits)) if limits else None


def parse_size(size: str | int) -> int:
    """Return a size in bytes: ``"4GB"`` is 4 * 10^9, ``"512MiB"`` is 512 * 2^20, ``7`` is 7.

    A letter alone is decimal (``"4G"`` is ``"4GB"``): for a limit, the smaller one is safer.

    Raises:
        ValueError: If the text is not a size, or the size is not positive.

    Example:
        >>> parse_size("1.5GB")
        1500000000
    """
    num_bytes: Any = size
    if isinstance(size, str):
        match = _SIZE.fullmatch(size)
        # "4iB" is a typing error: the "i" belongs to a letter.
        if match is None or (match[3] and not match[2]):
            raise ValueError(f'{size!r} is not a size; write for example "4GB", "512MiB" or 4096')
        scale = (_BINARY if match[3] else _DECIMAL)[match[2].upper()]
        number = float(match[1]) if "." in match[1] else int(match[1])
        num_bytes = math.floor(number * scale)
    if isinstance(num_bytes, bool) or not isinstance(num_bytes, int):
        raise ValueError(f'{size!r} is not a size; write for example "4GB", "512MiB" or 4096')
    if num_bytes <= 0:
        raise ValueError(f"a size of {size!r} leaves no room; give a positive number of bytes")
    return num_bytes


def format_bytes(num_bytes: int) -> str:
    """Return a number of bytes as text, in decimal units.

    Example:
        >>> format_bytes(1_500_000_000), format_bytes(640)
        ('1.5 GB', '640 B')
    """
    sign, size = ("-", -num_bytes) if num_bytes < 0 else ("", num_bytes)
    if size < 1000:
        return f"{sign}{size} B"
    value = float(size)
    for unit in ("kB", "MB", "GB", "TB", "PB"):
        value /= 1000
        if value < 999.5 or unit == "PB":
            break
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    text = f"{value:.{digits}f}"
    return f"{sign}{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"


def _machine_available(proc: Path) -> int | None:
    available = _fields(proc / "meminfo").get("MemAvailable:")
    if available is not None:
        return available * 1024
    try:
        import psutil  # type: ignore[import-untyped, unused-ignore]

        return int(psutil.virtual_memory().available)
    except Exception:
        # psutil is not installed or fails on this system: ask the C library.
        return _sysconf_available()


def _sysconf_available() -> int | None:
    for pages in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"):
        try:
            available = os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, OSError, ValueError):
            continue
        if available > 0:
            return available
    return None


def _cgroup_headrooms(proc: Path, root: Path) -> Iterator[int]:
    """Yield the headroom of each control group, from the one of this process up to the root."""
    for line in _text(proc / "self" / "cgroup").splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if hierarchy == "0" and not controllers:
            # Version 2; a mixed system mounts it one level down.
            for mount in (root, root / "unified"):
                yield from _walk_up(mount, group, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            yield from _walk_up(
                root / "memory",
                group,
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file",
            )


def _walk_up(mount: Path, group: str, limit: str, usage: str, reclaimable: str) -> Iterator[int]:
    # Inside a container the group may have its name on the host ("/docker/4f..", "/../x"). Such
    # folders do not exist inside; the walk ends at the mount, which is the container's own group.
    parts = [part for part in group.split("/") if part not in ("", ".", "..")]
    for depth in range(len(parts), -1, -1):
        folder = mount.joinpath(*parts[:depth])
        limit_bytes = _number(_text(folder / limit))
        used_bytes = _number(_text(folder / usage))
        if limit_bytes is None or used_bytes is None:
            continue  # "max", or no such file: this group has no limit.
        # Inactive page cache counts as used, but the kernel frees it on demand.
        cache = _fields(folder / "memory.stat").get(reclaimable, 0)
        yield max(0, limit_bytes - max(0, used_bytes - cache))


def _address_space_headroom(proc: Path) -> Iterator[int]:
    try:
        import resource
    except ImportError:
        return
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return
    pages = _number(_text(proc / "self" / "statm").partition(" ")[0])
    used = 0 if pages is None else pages * resource.getpagesize()
    yield max(0, soft - used)


def _fields(path: Path) -> dict[str, int]:
    """Return the first number of each line of a file of ``name number ...``, by name."""
    fields = {}
    for line in _text(path).splitlines():
        name, _, rest = line.partition(" ")
        number = _number(rest.split()[0]) if rest.split() else None
        if number is not None:
            fields[name] = number
    return fields


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


UNLIMITED = 2**64 - 1
"""A memory limit in bytes that no build reaches."""


def memory_limit(max_memory: int | str | None) -> int:
    """Return a memory limit in bytes: ``max_memory``, or all memory that is available if None.

    Example:
        >>> memory_limit("1GB")
        1000000000
    """
    if max_memory is not None:
        return parse_size(max_memory)
    free = available_bytes()
    return UNLIMITED if free is None else free


# ---- memory that the system refuses -------------------------------------------------------------


def is_memory_error(error: BaseException) -> bool:
    """Return whether an error says that the system or a device has no more memory to give.

    Example:
        >>> is_memory_error(MemoryError()), is_memory_error(RuntimeError("no such node"))
        (True, False)
    """
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(
        words in str(error) for words in _ALLOCATOR_WORDS
    )


def memory_message(error: BaseException, what: str | None = None) -> str:
    """Return what a memory error means: what was being made, and how much memory was refused.

    Args:
        error: From the system, NumPy, PyTorch or PyArrow.
        what: What was being made.

    Example:
        >>> memory_message(RuntimeError("you tried to allocate 3200000000 bytes"), "a batch")
        'there is not enough memory for a batch: 3.2 GB more were asked for'
    """
    text = "there is not enough memory" + ("" if what is None else f" for {what}")
    found = _REFUSED.search(str(error))
    if found is None:
        return text
    refused = float(found[1]) * (_BINARY[found[2][0].upper()] if found[2] else 1)
    return f"{text}: {format_bytes(int(refused))} more were asked for"


@contextlib.contextmanager
def memory_for(what: str, way_out: str) -> Iterator[None]:
    """Explain the memory errors of a block, whichever library they come from.

    Args:
        what: What the block makes.
        way_out: What needs less memory.

    Raises:
        MemoryLimitError: In place of such an error; one with an explanation of its own stays.
    """
    try:
        yield
    except MemoryLimitError:
        raise
    except (MemoryError, RuntimeError) as error:
        if not is_memory_error(error):
            raise
        raise MemoryLimitError(f"{memory_message(error, what)}; {way_out}") from error
