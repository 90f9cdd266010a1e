"""Predictions from several copies of tokens: the mean of their probabilities."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from dhilgt.loader.batch import TokenBatch
from dhilgt.loader.loader import TokenLoader


class CopyAverage:
    """The mean of class probabilities over copies of tokens, added copy by copy.

    Args:
        copies: Number of copies that will be added.

    Example:
        >>> average = CopyAverage(2)
        >>> for logits in ([[0.0, 0.0]], [[50.0, -50.0]]):
        ...     average.add(np.array(logits, np.float32))
        >>> np.exp(average.logits()).round(3)
        array([[0.75, 0.25]], dtype=float32)
    """

    def __init__(self, copies: int) -> None:
        self._copies = copies
        self._total: NDArray[np.float64] | None = None

    def add(self, logits: NDArray[np.float32]) -> None:
        """Add the logits of one copy, [B, C]."""
        part = probabilities(logits) / self._copies
        self._total = part if self._total is None else self._total + part

    def logits(self) -> NDArray[np.float32]:
        """Return the logarithms of the mean probabilities: their softmax is the mean, [B, C]."""
        assert self._total is not None, "at least one copy was added"
        # The logarithm of a probability of 0 would make every score of it undefined.
        return np.log(np.maximum(self._total, np.finfo(np.float32).tiny)).astype(np.float32)


def probabilities(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the softmax of logits.

    Example:
        >>> probabilities(np.zeros((1, 4), np.float32))
        array([[0.25, 0.25, 0.25, 0.25]])
    """
    if not logits.size:
        return logits.astype(np.float64)
    powers: NDArray[np.float64] = np.subtract(
        logits, logits.max(axis=1, keepdims=True), dtype=np.float64
    )
    np.exp(powers, out=powers)
    powers /= powers.sum(axis=1, keepdims=True)
    return powers


def averaged_logits(
    model: Callable[..., torch.Tensor], loader: TokenLoader, start_batch: int = 0
) -> Iterator[tuple[TokenBatch, torch.Tensor]]:
    """Yield batches with logits whose softmax is the mean of the probabilities over the copies.

    With one copy these are the model's own logits. No gradients are kept; put the model into
    evaluation mode first.

    Args:
        model: Called with a batch's inputs.
        loader: Whose `copies` are averaged.
        start_batch: Number of the first batch.

    Example:
        >>> import dhilgt
        >>> graph = dhilgt.generate(50, 4, seed=1, num_features=8)
        >>> labels = dhilgt.HubLabels.build(graph, progress=False)
        >>> sampler = dhilgt.TokenSampler(labels, size=4, progress=False)
        >>> loader = TokenLoader(sampler, graph.features, batch_size=50, copies=3)
        >>> def model(x, index, spd):
        ...     return x[index[:, 0]]
        >>> [logits.shape for _, logits in averaged_logits(model, loader)]
        [torch.Size([50, 8])]
    """
    for batches in loader.iterate_copies(start_batch):
        with torch.no_grad():
            each = [model(*batch.inputs) for batch in batches]
        logits = each[0]
        if len(each) > 1:
            average = CopyAverage(len(each))
            for one in each:
                average.add(one.float().cpu().numpy())
            logits = torch.from_numpy(average.logits()).to(logits.device)
        yield batches[0], logits
