"""A portfolio that trains in a blink, for tests of the search."""

import dhilgt
from dhilgt.classifier.auto.portfolio import FEATURES_ALONE, WITHOUT_CHOICE, Candidate
from tests.classifier.cases import community_graph

TINY = {
    "hidden_channels": 8, "heads": 2, "num_layers": 1, "readout": "ego", "lr": 0.02,
    "warmup_epochs": 0, "batch_size": 32, "patience": None, "epochs": 5,
}  # fmt: skip
CANDIDATES = (
    Candidate(FEATURES_ALONE, "own features", TINY | {"size": 1, "num_virtual": 0}),
    Candidate(WITHOUT_CHOICE, "averages", TINY | {"size": 1, "hops": 2}),
    Candidate("row", "near nodes", TINY | {"size": 5}),
    Candidate("row, averages", "both", TINY | {"size": 5, "hops": 2}),
)


def use_tiny(patch, candidates=CANDIDATES, seeds=2, last_seeds=None):
    """Replace the portfolio, and the numbers of seeds where there are nodes to validate on."""
    start = "dhilgt.classifier.auto.start"
    patch.setattr(
        f"{start}.portfolio", lambda facts: candidates if facts.num_edges else CANDIDATES[:1]
    )
    last = last_seeds or seeds
    patch.setattr(f"{start}.num_seeds", lambda facts: seeds if facts.num_val else 1)
    patch.setattr(f"{start}.num_last_seeds", lambda facts: last if facts.num_val else 1)


def searching(**changes):
    return dhilgt.NodeClassifier(**({"progress": False, "cache": False} | changes))


__all__ = ["CANDIDATES", "TINY", "community_graph", "searching", "use_tiny"]
