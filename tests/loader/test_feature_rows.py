"""Features that several loaders read: opened once, and in one copy on a device."""

import gc

import numpy as np
import pytest
import scipy.sparse
import torch

from dhilgt import GraphError
from dhilgt.loader.feature_rows import open_features

DENSE = np.arange(12, dtype=np.float32).reshape(4, 3)
CPU = torch.device("cpu")


@pytest.fixture(params=["dense", "sparse"])
def features(request):
    values = DENSE if request.param == "dense" else scipy.sparse.csr_array(DENSE)
    return open_features(values, 4)


def test_features_that_are_open_stay_as_they_are(features):
    assert open_features(features, 4) is features


def test_features_of_another_graph_are_refused(features):
    with pytest.raises(GraphError, match="4 rows, but the graph has 5 nodes"):
        open_features(features, 5)


def test_loaders_share_a_copy_on_a_device_while_one_of_them_lives(features):
    first, second = features.to(CPU), features.to(CPU)
    assert first is second
    rows = first.take(torch.tensor([2, 0]))
    rows = rows.to_dense() if rows.layout != torch.strided else rows
    np.testing.assert_array_equal(rows.numpy(), DENSE[[2, 0]])
    del first, second
    gc.collect()
    assert not list(features._copies.values())
