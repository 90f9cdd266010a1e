"""Ablation and parameter study: sentences of their pages."""

from collections.abc import Iterator

from docs.make.figures import records, span

from dhilgt.benchmark.experiments import ablation, study
from dhilgt.benchmark.experiments.paper import published_figures
from dhilgt.benchmark.show.paired import DROPS, GAINS, Difference

SHORT = "brief"
"""The recipe of the recorded lines."""
PARTS = ("no readout", "no virtual nodes", "no SPD bias")


def measured() -> list[ablation.Effect]:
    """Return all effects of the ablation."""
    return ablation.effects([*records("ablation.jsonl"), *records("ablation-paper.jsonl")])


def effects(recipe: str) -> list[ablation.Effect]:
    return [effect for effect in measured() if effect.recipe == recipe and effect.difference]


def with_verdict(effects: list[ablation.Effect], verdict: str) -> list[ablation.Effect]:
    return [e for e in effects if e.difference is not None and e.difference.verdict == verdict]


def ablations() -> Iterator[str]:
    """Yield the sentences of the page of the ablation."""
    known_drops = published_figures()["ablation"]
    published = {data: known_drops[data] for data in ("chameleon", "citeseer")}
    drops = [-value for known in published.values() for value in known.values()]
    single = [effect for effect in effects(SHORT) if effect.variant in PARTS]
    theirs = [effect for effect in single if effect.data in published]
    assert not with_verdict(theirs, DROPS)
    gains = with_verdict(theirs, GAINS)
    yield (
        f"The paper's drops of {span(drops, '.2f')} points are not reproduced: of the "
        f"{len(theirs)} differences of a single part on its two graphs none is a drop, and "
        f"{len(gains)} is a gain."
    )
    (dropped,), gained = with_verdict(single, DROPS), with_verdict(single, GAINS)
    assert {effect.variant for effect in gained} == {"no readout"}
    yield (
        f"Of the {len(single)} differences of a single part on all four graphs, 1 is a drop "
        f"({dropped.variant.removeprefix('no ')} on {dropped.data}) and {len(gained)} are gains "
        f"(no readout on {' and '.join(effect.data for effect in gained)})."
    )
    whole, without, virtual, unbiased = written("chameleon")
    yield (
        f"With the paper's own settings on chameleon (recipe `paper`) the full model has {whole}; "
        f"without the readout it gains {without.mean * 100:.2f} points "
        f"(from {without.low * 100:+.2f} to {without.high * 100:+.2f}), and without virtual nodes "
        f"no difference is seen"
    )
    assert virtual.low < 0 < virtual.high
    assert (unbiased.low, unbiased.high) == (0, 0), "no SPD bias, the same scores"
    alone = node_alone("searched", "citeseer")
    yield f"(+{100 * alone.mean:.2f}, from {100 * alone.low:+.2f} to {100 * alone.high:+.2f})"
    wide = node_alone("best", "chameleon")
    assert wide.low < 0 < wide.high, "too wide to tell"


def written(data: str) -> tuple[str, Difference, Difference, Difference]:
    """Return the score of the paper's recipe, and the differences without each of its parts."""
    found = {e.variant: e for e in measured() if (e.recipe, e.data) == ("paper", data)}
    differences = [found[part].difference for part in PARTS]
    known = [one for one in differences if one is not None]
    assert len(known) == len(PARTS)
    scores = found[ablation.FULL].scores
    return f"{100 * sum(scores) / len(scores):.2f}", known[0], known[1], known[2]


def node_alone(recipe: str, data: str) -> Difference:
    (effect,) = (e for e in effects(recipe) if e.variant == "the node alone" and e.data == data)
    assert effect.difference is not None
    return effect.difference


def values(parameter: str, data: str, verdict: str) -> list[int]:
    """Return the values of a parameter that differ from the base in one direction."""
    (curve,) = (
        one
        for one in study.curves(records("study.jsonl"))
        if (one.parameter, one.data, one.recipe) == (parameter, data, SHORT)
    )
    points = curve.points.items()
    return [v for v, point in points if point.difference and point.difference.verdict == verdict]


def parameters() -> Iterator[str]:
    """Yield the sentences of the page of the parameter study."""
    worse, better = (values("s", "chameleon", verdict) for verdict in (DROPS, GAINS))
    yield (
        f"On chameleon the rows of {' and '.join(map(str, worse))} slots are worse than the base "
        f"and those of {' and '.join(map(str, better))} better"
    )
    assert not values("s", "citeseer", DROPS) + values("s", "citeseer", GAINS)
    yield "On citeseer no size differs from the base."
    counts = [len(values("s_in", data, GAINS)) for data in ("chameleon", "citeseer")]
    yield f"chameleon has {counts[0]} better value, citeseer {counts[1]}."
    exponents = {
        (data, verdict): [v for name in ("r_in", "r_out") for v in values(name, data, verdict)]
        for data in ("chameleon", "citeseer")
        for verdict in (DROPS, GAINS)
    }
    assert not exponents["chameleon", DROPS] + exponents["chameleon", GAINS]
    assert not exponents["citeseer", GAINS]
    lower = exponents["citeseer", DROPS]
    assert min(lower) > 0
    yield f"On citeseer {len(lower)} positive ones are worse and no negative one is"
