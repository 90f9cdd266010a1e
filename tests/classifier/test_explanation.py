"""An explanation tells what the model saw: members, shares, and what each did."""

import itertools
import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch

import dhilgt
from dhilgt import Graph, HubLabels, TokenLoader, Tokens, TokenSampler, averaged_logits
from dhilgt.classifier.explaining import explain_token
from dhilgt.classifier.explanation import Explanation, Member
from dhilgt.errors import ArtifactError, ConfigError, GraphError
from dhilgt.report.explanation import page
from tests.model.cases import model_of

SVG = "{http://www.w3.org/2000/svg}"


def problem(directed=False, size=8, copies=1, names=True, **options):
    """A random graph with ids n00, n01, ..., features of seven channels and tokens of it."""
    draw = np.random.default_rng(3)
    nodes = np.array([f"n{at:02d}" for at in range(40)]) if names else np.arange(40)
    ends = np.array(list(itertools.combinations(range(36), 2)))  # the last four have no edges
    ends = draw.choice(ends, 70, replace=False).T
    ends = ends if directed else np.concatenate([ends, ends[::-1]], 1)
    graph = Graph.from_edges(
        nodes[ends[0]],
        nodes[ends[1]],
        nodes=nodes,
        directed=directed,
        features=draw.normal(size=(40, 7)),
        labels=np.array(["red", "green", "blue", None])[draw.integers(0, 4, 40)],
    )
    labels = HubLabels.build(graph, progress=False)
    return graph, Tokens.build(labels, size=size, copies=copies, progress=False, **options)


def probabilities(model, tokens, graph, at, copies=1):
    loader = TokenLoader(tokens, graph.features, nodes=[at], copies=copies, prefetch=0)
    ((_, logits),) = averaged_logits(model, loader)
    return torch.softmax(logits, -1)[0].numpy()


# ---- what is told ------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("node", ["n00", "n17", "n39"])
def test_the_members_are_those_of_the_token(node, directed):
    graph, tokens = problem(directed, fill="neighbors")
    at = graph.index_of(node)
    found = explain_token(model_of(), tokens, graph, node)
    ids, spd = (part[0] for part in tokens.rows([at]))
    assert found.node == found.members[0].node == node
    assert {one.node for one in found.members} == set(graph.ids_of(ids[ids >= 0]).tolist())
    slots = {graph.ids_of(int(one)): slot for slot, one in enumerate(ids) if one >= 0}
    _, _, parts = tokens.packed_rows([at])
    hubs, holders = parts[0].tolist()
    kinds = ["ego"] + ["hub"] * hubs + ["holder"] * holders + ["neighbor"] * len(ids)
    for member in found.members:
        slot = slots[member.node]
        assert member.kind == kinds[slot]
        assert member.distance == (None if spd[0, slot] == 255 else spd[0, slot])
        assert member.distance_back == (None if spd[slot, 0] == 255 else spd[slot, 0])
        code = graph.labels[graph.index_of(member.node)]
        assert member.label == (None if code < 0 else graph.class_names[code])


@pytest.mark.parametrize("copies", [1, 3])
def test_the_prediction_is_the_model_s(copies):
    graph, tokens = problem(copies=copies)
    model = model_of()
    for node in ("n00", "n05", "n38"):
        found = explain_token(model, tokens, graph, node, copies=copies)
        wanted = probabilities(model, tokens, graph, graph.index_of(node), copies)
        np.testing.assert_allclose(list(found.probabilities.values()), wanted, atol=1e-6)
        assert list(found.probabilities) == list(graph.class_names)
        assert found.prediction == graph.class_names[wanted.argmax()]
        assert found.copies == copies


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("readout", ["attention", "ego"])
def test_shares_sum_to_one(readout, copies):
    graph, tokens = problem(copies=copies)
    for node in ("n00", "n05", "n38"):
        found = explain_token(model_of(readout=readout), tokens, graph, node, copies=copies)
        assert sum(member.share for member in found.members) == pytest.approx(1.0, abs=1e-5)
        if readout == "ego":
            assert found.members[0].share == 1.0


def test_an_effect_is_what_leaving_the_member_out_changes():
    graph, tokens = problem()
    model = model_of()
    at = graph.index_of("n05")
    found = explain_token(model, tokens, graph, "n05")
    ids, spd = (torch.from_numpy(part) for part in tokens.rows([at]))
    x = torch.tensor(graph.features)
    predicted = graph.class_names.index(found.prediction)
    assert len(found.members) > 3
    for member in found.members[1:]:
        left = ids.masked_fill(ids == graph.index_of(member.node), -1)
        without = torch.softmax(model(x, left, spd), -1)[0, predicted].item()
        effect = found.probabilities[found.prediction] - without
        assert member.effect == pytest.approx(effect, abs=1e-6)
    alone = ids.clone()
    alone[:, 1:] = -1
    wanted = torch.softmax(model(x, alone, spd), -1)[0, predicted].item()
    assert found.alone == pytest.approx(wanted, abs=1e-6)


def test_members_the_model_does_not_look_at_have_no_effect():
    graph, tokens = problem()
    model = model_of(readout="ego")
    with torch.no_grad():  # nothing that attention finds reaches a slot
        for layer in model.layers:
            layer.projection.weight.zero_()
    found = explain_token(model, tokens, graph, "n05")
    assert [member.effect for member in found.members[1:]] == pytest.approx(
        [0.0] * (len(found.members) - 1), abs=1e-7
    )
    assert found.alone == pytest.approx(found.probabilities[found.prediction], abs=1e-6)


def test_a_classifier_explains_by_what_its_model_takes():
    graph = dhilgt.generate(60, 4, seed=1, num_features=8, num_classes=3)
    clf = dhilgt.NodeClassifier(
        size=6,
        hidden_channels=16,
        heads=2,
        epochs=2,
        hops=1,
        cache=False,
        progress=False,
        recipe="paper",
    ).fit(graph)
    assert clf.features_.shape == (60, 16)
    np.testing.assert_array_equal(clf.features_[:, :8], graph.features)
    found = clf.explain(7)
    assert found == dhilgt.classifier.explain(clf, 7)
    assert list(found.probabilities.values()) == pytest.approx(clf.predict_proba([7])[0], abs=1e-5)
    assert found._repr_svg_() == found.picture()
    with pytest.raises(ValueError, match="not fitted yet"):
        dhilgt.NodeClassifier().explain(7)
    with pytest.raises(AttributeError, match="not fitted yet"):
        dhilgt.NodeClassifier().features_  # noqa: B018


def test_the_ego_comes_first_then_the_most_telling():
    graph, tokens = problem()
    found = explain_token(model_of(), tokens, graph, "n05")
    assert (found.members[0].kind, found.members[0].distance) == ("ego", 0)
    assert found.members[0].effect is None
    sizes = [abs(member.effect) for member in found.members[1:]]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 1e-4


def test_averaged_tokens_count_a_member_they_lack_as_nothing():
    graph, tokens = problem(copies=4, size=4)
    model = model_of()
    found = explain_token(model, tokens, graph, "n05", copies=4)
    ids = [tokens.rows([graph.index_of("n05")], copy).ids[0] for copy in range(4)]
    predicted = graph.class_names.index(found.prediction)
    x = torch.tensor(graph.features)
    for member in found.members[1:]:
        at, changes = graph.index_of(member.node), []
        for copy in range(4):
            rows = [torch.from_numpy(part) for part in tokens.rows([graph.index_of("n05")], copy)]
            left = rows[0].masked_fill(rows[0] == at, -1)
            both = [torch.softmax(model(x, row, rows[1]), -1) for row in (rows[0], left)]
            changes.append((both[0] - both[1])[0, predicted].item())
        assert member.copies == sum(at in row for row in ids)
        assert member.effect == pytest.approx(np.mean(changes), abs=1e-6)
    assert {member.copies for member in found.members[1:]} != {4}


def test_stored_tokens_and_a_sampler_tell_the_same():
    graph, tokens = problem(copies=2)
    sampler = TokenSampler(HubLabels.build(graph, progress=False), size=8, progress=False)
    first, second = (
        explain_token(model_of(), source, graph, "n05", copies=2) for source in (tokens, sampler)
    )
    assert first == second


def test_edges_are_the_pairs_one_hop_apart():
    for directed in (False, True):
        graph, tokens = problem(directed, size=12)
        found = explain_token(model_of(), tokens, graph, "n05")
        nodes = [member.node for member in found.members]
        wanted = {
            (a, b)
            for a in range(len(nodes))
            for b in range(len(nodes))
            if (directed or a < b) and nodes[b] in graph.neighbors(nodes[a])
        }
        assert set(found.edges) == wanted
        assert wanted
        assert len(found.edges) == len(wanted)


def test_a_node_without_edges_has_only_itself():
    graph, tokens = problem()
    found = explain_token(model_of(), tokens, graph, "n39")
    assert [member.node for member in found.members] == ["n39"]
    assert (found.members[0].share, found.edges) == (1.0, ())
    ElementTree.fromstring(found.picture())


def test_an_unknown_node_is_refused_with_the_nearest_ids():
    graph, tokens = problem()
    with pytest.raises(GraphError, match="'n0' is not a node of the graph; the nearest ids are 'n"):
        explain_token(model_of(), tokens, graph, "n0")


def test_a_model_of_other_classes_is_refused():
    graph, tokens = problem()
    with pytest.raises(ConfigError, match="tells 4 classes apart, 3 are named"):
        explain_token(model_of(out_channels=4), tokens, graph, "n05")


def test_explaining_leaves_the_model_in_training():
    graph, tokens = problem()
    model = model_of(train=True)
    found = explain_token(model, tokens, graph, "n05")
    assert model.training
    assert found == explain_token(model.eval(), tokens, graph, "n05")


# ---- how it is told ----------------------------------------------------------------------------


def hand_made(name="ann"):
    return Explanation(
        name,
        "red",
        "blue",
        {"blue": 0.1, "red": 0.9},
        0.8,
        (
            Member(name, "ego", 0, 0, "blue", 0.5, None),
            Member("bob", "hub", 1, 2, None, 0.3, 0.25),
            Member("cid", "holder", "far", "far", "red", 0.1, -0.125),
            Member("dan", "neighbor", None, 3, "red", 0.1, -0.00000001),
        ),
        ((0, 1),),
    )


def test_the_table_lists_members_and_says_what_it_leaves_out():
    assert hand_made().table().splitlines() == [
        "node        ann",
        "predicted   red (0.900), known: blue",
        "classes     red 0.900, blue 0.100",
        "ego alone   0.800",
        "",
        "member  kind      distance  class  share  effect",
        "ann     ego              0  blue   0.500",
        "bob     hub              1         0.300  +0.2500",
        "cid     holder         far  red    0.100  -0.1250",
        "dan     neighbor   no path  red    0.100  +0.0000",
    ]
    assert hand_made().table(top=1).splitlines()[-2:] == [
        "bob     hub          1         0.300  +0.2500",
        "... and 2 more with less effect",
    ]


def test_values_survive_json():
    values = json.loads(json.dumps(hand_made().to_dict()))
    assert values["probabilities"][0] == {"class": "red", "probability": 0.9}
    assert [one["distance"] for one in values["members"]] == [0, 1, "far", None]
    assert (values["class"], values["members"][2]["class"]) == ("blue", "red")
    assert values["edges"] == [[0, 1]]


@pytest.mark.parametrize("color", ["class", "effect"])
def test_the_picture_is_well_formed_whatever_the_names(color):
    name = '<script>alert("1 & 2")</script>'
    found = hand_made(name)
    tree = ElementTree.fromstring(found.picture(color))
    assert tree.tag == f"{SVG}svg"
    assert not list(tree.iter(f"{SVG}script"))
    tips = [dot.find(f"{SVG}title").text for dot in tree.iter(f"{SVG}circle") if len(dot)]
    assert len(tips) == 4
    assert tips[-1].startswith(name)  # the ego is drawn last
    assert len(list(tree.iter(f"{SVG}line"))) == 1
    assert "<script>" not in page(found, color)


def test_dots_grow_with_their_share_and_stand_on_the_ring_of_their_distance():
    tree = ElementTree.fromstring(hand_made().picture())
    dots = [
        (
            dot.find(f"{SVG}title").text.split(",")[0],
            *(float(dot.get(name)) for name in ("cx", "cy", "r")),
        )
        for dot in tree.iter(f"{SVG}circle")
        if len(dot)
    ]
    size = {name: radius for name, _, _, radius in dots}
    assert size["ann"] > size["bob"] > size["cid"] == size["dan"]
    (x, y) = next((x, y) for name, x, y, _ in dots if name == "ann")
    away = {name: np.hypot(left - x, top - y) for name, left, top, _ in dots}
    assert away["ann"] < away["bob"] < away["cid"] < away["dan"]


def test_a_large_token_can_be_drawn():
    graph = dhilgt.generate(400, 12, seed=2, num_features=7, num_classes=3)
    sampler = TokenSampler(
        HubLabels.build(graph, progress=False), size=150, num_out=0, progress=False
    )
    found = explain_token(model_of(), sampler, graph, int(graph.degrees.argmax()))
    assert len(found.members) == 150
    ElementTree.fromstring(found.picture())


@pytest.mark.parametrize("ending", ["svg", "html", "json"])
def test_it_is_saved_by_the_ending_of_the_file(ending, tmp_path):
    file = tmp_path / f"ann.{ending}"
    hand_made().save(file)
    begin = {"svg": "<svg", "html": "<!DOCTYPE html>", "json": "{"}[ending]
    assert file.read_text(encoding="utf-8").startswith(begin)
    assert [one.name for one in tmp_path.iterdir()] == [file.name]


def test_other_endings_and_places_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"ends with .png; name it .svg, .html or .json"):
        hand_made().save(tmp_path / "ann.png")
    with pytest.raises(ArtifactError, match="cannot write"):
        hand_made().save(tmp_path / "nowhere" / "ann.svg")
    with pytest.raises(ValueError, match='color = \'size\'; pass "class" or "effect"'):
        hand_made().picture("size")
