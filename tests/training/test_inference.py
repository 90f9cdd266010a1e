"""What batches and processes of an inference gave, joined: by ascending node, whoever had it."""

import numpy as np
import pytest

from dhilgt.loader.copies import probabilities
from dhilgt.training.scoring import Outputs, join


def share(nodes, labelled=True):
    """A process's part: logits and class of a node follow from its number."""
    nodes = np.asarray(nodes, np.int64)
    logits = np.stack([nodes, -nodes], 1).astype(np.float32)
    return Outputs(nodes, logits, nodes % 2 if labelled else None)


@pytest.mark.parametrize(
    "parts",
    [
        [[0, 1, 2, 3, 4, 5]],
        [[0, 1, 2], [3, 4, 5]],
        [[0, 2, 4], [1, 3, 5]],
        [[], [0, 1, 2, 3, 4, 5]],
    ],
    ids=["one process", "in order", "interleaved", "one without nodes"],
)
@pytest.mark.parametrize("labelled", [True, False])
def test_parts_are_joined_by_ascending_node(parts, labelled):
    actual = join([share(part, labelled) for part in parts])
    expected = share(range(6), labelled)
    np.testing.assert_array_equal(actual.nodes, expected.nodes)
    np.testing.assert_array_equal(actual.logits, expected.logits)
    assert (actual.labels is None) == (not labelled)
    if labelled:
        np.testing.assert_array_equal(actual.labels, expected.labels)


def test_no_nodes_at_all_are_no_error():
    assert len(join([share([]), share([])]).nodes) == 0


def test_probabilities_are_the_softmax_and_leave_the_logits():
    logits = np.array([[1000.0, 1000.0, 0.0], [-1000.0, 0.0, 1.0]], np.float32)
    kept = logits.copy()
    actual = probabilities(logits)
    powers = np.exp([-1.0, 0.0])
    np.testing.assert_allclose(actual, [[0.5, 0.5, 0.0], [0.0, *(powers / powers.sum())]])
    np.testing.assert_array_equal(logits, kept)
    assert probabilities(np.zeros((0, 3), np.float32)).shape == (0, 3)
