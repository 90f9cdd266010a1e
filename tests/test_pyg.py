"""The PyG transform: the same rows as everywhere, as tensors of a `Data`."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
import torch_geometric.transforms as T
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset
from torch_geometric.loader import DataLoader
from torch_geometric.loader.utils import filter_data

from dhilgt import GraphError, TokenSampler
from dhilgt.pyg import AddHubTokens
from tests.tokens.cases import generated, labels_of


def data_of(directed=False, **more):
    sources, targets = generated(directed).to_edge_index()
    edge_index = torch.from_numpy(np.stack([sources, targets]).astype(np.int64))
    return Data(edge_index=edge_index, num_nodes=400, **more)


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize(
    "options", [{}, {"size": 9, "seed": 3, "spill": True, "fill": "neighbors"}], ids=str
)
def test_rows_are_those_of_a_sampler(directed, options):
    data = AddHubTokens(directed=directed, **options)(data_of(directed))
    wanted = TokenSampler(labels_of(generated(directed)), progress=False, **options).rows(
        range(400)
    )
    assert data.token_ids.dtype == torch.int64
    assert data.token_spd.dtype == torch.uint8
    np.testing.assert_array_equal(data.token_ids.numpy(), wanted.ids)
    np.testing.assert_array_equal(data.token_spd.numpy(), wanted.spd)


def test_several_copies_and_packed_distances():
    data = AddHubTokens(size=6, copies=3, packed=True)(data_of())
    assert data.token_ids.shape == (400, 3, 6)
    assert data.token_spd.shape == (400, 3, 15)
    sampler = TokenSampler(labels_of(generated(False)), size=6, progress=False)
    for copy in range(3):
        wanted = sampler.packed_rows(range(400), copy)
        np.testing.assert_array_equal(data.token_ids[:, copy].numpy(), wanted.ids)
        np.testing.assert_array_equal(data.token_spd[:, copy].numpy(), wanted.spd)
    square = AddHubTokens(size=6, copies=2)(data_of())
    assert square.token_spd.shape == (400, 2, 6, 6)


def test_ids_can_look_up_features():
    data = AddHubTokens(size=4)(data_of(x=torch.randn(400, 3)))
    assert data.x[data.token_ids.clamp(min=0)].shape == (400, 4, 3)


def test_the_data_given_is_not_changed():
    """PyG's promise: a transform works on a shallow copy."""
    before = data_of(x=torch.randn(400, 3))
    after = AddHubTokens(size=4)(before)
    assert "token_ids" not in before
    assert after.x is before.x
    assert after.validate()


@pytest.mark.parametrize(
    "more",
    [
        {"x": torch.full((400, 2), float("nan"))},
        {"y": torch.randn(400, 5)},
        {"train_mask": torch.ones(400, 10, dtype=torch.bool)},
        {"edge_attr": torch.rand(1)},
    ],
    ids=["nan features", "many targets", "many splits", "edge features"],
)
def test_only_the_structure_matters(more):
    wanted = AddHubTokens(size=4)(data_of())
    found = AddHubTokens(size=4)(data_of(**more))
    assert torch.equal(found.token_ids, wanted.token_ids)


def test_weights_are_refused_unless_ignored():
    weighted = data_of()
    weighted.edge_weight = torch.rand(weighted.num_edges)
    with pytest.raises(GraphError, match="edge_weight"):
        AddHubTokens(size=4)(weighted)
    found = AddHubTokens(size=4, weights="ignore")(weighted)
    assert torch.equal(found.token_ids, AddHubTokens(size=4)(data_of()).token_ids)


def test_edges_in_one_direction_are_enough():
    full = data_of()
    half = Data(edge_index=full.edge_index[:, full.edge_index[0] < full.edge_index[1]])
    half.num_nodes = 400
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = AddHubTokens(size=5)(half)
    wanted = AddHubTokens(size=5)(full)
    assert torch.equal(found.token_ids, wanted.token_ids)
    assert torch.equal(found.token_spd, wanted.token_spd)


def test_it_is_one_step_of_a_pipeline():
    steps = T.Compose([T.ToUndirected(), AddHubTokens(size=5), T.Constant()])
    data = steps(data_of(x=torch.rand(400, 3)))
    assert data.token_ids.shape == (400, 5)
    assert data.x.shape == (400, 4)
    assert "AddHubTokens(size=5, num_out=2, num_in=2)" in repr(steps)


class OneGraph(InMemoryDataset):
    """A dataset that makes its graph and keeps what the transform made of it."""

    def __init__(self, root, pre_transform):
        super().__init__(root, pre_transform=pre_transform)
        self.load(self.processed_paths[0])

    @property
    def processed_file_names(self):
        return ["data.pt"]

    def process(self):
        self.save([self.pre_transform(data_of())], self.processed_paths[0])


def test_it_works_as_pre_transform(tmp_path):
    wanted = AddHubTokens(size=5)(data_of())
    for _ in range(2):  # made, then read back
        found = OneGraph(tmp_path, AddHubTokens(size=5))[0]
        assert torch.equal(found.token_ids, wanted.token_ids)
        assert torch.equal(found.token_spd, wanted.token_spd)


def test_isolated_nodes_are_kept():
    data = AddHubTokens(size=3)(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=3))
    assert data.token_ids[2].tolist() == [2, -1, -1]


def test_with_a_radius_members_are_near_and_other_pairs_far():
    line = Data(edge_index=torch.tensor([list(range(9)), list(range(1, 10))]), num_nodes=10)
    data = AddHubTokens(size=4, radius=1)(line)
    for node, (ids, distances) in enumerate(zip(data.token_ids, data.token_spd, strict=True)):
        members = ids[ids >= 0]
        assert ((members - node).abs() <= 1).all()
        real = (members[:, None] - members[None, :]).abs()
        found = distances[: len(members), : len(members)]
        assert ((found == real) | ((found == 254) & (real > 1))).all()


def test_data_without_a_graph_is_refused():
    with pytest.raises(GraphError, match="no edge_index"):
        AddHubTokens()(Data(x=torch.zeros(3, 1)))
    with pytest.raises(GraphError, match="to_homogeneous"):
        AddHubTokens()(HeteroData())
    with pytest.raises(GraphError, match="no nodes"):
        AddHubTokens()(Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=0))
    with pytest.raises(GraphError, match="9"):
        AddHubTokens()(Data(edge_index=torch.tensor([[0], [9]]), num_nodes=3))


@pytest.mark.parametrize(
    "wrong",
    [{"size": 0}, {"copies": 0}, {"threads": 0}, {"num_in": 40}, {"fill": "all"}, {"radius": 0}],
    ids=str,
)
def test_settings_are_checked_when_the_transform_is_made(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        AddHubTokens(**wrong)


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )


def test_the_package_does_not_import_torch():
    done = run_python(
        "import sys, dhilgt; print(sorted({'torch', 'torch_geometric'} & set(sys.modules)))"
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_without_pyg_the_way_out_is_named():
    done = run_python("import sys; sys.modules['torch_geometric'] = None; import dhilgt.pyg")
    assert done.returncode == 1
    assert "pip install 'dhilgt[pyg]'" in done.stderr


# ---- data that changed since --------------------------------------------------------------------


def path_graph(count, **more):
    sources = torch.arange(count - 1)
    edge_index = torch.stack([sources, sources + 1])
    both = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    return Data(edge_index=both, num_nodes=count, **more)


def shifted(ids, offset):
    return torch.where(ids < 0, -1, ids + offset)


@pytest.mark.parametrize("copies", [1, 2])
def test_a_batch_renumbers_the_tokens(copies):
    one, two, three = (AddHubTokens(size=4, copies=copies)(path_graph(n)) for n in (3, 5, 2))
    wanted = torch.cat(
        [shifted(one.token_ids, 0), shifted(two.token_ids, 3), shifted(three.token_ids, 8)]
    )
    batch = Batch.from_data_list([one, two, three])
    assert torch.equal(batch.token_ids, wanted)
    assert torch.equal(batch["token_ids"], wanted)
    assert torch.equal(batch[1].token_ids, two.token_ids)
    nested = Batch.from_data_list([Batch.from_data_list([one, two]), Batch.from_data_list([three])])
    assert torch.equal(nested.token_ids, wanted)


def test_a_loader_of_graphs_renumbers_the_tokens():
    graphs = [AddHubTokens(size=3)(path_graph(n)) for n in (3, 4, 5, 6)]
    for batch in DataLoader(graphs, batch_size=2):
        assert torch.equal(batch.token_ids[:, 0], torch.arange(batch.num_nodes))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.subgraph(torch.tensor([5, 6, 7])),
        lambda data: data.subgraph(torch.arange(8) > 3),
        lambda data: data.subgraph(torch.arange(3)),  # the first nodes keep their numbers
        lambda data: data.subgraph(torch.tensor([7, 6, 5, 4, 3, 2, 1, 0])),
        lambda data: T.RemoveIsolatedNodes()(data),
        lambda data: T.LargestConnectedComponents()(data),
        lambda data: filter_data(
            data, torch.tensor([3, 2]), torch.tensor([0]), torch.tensor([1]), torch.tensor([0])
        ),  # what NeighborLoader does to a sample
        lambda data: Batch.from_data_list([data, data]).subgraph(torch.tensor([9, 10])),
    ],
    ids=["indices", "mask", "first", "order", "isolated", "component", "neighbours", "batch"],
)
def test_tokens_of_other_nodes_are_refused(change):
    data = path_graph(8)
    data.edge_index = data.edge_index[:, (data.edge_index != 0).all(dim=0)]  # 0 is isolated
    changed = change(AddHubTokens(size=5)(data))
    with pytest.raises(GraphError, match=r"apply AddHubTokens after"):
        _ = changed.token_ids
    with pytest.raises(GraphError, match="removed, added or reordered"):
        _ = changed["token_ids"]
    again = AddHubTokens(size=5)(changed)
    assert torch.equal(again.token_ids[:, 0], torch.arange(again.num_nodes))


def test_steps_that_keep_the_nodes_keep_the_tokens():
    data = AddHubTokens(size=5)(path_graph(6, x=torch.rand(6, 2)))
    steps = T.Compose([T.ToUndirected(), T.AddSelfLoops(), T.NormalizeFeatures()])
    assert torch.equal(steps(data).token_ids, data.token_ids)
    everything = data.subgraph(torch.ones(6, dtype=torch.bool))
    assert torch.equal(everything.token_ids, data.token_ids)


class OwnData(Data):
    """A class of a user."""


def test_the_class_of_the_data_is_kept():
    own = OwnData(edge_index=torch.tensor([[0], [1]]), num_nodes=2)
    data = AddHubTokens(size=2)(own)
    assert isinstance(data, OwnData)
    assert type(own) is OwnData
    again = pickle.loads(pickle.dumps(data))
    assert type(again) is type(data)
    assert torch.equal(again.token_ids, data.token_ids)
    batch = AddHubTokens(size=2)(Batch.from_data_list([path_graph(2), path_graph(3)]))
    assert isinstance(batch, Batch)
    assert batch.token_ids.tolist() == [[0, 1], [1, -1], [2, 3], [3, -1], [4, 3]]


def test_data_without_tokens_says_so():
    data = AddHubTokens(size=2)(path_graph(3))
    del data.token_ids
    assert not hasattr(data, "token_ids")
