"""The progress display of training."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

from dhilgt.utils.progress import Progress

_SECONDS_BETWEEN_NOTES = 0.25


class TrainDisplay:
    """A progress bar over all steps, with epoch, loss, validation score, best score and speed.

    Nothing is written where standard error is not a terminal (a pipe, a log file).

    Example:
        >>> display = TrainDisplay("training", epochs=2, enabled=False)
        >>> display.start()
        >>> display.step(done=1, total=10, nodes=64, loss=lambda: 0.7)
        >>> display.stop()
    """

    def __init__(
        self,
        title: str,
        epochs: int,
        *,
        enabled: bool | Literal["auto"] = "auto",
        force: bool = False,
    ) -> None:
        self._bar = Progress(title, unit="steps", enabled=enabled, force=force)
        self._epochs = epochs
        self._epoch = 0
        self._scores = ""
        self._loss = ""
        self._rate = ""
        self._nodes = 0
        self._done = self._total = 0
        self._since = self._next = time.monotonic()

    def start(self) -> None:
        """Draw the empty bar."""
        self._bar.start()
        self._since = self._next = time.monotonic()

    def step(self, done: int, total: int, nodes: int, loss: Callable[[], float]) -> None:
        """Show that a step over ``nodes`` nodes is done; ``loss`` is called only now and then.

        Computing the loss makes the host wait for the GPU.
        """
        self._nodes += nodes
        self._done, self._total = done, total
        now = time.monotonic()
        if now < self._next or not self._bar.shown:
            return
        self._loss = f"loss {loss():.4f}"
        if now - self._since > 0:
            self._rate = f"{self._nodes / (now - self._since):,.0f} nodes/s"
        self._next = now + _SECONDS_BETWEEN_NOTES
        self._bar.update(done, total, note=self._note())

    def epoch(self, number: int) -> None:
        """Begin epoch ``number`` (from 1)."""
        self._epoch, self._nodes, self._since = number, 0, time.monotonic()

    def scored(self, line: dict[str, Any], best: str) -> None:
        """Show the numbers of a finished epoch."""
        if line["val_score"] is not None:
            self._scores = f"{line['metric']} {line['val_score']:.4f}  best {best}"
        elif line["val_loss"] is not None:
            self._scores = f"val loss {line['val_loss']:.4f}  best {best}"
        self._loss = f"loss {line['train_loss']:.4f}"
        if self._total:
            self._bar.update(self._done, self._total, note=self._note())

    def stop(self) -> None:
        """Stop, and leave the bar on the screen."""
        self._bar.stop()

    def _note(self) -> str:
        # A narrow terminal shows the first ones.
        parts = (f"epoch {self._epoch}/{self._epochs}", self._scores, self._loss, self._rate)
        return "  ".join(part for part in parts if part)
