"""Pictures and pages of a graph beside its label graph."""

import base64
import builtins
import html.parser
import io
import json
import re
import zlib

import numpy as np
import pytest
from typer.testing import CliRunner

from dhilgt import Graph, GraphError, HubLabels, TokenSampler, generate, plot_hierarchy
from dhilgt.cli.app import app
from dhilgt.errors import ArtifactError, ConfigError
from dhilgt.hierarchy import page as pages
from dhilgt.hierarchy import picture
from dhilgt.hierarchy.edges import raw_pairs
from dhilgt.hierarchy.layout import positions
from dhilgt.hierarchy.page import page
from dhilgt.hierarchy.picture import draw
from dhilgt.hierarchy.scene import DrawOptions, Scene, class_legend, edge_groups

pytest.importorskip("igraph", reason="igraph is not installed")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")

HOSTILE = ["</script><script>alert(1)</script>", "<!--<script>", "\"'&<b>", "a\u2028b", "ann"]


def small():
    return generate(120, 4, seed=2, num_classes=3).named("small")


def scene_of(graph, **options):
    return Scene(graph, HubLabels.build(graph, progress=False), DrawOptions(**options))


def hostile_graph():
    graph = Graph.from_edges(HOSTILE[:-1], HOSTILE[1:], labels=dict.fromkeys(HOSTILE, "</style>"))
    return graph.named("</title><script>alert(2)</script>")


# ---- where nodes are ---------------------------------------------------------------------------


def test_positions_depend_on_graph_and_seed_alone():
    pairs = raw_pairs(small())
    first = positions(pairs, 120)
    assert np.isfinite(first).all()
    assert (first == positions(pairs, 120)).all()
    assert not (first == positions(pairs, 120, seed=1)).all()


def test_neighbours_are_drawn_nearer_than_others():
    graph = small()
    where = positions(raw_pairs(graph), 120)
    ends = where[raw_pairs(graph)]
    others = np.linalg.norm(where[:, None] - where[None], axis=2)
    assert np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1).mean() < 0.7 * others.mean()


def test_components_stand_apart_around_the_largest():
    ring = [(at, (at + 1) % 40) for at in range(40)]
    triangles = [(40 + 3 * at + a, 40 + 3 * at + b) for at in range(6) for a, b in ((0, 1), (1, 2))]
    where = positions(np.array(ring + triangles), 70)  # the last twelve have no edge
    assert np.linalg.norm(where[:40], axis=1).max() <= 1 + 1e-9
    assert np.linalg.norm(where[40:], axis=1).min() > 1
    middles = [where[40 + 3 * at : 43 + 3 * at].mean(axis=0) for at in range(6)]
    middles += list(where[58:])
    apart = np.linalg.norm(np.array(middles)[:, None] - np.array(middles)[None], axis=2)
    assert apart[~np.eye(len(middles), dtype=bool)].min() > 0.01


def test_shared_layout_draws_both_at_the_same_places():
    own, shared = scene_of(small()), scene_of(small(), layout="shared")
    assert (shared.label.places == shared.raw.places).all()
    assert (own.label.places != own.raw.places).any()
    assert (own.raw.places == shared.raw.places).all()


# ---- colours -----------------------------------------------------------------------------------


def test_frequent_classes_have_a_colour_and_the_rest_share_one():
    classes = np.concatenate([np.repeat(np.arange(8), 3), [8, 9, -1]])
    graph = Graph.from_edges([0, 3, 24], [1, 4, 25], num_nodes=27, labels=classes)
    legend = class_legend(graph)
    assert legend.names[-2:] == ("2 more classes", "class not known")
    assert legend.counts == (*[3] * 8, 2, 1)
    assert len(set(legend.colors)) == 10
    # Nodes 24 and 25 share a grey, and still are of two classes.
    assert edge_groups(raw_pairs(graph), legend).tolist() == [0, 1, -1]


# ---- pictures ----------------------------------------------------------------------------------


@pytest.mark.parametrize("color", ["class", "rank"])
def test_png_shows_something(color):
    from PIL import Image

    scene = scene_of(small(), color=color)
    content = draw(scene, "png")
    with Image.open(io.BytesIO(content)) as image:
        assert image.width > 1000
        pixels = np.asarray(image.convert("RGB"))
    assert 0.01 < (pixels < 250).any(axis=2).mean() < 0.6


def test_svg_says_how_many_edges_are_drawn(monkeypatch):
    graph = small()
    scene = scene_of(graph, max_edges=50)
    text = draw(scene, "svg").decode()
    assert text == draw(scene_of(graph, max_edges=50), "svg").decode()
    assert f"50 of {graph.num_edges // 2:,} edges drawn" in text
    assert "label graph" in text
    assert "<image" not in text  # few marks stay shapes
    monkeypatch.setattr(picture, "_RASTERIZED", 10)
    assert "<image" in draw(scene, "svg").decode()


@pytest.mark.parametrize("graph", [
    Graph.from_edges([], [], num_nodes=1),
    Graph.from_edges([], [], num_nodes=3, labels=[0, 1, -1]),
    Graph.from_edges([0], [1], num_nodes=2, directed=True),
    Graph.from_edges([0, 1, 2, 2], [1, 2, 0, 3], directed=True),
], ids=["one node", "no edges", "one arc", "directed"])  # fmt: skip
def test_graphs_at_the_edge_are_drawn(graph, tmp_path):
    files = [tmp_path / name for name in ("a.png", "a.svg", "a.html")]
    result = plot_hierarchy(graph, *files)
    assert result.nodes == graph.num_nodes
    assert all(file.stat().st_size > 1000 for file in files)


def test_names_that_look_like_markup_or_formulas_are_drawn_as_they_are():
    text = draw(scene_of(hostile_graph(), title="$\\frac{"), "svg").decode()
    assert "<script" not in text
    assert "$\\frac{" in text


# ---- pages -------------------------------------------------------------------------------------


class Elements(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.elements, self.content = [], {}
        self.feed(text)

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))

    def handle_data(self, text):
        name, attributes = self.elements[-1] if self.elements else ("", {})
        self.content.setdefault(attributes.get("id", name), text)


def data_of(text):
    about = json.loads(Elements(text).content["data"])
    content = zlib.decompress(base64.b64decode(about["packed"]))
    arrays = {
        name: np.frombuffer(content, pages._KINDS[kind], count, start)
        for name, (kind, start, count) in about["directory"].items()
    }
    return about, arrays


def test_page_holds_hubs_and_tokens_of_every_node():
    graph = small()
    scene = scene_of(graph)
    about, arrays = data_of(page(scene))
    rows = scene.labels.label_graph()
    assert arrays["hubs"].tolist() == rows.out_hubs.tolist()
    assert arrays["hub_distances"].tolist() == rows.out_distances.tolist()
    tokens = TokenSampler(scene.labels).rows(np.arange(120))
    assert arrays["token_ids"].tolist() == tokens.ids.ravel().tolist()
    assert arrays["token_distances"].tolist() == tokens.spd[:, 0].ravel().tolist()
    assert arrays["classes"].tolist() == graph.labels.tolist()
    assert about["ids"] is None


def test_hostile_ids_stay_data():
    text = page(scene_of(hostile_graph()))
    elements = Elements(text).elements
    assert [name for name, _ in elements].count("script") == 2
    assert "alert" not in re.sub(r"<title>.*?</title>|<h1>.*?</h1>", "", text.split("<script")[0])
    about, _ = data_of(text)
    assert sorted(about["ids"]) == sorted(HOSTILE)
    assert about["class_names"] == ["</style>"]


def test_page_asks_for_nothing_from_elsewhere():
    text = page(scene_of(small()))
    assert not re.search(r"""(src|href)=|https?://|url\(|import\s*\(|fetch\(""", text)
    metas = [attributes for name, attributes in Elements(text).elements if name == "meta"]
    policy = next(one["content"] for one in metas if "http-equiv" in one)
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_page_of_too_large_a_graph_is_refused_before_the_work(monkeypatch, tmp_path):
    monkeypatch.setattr(pages, "MOST_NODES", 100)
    with pytest.raises(GraphError, match=r"100 nodes at most, this graph has 120; write a \.png"):
        plot_hierarchy(small(), tmp_path / "a.png", tmp_path / "a.html")
    assert list(tmp_path.iterdir()) == []


# ---- errors and the command --------------------------------------------------------------------


def test_wrong_arguments_are_refused(tmp_path):
    graph = small()
    with pytest.raises(ConfigError, match=r"a\.pdf ends with \.pdf; name it \.png, \.svg or"):
        plot_hierarchy(graph, tmp_path / "a.pdf")
    with pytest.raises(ArtifactError, match="is not a folder"):
        plot_hierarchy(graph, tmp_path / "none" / "a.png")
    with pytest.raises(ValueError, match='layout = \'best\'; pass one of "own", "shared"'):
        plot_hierarchy(graph, layout="best")
    with pytest.raises(GraphError, match="another graph"):
        plot_hierarchy(graph, labels=HubLabels.build(generate(50, 4, seed=1), progress=False))


def test_a_missing_package_is_named_with_the_extra(monkeypatch, tmp_path):
    real_import = builtins.__import__

    def without(name, *rest):
        if name == "igraph":
            raise ImportError("No module named 'igraph'")
        return real_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(GraphError, match=r"igraph .* pip install 'dhilgt\[plot\]'"):
        plot_hierarchy(small(), tmp_path / "a.png")
    assert plot_hierarchy(small()).nodes == 120  # numbers need no picture


def run(*arguments):
    return CliRunner().invoke(app, ["plot", "hierarchy", *map(str, arguments)])


def test_command_draws_files_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    edges, classes = tmp_path / "web.csv", tmp_path / "y.csv"
    edges.write_text("source,target\nann,bob\nbob,cid\ncid,ann\ncid,dan\n")
    classes.write_text("id,class\nann,x\nbob,x\ncid,y\ndan,y\n")
    done = run("--edges", edges, "--labels", classes, "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert (result["nodes"], result["raw"]["edges"], result["classes"]) == (4, 4, 2)
    assert result["files"] == ["web.csv-hierarchy.png"]
    assert (tmp_path / "web.csv-hierarchy.png").exists()
    done = run("--edges", edges, "--numbers")
    assert "homophily       not known  not known" in done.stdout
    assert len(list(tmp_path.iterdir())) == 3


def test_command_refuses_what_does_not_go_together(tmp_path):
    assert run("--numbers", "-o", tmp_path / "a.png", "--data", "cora").exit_code == 2
    assert run().exit_code == 1
    assert "--edges is for files" in run("--data", "cora", "--edges", "e.csv").output
    assert "ends with .pdf" in run("--data", "cora", "-o", "a.pdf").output
