"""Graphs beside their label graphs: sentences of docs/results/hierarchy.md."""

from collections.abc import Iterator
from typing import Any

from docs.make.figures import lines, span

HOMOPHILOUS = ("cora", "citeseer", "pubmed", "physics")


def graphs() -> dict[str, dict[str, Any]]:
    return {line["name"]: line for line in lines("hierarchy.jsonl")}


def longer_edges() -> dict[str, float]:
    """Return the percentage of label edges that are longer than one hop, by graph."""
    return {
        name: 100 * sum(row["share"] for row in line["distances"] if row["distance"] > 1)
        for name, line in graphs().items()
    }


def changes(name: str) -> dict[str, float]:
    return {graph: line["label"][name] - line["raw"][name] for graph, line in graphs().items()}


def hierarchy() -> Iterator[str]:
    """Yield the sentences of the page of label graphs."""
    known, longer = graphs(), longer_edges()
    assert all(line["kept"] == 1 for line in known.values())
    yield f"on all {len(known)} graphs every edge is an edge of the label graph"
    least, most = min(longer, key=longer.__getitem__), max(longer, key=longer.__getitem__)
    yield (
        f"from {longer[least]:.0f} % ({least}) to {longer[most]:.0f} % ({most}) of its edges are "
        "longer than one hop"
    )
    times = known["physics"]["label"]["edges"] / known["physics"]["raw"]["edges"]
    yield f"physics has {times:.0f} times the edges of its graph"
    fallen = [name for name, change in changes("homophily").items() if change < 0]
    assert len(fallen) == len(known)
    yield f"*Homophily decreases on all {len(fallen)}.*"
    before = [known[name]["raw"]["homophily"] for name in HOMOPHILOUS]
    after = [known[name]["label"]["homophily"] for name in HOMOPHILOUS]
    yield f"it falls from {span(before, '.2f')} down to {span(after, '.2f')}"
    rest = [known[name]["label"]["modularity"] for name in HOMOPHILOUS]
    yield f"The rest is above chance: modularity {span(rest, '.2f')}."
    other = sorted(known[n]["label"]["modularity"] for n in known if n not in HOMOPHILOUS)
    yield f"below chance: modularity {other[-1]:.3f} to {other[0]:.3f}."
    for name in HOMOPHILOUS:
        by_hop = [row["homophily"] for row in known[name]["distances"][:5]]
        assert by_hop == sorted(by_hop, reverse=True), "falls up to the fifth hop"
    risen = {name: change for name, change in changes("clustering").items() if change > 0}
    best = max(risen, key=risen.__getitem__)
    pair = (known[best][kind]["clustering"] for kind in ("raw", "label"))
    texts = [f"{value:.2f}" for value in pair]
    yield (
        f"rises on {len(risen)} graphs, most on {best} (from {texts[0]} to {texts[1]}). It falls "
        f"on {' and '.join(name for name in known if name not in risen)}."
    )
    own = [f"{known['chameleon'][kind]['clustering']:.2f}" for kind in ("raw", "label")]
    yield f"(clustering {own[0]} before, {own[1]} after)"
