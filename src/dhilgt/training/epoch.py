"""One epoch of optimizer steps, alone or in step with other processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from dhilgt.errors import TrainingError, TrainingWarning, warn
from dhilgt.loader.batch import knowing_fill
from dhilgt.training.config import TrainConfig
from dhilgt.training.distributed import Group
from dhilgt.training.optimizer import rate_factor, set_rate
from dhilgt.training.protocols import Batch, Loader
from dhilgt.training.scoring import autocast
from dhilgt.training.state import TrainState

if TYPE_CHECKING:
    from dhilgt.model.kernels.cuda_graphs import StepGraphs


class EpochLoop:
    """Runs the steps of an epoch from wherever the state stands.

    Every step counts each node of the global batch once: a process's mean loss is weighted by its
    share of the batch. A process whose batches have run out takes part with weight zero.

    Attributes:
        loss_sum: Sum of the losses of this process's nodes in the epoch so far.
        count: Number of these nodes.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        config: TrainConfig,
        group: Group,
        device: torch.device,
        steps: int,
    ) -> None:
        self._model = group.wrap(model, device)
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._optimizer = optimizer
        self._config = config
        self._group = group
        self._device = device
        self._seen: Tensor | None = None
        self._graphs: StepGraphs | None = None
        self.steps = steps
        # Not in double precision on devices that have none.
        dtype = torch.float32 if device.type == "mps" else torch.float64
        self.loss_sum = torch.zeros((), dtype=dtype, device=device)
        self.count = 0

    def run(
        self,
        loader: Loader,
        state: TrainState,
        stop: Callable[[], bool],
        after_step: Callable[[int], None],
    ) -> bool:
        """Trains to the end of the epoch; False if any process was asked to stop before it."""
        loader.set_epoch(state.epoch)
        self._model.train()
        if state.batch == 0:
            self.restart(0.0, 0)
        watched = state.epoch == 0 and state.batch == 0
        batches = self._batches(loader, state.batch)
        last: Batch | None = None
        try:
            while state.batch < self.steps:
                batch = next(batches, None)
                count = 0 if batch is None else len(batch)
                total, stops = self._group.add_up([count, int(stop())])
                if stops:
                    return False
                if total == 0:
                    raise TrainingError(
                        f"the loader ended after {state.batch} of {self.steps} batches; "
                        "len(loader) and its batches do not agree"
                    )
                last = self._step(loader, batch, last, total, state, watched)
                after_step(total)
        finally:
            # A loader with a background thread ends it when its iterator is closed.
            getattr(batches, "close", lambda: None)()
        if watched:
            self._tell_classes(getattr(loader, "class_names", None))
        return True

    def restart(self, loss_sum: float, count: int) -> None:
        """Has the sums of the epoch begin at these values."""
        self.loss_sum.fill_(loss_sum)
        self.count = count

    def mean_loss(self) -> float:
        """Gives the mean loss of the epoch so far, over all processes."""
        parts = self._group.collect_everywhere((float(self.loss_sum), self.count))
        return sum(part for part, _ in parts) / max(1, sum(count for _, count in parts))

    def rate(self, step: int) -> float:
        """Gives the learning rate of optimizer step ``step`` (from 0)."""
        config, steps = self._config, self.steps
        warmup = config.warmup_epochs * steps
        if config.warmup_steps is not None:
            warmup = config.warmup_steps
        total = config.epochs * steps if config.decay_steps is None else config.decay_steps
        factor = rate_factor(step, total, warmup, config.decay)
        if step < warmup or config.decay == "none":
            return config.lr * factor
        return config.end_lr + (config.lr - config.end_lr) * factor

    def _batches(self, loader: Loader, start: int) -> Iterator[Batch]:
        return iter(loader.iterate(start_batch=start)) if start < len(loader) else iter(())

    def _step(
        self,
        loader: Loader,
        batch: Batch | None,
        last: Batch | None,
        total: int,
        state: TrainState,
        watched: bool,
    ) -> Batch | None:
        config = self._config
        set_rate(self._optimizer, self.rate(state.step))
        self._optimizer.zero_grad(set_to_none=True)
        if batch is None:
            last = last or next(iter(loader.iterate(start_batch=0)))
            self._stand_in(last)
        elif self._replay(batch, watched):
            state.step += 1
            state.batch += 1
            return batch
        else:
            last = batch
            self._learn(batch, total, watched)
        if config.clip_norm is not None:
            nn.utils.clip_grad_norm_(self._parameters, config.clip_norm)
        self._optimizer.step()
        state.step += 1
        state.batch += 1
        return last

    def _replay(self, batch: Batch, watched: bool) -> bool:
        """Takes the step as a CUDA graph; False if it has to be taken kernel by kernel."""
        if not self._recordable(watched):
            return False
        if self._graphs is None:
            from dhilgt.model.kernels.cuda_graphs import StepGraphs

            self._graphs = StepGraphs(
                self._model,
                self._optimizer,
                self._config.clip_norm,
                lambda: autocast(self._device, self._config.precision),
            )
        moved = batch.to(self._device, non_blocking=True)
        if moved.labels is None:
            return False
        loss = self._graphs.step(moved.inputs, moved.labels, getattr(moved, "filled", None))
        if loss is None:
            return False
        self.loss_sum += loss * len(batch)
        self.count += len(batch)
        return True

    def _recordable(self, watched: bool) -> bool:
        # The first epoch looks at labels and gives the optimizer its state.
        return (
            self._config.cuda_graph == "auto"
            and self._device.type == "cuda"
            and self._group.size == 1
            and not watched
            and bool(self._optimizer.state)
            and getattr(self._model, "attention_used", None) == "fused"
        )

    def _learn(self, batch: Batch, total: int, watched: bool) -> None:
        moved = batch.to(self._device, non_blocking=True)
        labels = moved.labels
        if labels is None:
            raise TrainingError("the training loader has no labels; give it labels=")
        with autocast(self._device, self._config.precision), knowing_fill(moved):
            logits = self._model(*moved.inputs)
        if watched:
            self._watch(labels, logits.shape[1], moved.nodes)
        loss = functional.cross_entropy(logits.float(), labels)
        # Gradients are averaged over processes; this makes it an average over nodes.
        weight = self._group.size * len(batch) / total
        (loss * weight if self._group.size > 1 else loss).backward()  # type: ignore[no-untyped-call]
        self.loss_sum += loss.detach() * len(batch)
        self.count += len(batch)

    def _stand_in(self, batch: Batch) -> None:
        """Joins the exchange of gradients without adding to them."""
        devices = [self._device] if self._device.type == "cuda" else []
        # Leaves the random numbers alone, so that a resumed run draws the same ones.
        with torch.random.fork_rng(devices=devices), autocast(self._device, self._config.precision):
            logits = self._model(*batch.to(self._device).inputs)
        (logits.sum() * 0.0).backward()

    # ---- the first epoch ----------------------------------------------------------------------

    def _watch(self, labels: Tensor, classes: int, nodes: Tensor) -> None:
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or high >= classes:
            at = int(((labels < 0) | (labels >= classes)).nonzero()[0, 0])
            raise TrainingError(
                f"node {int(nodes[at])} has label {int(labels[at])}, but the model has {classes} "
                f"classes (0 to {classes - 1}); leave nodes without a label out of training, or "
                "give the model more classes"
            )
        if self._seen is None:
            self._seen = torch.zeros(classes, dtype=torch.bool, device=labels.device)
        self._seen.index_fill_(0, labels, True)

    def _tell_classes(self, names: Sequence[str] | None) -> None:
        own = [] if self._seen is None else self._seen.nonzero().flatten().tolist()
        seen = sorted({label for part in self._group.collect_everywhere(own) for label in part})
        if self._seen is None or not self._group.is_main:
            return
        absent = [label for label in range(len(self._seen)) if label not in set(seen)]
        shown = str if names is None else names.__getitem__
        if len(seen) == 1:
            warn(
                f"all training nodes are of class {shown(seen[0])}; the model can only learn to "
                "answer it",
                TrainingWarning,
            )
        elif absent:
            listed = ", ".join(map(shown, absent[:10])) + (", ..." if len(absent) > 10 else "")
            warn(f"no training node is of class {listed}; it cannot be learned", TrainingWarning)
