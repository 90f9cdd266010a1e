"""Labels, tokens, new nodes and kernels: sentences of the pages that measure parts."""

from collections.abc import Iterator
from typing import Any

from docs.make.figures import lines, span


def entries() -> list[tuple[int, float]]:
    """Return nodes and label entries a node of the generated graphs, the smallest first."""
    grown = [line for line in lines("labels.jsonl") if line["measure"] == "growth"]
    pairs = ((line["nodes"], line["entries"] / line["nodes"]) for line in grown)
    return sorted(pairs)


def labels() -> Iterator[str]:
    """Yield the sentences of the page of labels."""
    (small, few), *_, (large, many) = entries()
    yield f"from {few:.0f} entries a node at {small:,} nodes to {many:.0f} at {large:,}"
    grown = [line for line in lines("labels.jsonl") if line["measure"] == "growth"]
    cost = [1e9 * line["seconds"] / line["entries"] for line in grown]
    yield (
        f"an entry takes {cost[0]:.0f} ns at the smallest size and {cost[-1]:.0f} ns at the largest"
    )


def tokens() -> Iterator[str]:
    """Yield the sentences of the page of tokens."""
    (rows,) = (line for line in lines("tokens.jsonl") if line["measure"] == "rows")
    yield f"Rows of {rows['graph']} hold {rows['mean_members']:.0f} members on average"


def grow() -> Iterator[str]:
    """Yield the sentences of the page of new nodes."""
    shown = {}
    for line in lines("grow.jsonl"):
        if line["measure"] == "predictions":
            p, count = line["accuracy_exact"], line["new_nodes"]
            shown[line["graph"]] = (100 * (p * (1 - p) / count) ** 0.5, count)
    (cora, few), (pubmed, many) = shown["cora"], shown["pubmed"]
    yield (
        f"One standard error of such an accuracy is {cora:.1f} points on cora ({few} new nodes) "
        f"and {pubmed:.1f} on pubmed ({many})"
    )


def new_nodes() -> Iterator[str]:
    """Yield the sentences on new nodes of the page of their concept."""
    quick = [one for one in lines("grow.jsonl") if one["graph"] == "ogbn-arxiv"]
    times = [(f"{one['seconds_quick']:.1f} s", f"{one['seconds_again']:.1f} s") for one in quick]
    counts = [f"{one['new_nodes']:,}" for one in quick]
    yield (
        f"on ogbn-arxiv ({quick[0]['nodes']:,} nodes) quick labels of {counts[0]} new nodes take "
        f"{times[0][0]} against {times[0][1]} for labelling again, those of {counts[1]} new nodes "
        f"{times[1][0]} against {times[1][1]}, and of {counts[2]} (5 %) {times[2][0]} against "
        f"{times[2][1]}."
    )
    cora, pubmed = (one for one in lines("grow.jsonl") if one["measure"] == "predictions")
    yield (
        f"{cora['predictions_equal']:.0%} (cora) and {pubmed['predictions_equal']:.0%} (pubmed) of "
        "the predictions were the same".replace("%", " %")
    )
    yield (
        f"({cora['accuracy_exact']:.3f} exact and {cora['accuracy_quick']:.3f} quick, "
        f"{pubmed['accuracy_exact']:.3f} and {pubmed['accuracy_quick']:.3f})"
    )


def gpu() -> Iterator[str]:
    """Yield the sentences of the page of the GPU."""
    sizes = [line for line in lines("gpu.jsonl") if line["measure"] == "size"]
    (machine,) = {str(line["machine"]) for line in sizes}
    assert "NVIDIA H200" in machine
    assert "2.11" in machine
    yield "These figures are from one NVIDIA H200 with PyTorch 2.11."

    def one(way: str, **wanted: Any) -> dict[str, Any]:
        usual = {"rows": 8192, "slots": 32, "width": 128, "packing": "auto", "recompute": False}
        asked = (usual | {"fill": 0.8} | wanted | {"way": way}).items()
        (found,) = (line for line in sizes if all(line[name] == value for name, value in asked))
        return found

    def faster(**wanted: Any) -> float:
        times = [one(way, **wanted)["ms_train"] for way in ("reference fp32", "fused bf16")]
        return float(times[0] / times[1])

    saved = [
        1 - one("fused bf16", fill=fill)["ms_train"]
        / one("fused bf16", fill=fill, packing="off")["ms_train"]
        for fill in (0.8, 0.6)
    ]  # fmt: skip
    yield (
        f"Packed rows save {100 * saved[0]:.0f} % of the time of training where 80 % of the slots "
        f"are filled, and {100 * saved[1]:.0f} % where 60 % are."
    )
    other = {line["measure"]: line for line in lines("gpu.jsonl")}
    streamed, sparse = other["streamed"], other["sparse"]
    yield (
        f"an epoch takes {streamed['ms_all_streamed'] / streamed['ms_resident']:.1f} times as long "
        "as with everything on the GPU"
    )
    yield (
        f"The step with sparse features takes {sparse['ms_graph']:.1f} ms as a graph and "
        f"{sparse['ms_kernels']:.1f} ms kernel by kernel"
    )
    infer = [one("fused bf16", fill=fill)["ms_infer"] for fill in (0.8, 0.6)]
    yield (
        f"Training is {faster():.1f} and {faster(fill=0.6):.1f} times as fast as the reference; "
        f"inference takes {span(infer, '.0f')} ms per 100,000 egos."
    )
    yield (
        f"{faster(rows=1024):.1f} times at 1,024 rows, {faster(slots=12):.1f} times at 12 slots."
    )
