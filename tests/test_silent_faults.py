"""Answers that were once wrong without a word, each through the interface a user has.

What a second Ctrl-C says is in tests/cli/test_interrupts.py, two exports under one name are in
tests/classifier/test_serving.py, other damage of artifacts is in tests/test_mutations.py.
"""

import subprocess
import sys

import numpy as np
import pytest

import dhilgt
from dhilgt.classifier.cache import Cache
from dhilgt.graph.random_graphs import generate
from tests.cli.cases import Files, fails, ok

QUICK = {"size": 6, "hidden_channels": 8, "num_layers": 1, "heads": 2, "cache": False}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("silent")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DHILGT_CACHE", str(folder / "cache"))
        made = Files(folder)
        ok(*made.train(), "--quiet", "--no-report")
        yield made


def test_1_columns_in_another_order_are_matched_by_name(files, tmp_path):
    rows = [line.split(",") for line in files.features.read_text().splitlines()]
    turned = tmp_path / "x.csv"
    turned.write_text("".join(",".join([row[0], *row[:0:-1]]) + "\n" for row in rows))
    run = files.folder / "run"
    found = ok("predict", run, "--edges", files.edges, "--features", turned).stdout
    assert found == ok("predict", run).stdout


def test_2_ids_that_begin_with_a_sign_are_not_comments(tmp_path):
    edges, labels = tmp_path / "e.csv", tmp_path / "y.csv"
    edges.write_text("cat,#1\n#1,#2\n%3,cat\n#2,%3\n")
    labels.write_text("id,label\ncat,x\n#1,y\n#2,x\n%3,y\n")
    graph = dhilgt.Graph.read(edges, labels=labels, header=False)
    assert graph.nodes.tolist() == ["#1", "#2", "%3", "cat"]
    assert graph.degrees.tolist() == [2, 2, 2, 2]
    assert graph.labels.tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("header", ["buyer,seller", "user_id,friend_id", "paper,cites"])
def test_3_a_header_of_words_is_no_edge(header, tmp_path):
    edges = tmp_path / "e.csv"
    edges.write_text(f"{header}\nann,bob\nbob,cid\ncid,ann\n")
    graph = dhilgt.Graph.read(edges)
    assert graph.nodes.tolist() == ["ann", "bob", "cid"]
    assert any("header" in note for note in graph.notes)


def test_4_pairs_from_a_pipe_are_answered(files, tmp_path):
    ok("label", files.edges, "-o", tmp_path / "labels", "--quiet")
    command = f"{sys.executable} -m dhilgt query {tmp_path}/labels --pairs <(printf 'n00,n00\\n')"
    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["source,target,distance", "n00,n00,0"]


@pytest.mark.parametrize("part", ["labels", "features"])
def test_5_a_run_does_not_go_on_with_other_inputs(files, tmp_path, part):
    output = tmp_path / "run"
    ok(*files.train(output=output), "--quiet", "--no-report")
    former = getattr(files, part).read_text()
    text = former.replace("red", "blue") if part == "labels" else former[:-2] + "77\n"
    other = tmp_path / "other.csv"
    other.write_text(text)
    arguments = files.train(output=output, **{part: other})
    message = fails(*arguments, "--resume", "--epochs", "3", "--no-report")
    assert f"other {part}" in message


def test_6_files_of_another_build_are_refused(tmp_path):
    graph = generate(60, 4, seed=1)
    dhilgt.HubLabels.build(graph).save(tmp_path / "one")
    dhilgt.HubLabels.build(graph, order="random").save(tmp_path / "other")
    (tmp_path / "one" / "order.npy").write_bytes((tmp_path / "other" / "order.npy").read_bytes())
    with pytest.raises(dhilgt.ArtifactError, match=r"order\.npy"):
        dhilgt.HubLabels.load(tmp_path / "one").distances([0, 1], [2, 3])


@pytest.mark.parametrize(("array", "value"), [("spd", 1), ("ids", 9999)])
def test_6_and_7_a_damaged_cache_entry_is_made_again(tmp_path, array, value):
    cache, graph = Cache(tmp_path), generate(60, 4, seed=1)
    options = {"size": 6}
    expected = cache.tokens(cache.labels(graph), options).rows(np.arange(60))
    (entry,) = [one.path for one in cache.entries() if one.kind == "tokens"]
    (file,) = [one for one in entry.iterdir() if array in one.name]
    damaged = np.load(file)
    damaged.flat[3:9] = value
    np.save(file, damaged)
    with pytest.warns(dhilgt.GraphWarning, match="damaged"):
        again = cache.tokens(cache.labels(graph), options).rows(np.arange(60))
    for one, other in zip(expected, again, strict=True):
        assert np.array_equal(one, other)


def test_8_years_are_learned_from_and_a_run_without_success_says_so():
    graph = generate(200, 4, seed=1, num_features=1, num_classes=2, homophily=0.5)
    years = 1980 + 20 * graph.labels + np.arange(200) % 15
    graph = graph.with_data(features=years.reshape(-1, 1).astype(np.float32))
    options = QUICK | {
        "epochs": 12,
        "lr": 0.02,
        "warmup_epochs": 0,
        "progress": False,
        "recipe": "paper",
    }
    assert dhilgt.NodeClassifier(**options).fit(graph).scores_["val"]["accuracy"] > 0.9
    shuffled = graph.with_data(features=np.zeros((200, 1)))
    with pytest.warns(dhilgt.TrainingWarning, match="learned nothing"):
        dhilgt.NodeClassifier(**options).fit(shuffled)


def test_9_tokens_of_a_part_of_a_graph_are_not_those_of_the_whole():
    import torch
    from torch_geometric.data import Batch, Data

    from dhilgt.pyg import AddHubTokens

    data = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
    one = AddHubTokens(size=3)(data)
    both = Batch.from_data_list([one, one])
    assert (
        both.token_ids[4:].clamp(min=4).equal(torch.where(one.token_ids < 0, 4, one.token_ids + 4))
    )
    with pytest.raises(dhilgt.GraphError, match="apply AddHubTokens after that step"):
        _ = one.subgraph(torch.tensor([1, 2, 3])).token_ids
