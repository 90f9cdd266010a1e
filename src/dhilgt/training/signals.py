"""Signals that ask to stop, noted for the work to stop between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, ClassVar

_Handler = Callable[[int, FrameType | None], Any]


class StoppedAtOnce(KeyboardInterrupt):
    """A second SIGINT came before the work had stopped on the first signal.

    Attributes:
        signum: The signal.
    """

    def __init__(self, signum: int) -> None:
        super().__init__("stopped at once by a second SIGINT; what was saved before is whole")
        self.signum = signum


class StopSignals:
    """Notes SIGINT and SIGTERM while its block runs, for the work to check between steps.

    Earlier handlers of the user are called as well, and restored at the end. A signal that is
    ignored stays ignored. A second SIGINT stops at once. Outside the main thread, where Python
    delivers no signals, only `ask` has an effect.

    Attributes:
        signum: The first signal that was received, None before.

    Example:
        >>> with StopSignals() as stop:
        ...     stop.requested
        False
    """

    _active: ClassVar[list[StopSignals]] = []

    def __init__(self) -> None:
        self.signum: int | None = None
        self._before: dict[int, Any] = {}

    @classmethod
    def ask(cls, signum: int) -> None:
        """Ask all work in this process to stop, as a signal would; from any thread.

        Args:
            signum: The signal that it is to be taken for.
        """
        for one in list(cls._active):
            one.signum = one.signum or signum

    @property
    def requested(self) -> bool:
        """Whether the work should stop."""
        return self.signum is not None

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(signum)
                # None: set by C code, and could not be restored.
                if handler is not None and handler is not signal.SIG_IGN:
                    self._before[signum] = handler
                    signal.signal(signum, self._note)
        self._active.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._active.remove(self)
        self._restore()

    def _restore(self) -> None:
        while self._before:
            signum, handler = self._before.popitem()
            signal.signal(signum, handler)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        again = self.signum is not None
        if not again:
            self.signum = signum
        if again and signum == signal.SIGINT:
            self._restore()
            raise StoppedAtOnce(signum)
        before = self._before.get(signum)
        if callable(before) and before is not signal.default_int_handler:
            before(signum, frame)
