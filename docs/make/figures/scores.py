"""Scores of DHIL-GT beside its published ones: sentences of docs/results/scores.md."""

import statistics
from collections.abc import Iterator

from docs.make.figures import lines, span
from docs.make.search import published_scores

GRAPHS = ("chameleon", "squirrel", "tolokers", "cora", "citeseer", "pubmed", "physics")


def _runs(recipe: str, name: str) -> list[float]:
    runs = lines(f"scores/{recipe}/{name}.jsonl")
    return [100 * run["scores"]["test"][run["metric"]] for run in runs]


def above_published(recipe: str) -> dict[str, float]:
    """Return by how much a recipe is above the published score, in points as they are shown."""
    known = published_scores()
    return {
        name: round(statistics.fmean(_runs(recipe, name)), 2) - float(known[name].split()[0])
        for name in GRAPHS
    }


def scores() -> Iterator[str]:
    """Yield the sentences of the page of scores."""
    searches = {name: lines(f"scores/best/{name}.jsonl")[0] for name in GRAPHS}
    yield f"{span([one['search']['trials'] for one in searches.values()], 'd')} trials."
    averaged = [name for name, run in searches.items() if run["config"].get("weight_average")]
    assert len(averaged) == 4
    (scaled,) = (n for n, run in searches.items() if run["config"].get("feature_scale") == "rank")
    assert scaled == "tolokers"
    without = [name for name, run in searches.items() if not run["environment"]["gpus"]]
    yield f"*Where it ran*: {' and '.join(without)} without a GPU, the others on an H200"
    below = {name: -gap for name, gap in above_published("best").items() if gap < 0}
    (lower,) = below
    spread = _runs("best", lower)
    yield (
        f"the best recipe on {lower}, by {below[lower]:.2f}, where one standard error over ten "
        f"splits is {statistics.stdev(spread) / len(spread) ** 0.5:.2f} points"
    )
    paper = {name: -gap for name, gap in above_published("paper").items()}
    least, most = min(paper, key=paper.__getitem__), max(paper, key=paper.__getitem__)
    assert paper[least] > 0
    yield (
        f"the paper's recipe on all seven graphs, by {paper[least]:.2f} ({least}) to "
        f"{paper[most]:.2f} ({most}) points"
    )
