"""One epoch of optimizer steps, alone or together with other processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from dhilgt.errors import TrainingError, TrainingWarning, warn
from dhilgt.training.config import TrainConfig
from dhilgt.training.distributed import Group
from dhilgt.training.optimizer import rate_factor, set_rate
from dhilgt.training.protocols import Batch, Loader
from dhilgt.training.state import TrainState
from dhilgt.training.steps import choose_steps


class EpochLoop:
    """Runs the steps of an epoch, from wherever the state stands.

    Every step counts each node of the global batch once: the mean loss of a process is weighted by
    its part of the batch. A process whose batches have run out takes part with weight zero.

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
        self._runner = choose_steps(
            model,
            device,
            config.precision,
            call=self._model,
            record=config.cuda_graph == "auto",
        )
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._optimizer = optimizer
        self._config = config
        self._group = group
        self._device = device
        self._seen_classes: Tensor | None = None
        self.steps = steps
        # MPS has no double precision.
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
        """Train to the end of the epoch; return False if a process was asked to stop before it.

        Args:
            loader: The training nodes.
            state: Where the epoch stands; moved on step by step.
            stop: Whether this process was asked to stop.
            after_step: Called with the number of nodes of each step, over all processes.
        """
        loader.set_epoch(state.epoch)
        self._model.train()
        if state.batch == 0:
            self.restart(0.0, 0)
        is_first = state.epoch == 0 and state.batch == 0
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
                if batch is not None:
                    last = batch
                elif last is None:
                    last = next(iter(loader.iterate(start_batch=0)))
                self._step(last, state, total, takes_part=batch is not None, is_first=is_first)
                after_step(total)
        finally:
            # A loader with a background thread ends it when its iterator is closed.
            getattr(batches, "close", lambda: None)()
        if is_first:
            self._warn_of_missing_classes(getattr(loader, "class_names", None))
        return True

    def restart(self, loss_sum: float, count: int) -> None:
        """Set the sums of the epoch so far."""
        self.loss_sum.fill_(loss_sum)
        self.count = count

    def mean_loss(self) -> float:
        """Return the mean loss of the epoch so far, over all processes."""
        parts = self._group.collect_everywhere((float(self.loss_sum), self.count))
        return sum(part for part, _ in parts) / max(1, sum(count for _, count in parts))

    @property
    def warmup_steps(self) -> float:
        """Optimizer steps of the warm-up."""
        config = self._config
        steps = config.warmup_steps
        return config.warmup_epochs * self.steps if steps is None else steps

    def rate(self, step: int) -> float:
        """Return the learning rate of optimizer step ``step`` (from 0)."""
        config, steps, warmup = self._config, self.steps, self.warmup_steps
        total = config.epochs * steps if config.decay_steps is None else config.decay_steps
        factor = rate_factor(step, total, warmup, config.decay)
        if step < warmup or config.decay == "none":
            return config.lr * factor
        return config.end_lr + (config.lr - config.end_lr) * factor

    def _batches(self, loader: Loader, start: int) -> Iterator[Batch]:
        return iter(loader.iterate(start_batch=start)) if start < len(loader) else iter(())

    def _step(
        self, batch: Batch, state: TrainState, total: int, *, takes_part: bool, is_first: bool
    ) -> None:
        """Take one optimizer step.

        Args:
            batch: Of this process; where it does not take part, any batch.
            state: Moved on by one step.
            total: Nodes of the step, over all processes.
            takes_part: Whether the batch counts.
            is_first: Whether this is the first epoch, whose labels are checked.
        """
        set_rate(self._optimizer, self.rate(state.step))
        self._optimizer.zero_grad(set_to_none=True)
        moved = batch.to(self._device, non_blocking=True)
        if not takes_part:
            self._take_part_with_weight_zero(moved)
            self._update_weights()
        # A whole step exchanges no gradients and checks no labels.
        elif is_first or self._group.size > 1 or not self._take_whole_step(moved):
            self._learn(moved, total, is_first)
            self._update_weights()
        state.step += 1
        state.batch += 1

    def _take_whole_step(self, batch: Batch) -> bool:
        loss = self._runner.whole_step(batch, self._optimizer, self._config.clip_norm)
        if loss is not None:
            self._count_loss(loss, len(batch))
        return loss is not None

    def _learn(self, batch: Batch, total: int, is_first: bool) -> None:
        labels = batch.labels
        if labels is None:
            raise TrainingError("the training loader has no labels; give it labels=")
        logits = self._runner.logits(batch)
        if is_first:
            self._check_labels(labels, logits.shape[1], batch.nodes)
        loss = functional.cross_entropy(logits.float(), labels)
        # Gradients are averaged over processes; this makes it an average over nodes.
        weight = self._group.size * len(batch) / total
        (loss * weight if self._group.size > 1 else loss).backward()  # type: ignore[no-untyped-call]
        self._count_loss(loss.detach(), len(batch))

    def _take_part_with_weight_zero(self, batch: Batch) -> None:
        """Join the exchange of gradients without adding to them."""
        devices = [self._device] if self._device.type == "cuda" else []
        # Leaves the random numbers alone, so that a resumed run draws the same ones.
        with torch.random.fork_rng(devices=devices):
            logits = self._runner.logits(batch)
        (logits.sum() * 0.0).backward()  # type: ignore[no-untyped-call]

    def _update_weights(self) -> None:
        if self._config.clip_norm is not None:
            nn.utils.clip_grad_norm_(self._parameters, self._config.clip_norm)
        self._optimizer.step()

    def _count_loss(self, loss: Tensor, nodes: int) -> None:
        self.loss_sum += loss * nodes
        self.count += nodes

    # ---- the first epoch ----------------------------------------------------------------------

    def _check_labels(self, labels: Tensor, classes: int, nodes: Tensor) -> None:
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or high >= classes:
            at = int(((labels < 0) | (labels >= classes)).nonzero()[0, 0])
            raise TrainingError(
                f"node {int(nodes[at])} has label {int(labels[at])}, but the model has {classes} "
                f"classes (0 to {classes - 1}); leave nodes without a label out of training, or "
                "give the model more classes"
            )
        if self._seen_classes is None:
            self._seen_classes = torch.zeros(classes, dtype=torch.bool, device=labels.device)
        self._seen_classes.index_fill_(0, labels, True)

    def _warn_of_missing_classes(self, names: Sequence[str] | None) -> None:
        own = [] if self._seen_classes is None else self._seen_classes.nonzero().flatten().tolist()
        seen = sorted({label for part in self._group.collect_everywhere(own) for label in part})
        if self._seen_classes is None or not self._group.is_main:
            return
        absent = [label for label in range(len(self._seen_classes)) if label not in set(seen)]
        name_of = str if names is None else names.__getitem__
        if len(seen) == 1:
            warn(
                f"all training nodes are of class {name_of(seen[0])}; the model can only learn to "
                "answer it",
                TrainingWarning,
            )
        elif absent:
            listed = ", ".join(map(name_of, absent[:10])) + (", ..." if len(absent) > 10 else "")
            warn(f"no training node is of class {listed}; it cannot be learned", TrainingWarning)
