"""DHIL-GT as a user meets it: `NodeClassifier()` with nothing set, fitted and asked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.benchmark.running.contenders import Contender, Training, of_settings
from dhilgt.benchmark.running.grid import Cell


class DefaultContender(Contender):
    """The classifier with its defaults; it chooses its own settings, all of it timed.

    Only what belongs to the comparison is given: seed, metric of the dataset, device and threads.
    """

    def prepare(self) -> None:
        """Create the classifier; its precomputation is a part of `fit`."""
        self._classifier = default_classifier(
            self.cell, self.settings.training.metric, self._device, self._threads
        )

    def train(self) -> Training:
        """Fit on the split of the graph, and keep the settings that were chosen."""
        fitted = self._classifier.fit(self.graph)
        for stage in fitted._pipeline.clock.to_dict():
            if stage != "inference":  # that of the test nodes is timed here
                self.clock.take(stage, fitted._pipeline.clock)
        self.settings = of_settings(fitted.settings_)
        members = [member.model for member in getattr(fitted, "members_", ())] or [fitted.model_]
        self.num_parameters = sum(p.numel() for model in members for p in model.parameters())
        result = fitted.result_
        score, metric = result.best_score, result.metric
        return Training(result.epochs, result.best_epoch, score, metric, result.out_of_time)

    def predict(self, part: str) -> NDArray[np.float32]:
        """Return probabilities, by the public method."""
        with self.clock.measure("inference"):
            nodes = self.graph.ids_of(self.part(part))
            probabilities: NDArray[np.float32] = self._classifier.predict_proba(nodes)
        return probabilities

    def chosen(self) -> dict[str, Any] | None:
        """Return what was tried and chosen, without the scores of each rung."""
        search = getattr(self._classifier, "search_", None)
        if search is None:
            return None
        record = search if isinstance(search, dict) else search.to_dict()
        short = {name: value for name, value in record.items() if name != "candidates"}
        tried = {one["name"]: one["status"] for one in record.get("candidates", ())}
        return {**short, "candidates": tried}

    @property
    def inference_device(self) -> str:
        """The device of training."""
        from dhilgt.utils.devices import choose_device

        return str(choose_device(self._device))


def default_classifier(cell: Cell, metric: str, device: str, threads: int | None) -> Any:
    """Return the classifier that a cell of the recipe "auto" measures.

    The recipe is not named: what is measured is what a user gets who names none.

    Args:
        cell: Its changes are given to the classifier, which keeps to them; there are none but in
            trials.
        metric: The score that chooses.
        device: Where to train.
        threads: For labels, tokens and torch; None for all.
    """
    from dhilgt.classifier.classifier import NodeClassifier

    given = {**cell.changes.model, **cell.changes.training, "metric": metric, "seed": cell.seed}
    if threads is not None:
        given["threads"] = threads
    return NodeClassifier(**given, device=device, cache=False, progress=False)
