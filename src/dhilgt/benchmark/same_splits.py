"""Lines of DHIL-GT with different settings on the same splits: by seed, and in pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dhilgt.benchmark import record
from dhilgt.benchmark.paired import Difference, difference
from dhilgt.benchmark.recipe import OURS, PAPER
from dhilgt.benchmark.tables import NOTHING
from dhilgt.datasets.registry import names as dataset_names
from dhilgt.errors import ArtifactError

Line = dict[str, Any]
BySeed = dict[int, Line]


def is_ours(line: Line) -> bool:
    """Says whether a line is a cell of DHIL-GT, no trial of a search, whose score says something.

    That of a stand-in for a graph says nothing.
    """
    ours = line["system"] == OURS and line["trial"] is None and not line["trials"]
    return ours and line["standin_for"] is None


def add(found: BySeed, line: Line) -> None:
    """Puts a line to its seed; of two of the same settings the later counts.

    Raises:
        ArtifactError: If one with other settings is there already.
    """
    seed = line["seed"]
    if found.setdefault(seed, line)["changes"] != line["changes"]:
        raise ArtifactError(
            f"two lines of {line['data']}, seed {seed}, recipe {line['recipe']!r} have different "
            "settings; show files that were made with the same options"
        )
    found[seed] = line


def scores(lines: Mapping[int, Line]) -> dict[int, float]:
    """Gives the test scores of cells that ended well, by seed in ascending order."""
    found = {}
    for seed in sorted(lines):
        line = lines[seed]
        score = line["scores"].get("test", {}).get(line["metrics"][0])
        if line["status"] == record.OK and score is not None:
            found[seed] = float(score)
    return found


def paired_difference(before: Mapping[int, Line], after: Mapping[int, Line]) -> Difference | None:
    """Gives the difference over the seeds that both have scores of; None where there are none.

    Raises:
        ArtifactError: If two lines of one seed have different splits.
    """
    for seed in set(before) & set(after):
        splits = {line["split_hash"] for line in (before[seed], after[seed])} - {None}
        if len(splits) > 1:
            names = f"{before[seed]['recipe']!r} and {after[seed]['recipe']!r}"
            raise ArtifactError(
                f"{after[seed]['data']}, seed {seed}: the splits of {names} differ, so that no "
                "difference can be taken; run both again"
            )
    old, new = scores(before), scores(after)
    pairs = [seed for seed in old if seed in new]
    return difference([old[s] for s in pairs], [new[s] for s in pairs]) if pairs else None


def difference_texts(gap: Difference | None) -> tuple[str, str, str]:
    """Gives mean, interval and verdict, in points of per cent.

    Example:
        >>> difference_texts(difference([0.5, 0.6, 0.7], [0.4, 0.51, 0.6]))
        ('-9.67', '-11.10 to -8.23', 'drops')
    """
    if gap is None:
        return NOTHING, NOTHING, NOTHING
    mean = f"{100 * gap.mean:+.2f}"
    if gap.low is None or gap.high is None:
        return mean, NOTHING, gap.verdict
    return mean, f"{100 * gap.low:+.2f} to {100 * gap.high:+.2f}", gap.verdict


def seeds_text(counts: Iterable[int]) -> str:
    """Gives numbers of seeds as words.

    Example:
        >>> seeds_text([1, 1]), seeds_text([10]), seeds_text([9, 10, 8])
        ('1 seed', '10 seeds', '8 to 10 seeds')
    """
    found = sorted(counts)
    low, high = found[0], found[-1]
    return f"{low} to {high} seeds" if low < high else f"{high} seed{'s' if high != 1 else ''}"


def title(data: str, recipe: str) -> str:
    """Gives the name of a dataset, with the recipe where it is not the paper's.

    Example:
        >>> title("cora", "paper"), title("cora", "best")
        ('cora', 'cora, recipe best')
    """
    return data if recipe == PAPER else f"{data}, recipe {recipe}"


def in_known_order(data: Iterable[str]) -> list[str]:
    """Gives each dataset once, in the order of the paper, others behind.

    Example:
        >>> in_known_order(["generated:40", "cora", "chameleon", "cora"])
        ['chameleon', 'cora', 'generated:40']
    """
    known = {name: at for at, name in enumerate(dataset_names())}
    return sorted(dict.fromkeys(data), key=lambda name: known.get(name, len(known)))
