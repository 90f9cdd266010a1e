"""Wide features that are mostly zeros: multiplied as sparse rows on a CPU, whoever passes them."""

import numpy as np
import pytest
import scipy.sparse
import torch

import dhilgt
from dhilgt.classifier.pipeline import Pipeline, _fast_form
from dhilgt.settings.settings import Settings
from tests.classifier.cases import community_graph, quick

torch.set_num_threads(1)
STILL = {"dropout": 0.0, "input_dropout": 0.0, "bias_dropout": 0.0}
CPU, GPU = torch.device("cpu"), torch.device("cuda")


def words(num_nodes, width=300, each=6, seed=0):
    """Return rows of a few ones, as of words in a text."""
    rng = np.random.default_rng(seed)
    dense = np.zeros((num_nodes, width), np.float32)
    for row in dense:
        row[rng.choice(width, each, replace=False)] = 1
    return dense


def test_only_wide_features_of_few_entries_become_sparse_on_a_cpu():
    wide = words(20)
    assert scipy.sparse.issparse(_fast_form(wide, CPU))
    np.testing.assert_array_equal(_fast_form(wide, CPU).toarray(), wide)
    assert _fast_form(wide, GPU) is wide
    narrow, filled = wide[:, :200], wide + 1
    assert _fast_form(narrow, CPU) is narrow
    assert _fast_form(filled, CPU) is filled


def test_a_mapped_file_is_not_read_for_it(tmp_path):
    np.save(tmp_path / "x.npy", words(20))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert _fast_form(mapped, CPU) is mapped


def test_sparse_rows_of_many_entries_become_dense_on_a_gpu():
    few, many = (scipy.sparse.csr_array(words(20, each=one)) for one in (6, 100))
    assert _fast_form(few, GPU) is few
    assert isinstance(_fast_form(many, GPU), np.ndarray)
    assert _fast_form(many, CPU) is many


@pytest.mark.parametrize("hops", [0, 2])
def test_dense_and_sparse_features_give_the_same_classifier(hops):
    graph = community_graph()
    x = words(graph.num_nodes)
    plain, sparse = (
        quick(epochs=2, hops=hops, feature_scale="none", **STILL).fit(graph.with_data(features=one))
        for one in (x, scipy.sparse.csr_array(x))
    )
    np.testing.assert_allclose(plain.predict_proba(), sparse.predict_proba(), atol=1e-5)


def test_loaders_of_a_pipeline_check_the_features_once(monkeypatch):
    graph = dhilgt.generate(40, 4, seed=1, num_features=3)
    count = []
    real = dhilgt.loader.feature_rows.checks.features
    monkeypatch.setattr(
        dhilgt.loader.feature_rows.checks,
        "features",
        lambda *args: count.append(1) or real(*args),
    )
    pipeline = Pipeline(graph, Settings(size=4), cache=None, progress=False)
    for _ in range(3):
        pipeline.loader(np.arange(5), device=CPU, batch_size=5)
    assert len(count) == 1
