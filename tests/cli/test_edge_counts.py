"""A number of edges that is shown counts an undirected edge once, whoever shows it."""

import json

import pytest

import dhilgt
from dhilgt import datasets
from dhilgt.graph.store import save_graph
from tests.cli.cases import ok

EDGES = "a b\nb c\nc a\nc d\n"


def facts_of(*arguments):
    return json.loads(ok(*arguments, "--json").stdout)


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_commands_and_python_show_the_same_number(tmp_path, directed):
    file = tmp_path / "edges.txt"
    file.write_text(EDGES)
    more = ["--directed"] if directed else []
    graph = dhilgt.Graph.read(file, directed=directed)
    assert "edges=4, " in repr(graph)
    assert graph.num_distinct_edges == 4
    assert graph.num_edges == (4 if directed else 8)  # as in PyG
    assert facts_of("label", file, "-o", tmp_path / "labels", *more)["edges"] == 4
    assert facts_of("label", file, "--estimate", *more)["edges"] == 4
    save_graph(graph, tmp_path / "graph")
    assert facts_of("inspect", tmp_path / "graph")["edges"] == 4
    shown = ok("inspect", tmp_path / "graph").stdout.splitlines()
    assert next(line.split()[1] for line in shown if line.startswith("edges")) == "4,"


def test_datasets_are_shown_so_too():
    facts = datasets.info("cora").facts
    shown = facts_of("datasets", "show", "cora")["edges"]
    assert (facts.edges, shown) == (10_556, 5_278)
    rows = facts_of("datasets", "list")["datasets"]
    assert next(row for row in rows if row["name"] == "cora")["edges"] == shown
