"""A thread that makes items ahead of their reader, and never outlives or blocks it."""

import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_POLL = 0.1  # seconds between checks whether the other side still exists
_PATIENCE = 10.0  # seconds that a closing reader waits for the item being made


class Prefetcher(Generic[T], Iterator[T]):
    """Runs an iterator in a thread, at most `ahead` items before the reader.

    The thread ends with the items, when the reader calls `close`, and when the reader is deleted:
    after a `break`, by an exception, or at exit. An exception of the iterator is raised to the
    reader after the items before it.

    Args:
        make: Returns the iterator; called in the thread.
        ahead: Most items made and not yet read.

    Example:
        >>> list(Prefetcher(lambda: iter(range(3)), 2))
        [0, 1, 2]
    """

    def __init__(self, make: Callable[[], Iterator[T]], ahead: int) -> None:
        self._items: queue.Queue[tuple[str, Any]] = queue.Queue(max(1, ahead))
        self._stop = threading.Event()
        # The thread holds no reference to `self`: with one, the reader would never be deleted.
        self._thread = threading.Thread(
            target=_work, args=(make, self._items, self._stop), name="dhilgt-prefetch", daemon=True
        )
        self.close = weakref.finalize(self, _shut_down, self._thread, self._items, self._stop)
        self._thread.start()

    def __iter__(self) -> "Prefetcher[T]":
        return self

    def __next__(self) -> T:
        if not self.close.alive:
            raise StopIteration
        try:
            kind, item = self._get()
        except BaseException:  # Ctrl-C while waiting
            self.close()
            raise
        if kind == "item":
            value: T = item
            return value
        self.close()
        if kind == "error":
            raise item
        raise StopIteration

    def _get(self) -> tuple[str, Any]:
        while True:
            try:
                return self._items.get(timeout=_POLL)
            except queue.Empty:
                if not self._thread.is_alive() and self._items.empty():
                    raise RuntimeError("the prefetch thread ended without a result") from None


def _work(
    make: Callable[[], Iterator[Any]], items: "queue.Queue[tuple[str, Any]]", stop: threading.Event
) -> None:
    try:
        for item in make():
            if not _put(items, stop, ("item", item)):
                return
        _put(items, stop, ("end", None))
    except BaseException as error:
        _put(items, stop, ("error", error))


def _put(
    items: "queue.Queue[tuple[str, Any]]", stop: threading.Event, entry: tuple[str, Any]
) -> bool:
    while not stop.is_set():
        try:
            items.put(entry, timeout=_POLL)
        except queue.Full:
            continue
        return True
    return False


def _shut_down(
    thread: threading.Thread, items: "queue.Queue[tuple[str, Any]]", stop: threading.Event
) -> None:
    stop.set()
    while True:  # drop the waiting items: a full queue would block the thread
        try:
            items.get_nowait()
        except queue.Empty:
            break
    if thread is not threading.current_thread() and thread.ident is not None:
        thread.join(_PATIENCE)
