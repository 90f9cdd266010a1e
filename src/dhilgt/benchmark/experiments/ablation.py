"""The ablation: DHIL-GT without some of its parts, on the same splits as the whole.

`ablation_cells` returns what to run. From its records, `effects` computes the numbers,
`ablation_tables` makes tables and `draw_ablation` the figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dhilgt.benchmark.experiments.paper import published_figures
from dhilgt.benchmark.record import Record
from dhilgt.benchmark.running.grid import Cell, check
from dhilgt.benchmark.running.recipe import OURS
from dhilgt.benchmark.show import figures, paired
from dhilgt.benchmark.show.notes import machines, troubles
from dhilgt.benchmark.show.paired import (
    DROPS,
    GAINS,
    UNSEEN,
    BySeed,
    Difference,
    difference_texts,
    paired_difference,
    seeds_text,
    title,
)
from dhilgt.benchmark.show.tables import (
    NOT_RUN,
    NOTHING,
    SCORES,
    Row,
    Table,
    TableEntry,
    in_known_order,
    score_text,
)
from dhilgt.errors import ArtifactError, ConfigError

FULL = "full"
WITHOUT: dict[str, dict[str, Any]] = {
    "no readout": {"readout": "ego"},
    "no virtual nodes": {"num_virtual": 0},
    "no SPD bias": {"spd_bias": False, "bias_slope": 0.0},
    "none of the three": {
        "readout": "ego", "num_virtual": 0, "spd_bias": False, "bias_slope": 0.0,
    },
}  # fmt: skip
"""What variants without parts of the model change in the settings, by name."""

BEYOND: dict[str, dict[str, Any]] = {
    "the node alone": {"size": 1, "num_out": None, "num_in": None},
    "no hops": {"hops": 0},
    "no slope": {"bias_slope": 0.0},
    "no known classes": {"label_inputs": False},
    "no output dropout": {"output_dropout": 0.0},
}
"""What variants without the token row, or an option beyond the paper, change in the settings."""

VARIANTS = WITHOUT | BEYOND

_COLUMNS = ("to full", "95 % interval", "seen", "published")
_PANEL_HEIGHT, _ROW_HEIGHT = 0.9, 0.3  # inches, of a panel without rows and of a row


def ablation_cells(
    whole: Iterable[Cell], variants: Mapping[str, dict[str, Any]] = WITHOUT
) -> list[Cell]:
    """Return each cell of the whole model, followed by those without some of its parts.

    A part that the recipe of a dataset does not have is not removed, and of two variants with the
    same settings the first is used.

    Args:
        whole: Cells of DHIL-GT, from `grid.cells`.
        variants: `WITHOUT`, or `BEYOND`.

    Raises:
        ConfigError: If the recipe has none of the parts.

    Example:
        >>> [cell.recipe for cell in ablation_cells([Cell("dhilgt", "cora", 0)])][:3]
        ['paper', 'paper, no readout', 'paper, no virtual nodes']
    """
    from dhilgt.benchmark.running.contenders import resolved  # needs torch, tables do not

    cells = []
    for cell in whole:
        cells.append(cell)
        settings = resolved(cell, "accuracy").model
        present: dict[str, dict[str, Any]] = {}
        for name, removed in variants.items():
            # The recipe "auto" leaves most settings open: they are then fixed in all candidates.
            gone = {
                key: value
                for key, value in removed.items()
                if key not in settings or settings[key] != value
            }
            if gone and gone not in present.values():
                present[name] = gone
        if not present:
            raise ConfigError(
                f"the recipe {cell.recipe!r} is without all of the parts on {cell.data}: nothing "
                "is left to remove; choose another recipe"
            )
        for name, removed in present.items():
            cells.append(cell.varied(name, removed))
            check(cells[-1])
    return cells


@dataclass(frozen=True)
class Effect:
    """What was measured of one variant on one dataset.

    Attributes:
        recipe: Of the whole model.
        data: The dataset.
        variant: `FULL`, or a name of `VARIANTS`.
        metric: The score.
        scores: On the test nodes, as fractions, in the order of the seeds.
        tried: Seeds that the variant with the most has on this dataset.
        difference: To the whole model over the seeds that both have; None for the whole model
            itself, and without such seeds.
        published: In per cent: the score of the whole model, or the difference to it.
    """

    recipe: str
    data: str
    variant: str
    metric: str
    scores: tuple[float, ...]
    tried: int
    difference: Difference | None
    published: float | None


def effects(records: Iterable[Record]) -> list[Effect]:
    """Return the effects by dataset and recipe; cells of other experiments are left out.

    Args:
        records: Of results files.

    Raises:
        ArtifactError: If records contradict each other: two of one cell with different settings, or
            two of one seed with different splits.
    """
    measured = []
    groups = _groups(records)
    for data in in_known_order(data for data, _ in groups):
        for recipe in (recipe for name, recipe in groups if name == data):
            variants = groups[data, recipe]
            whole = variants.get(FULL, {})
            metric = next(iter(next(iter(variants.values())).values())).metrics[0]
            for name in _shown(variants):
                own = variants.get(name, {})
                measured.append(
                    Effect(
                        recipe=recipe,
                        data=data,
                        variant=name,
                        metric=metric,
                        scores=tuple(paired.scores(own).values()),
                        tried=max(map(len, variants.values())),
                        difference=None if name == FULL else paired_difference(whole, own),
                        published=_published(data, name),
                    )
                )
    return measured


def _shown(ran: Iterable[str]) -> list[str]:
    """Return the rows of a table: all parts of the model if any was removed, options as removed."""
    present = set(ran)
    parts = list(WITHOUT) if present & set(WITHOUT) else []
    return [FULL, *parts, *(name for name in BEYOND if name in present)]


def _groups(records: Iterable[Record]) -> dict[tuple[str, str], dict[str, BySeed]]:
    """Return records by dataset and recipe, then by variant, where any part is removed."""
    named = [(*_variant(one.cell.recipe), one) for one in records if paired.is_ours(one)]
    ablated = {(one.cell.data, recipe) for recipe, variant, one in named if variant != FULL}
    groups: dict[tuple[str, str], dict[str, BySeed]] = {}
    for recipe, variant, record in named:
        key = (record.cell.data, recipe)
        if key in ablated:
            paired.add(groups.setdefault(key, {}).setdefault(variant, {}), record)
    return groups


def _variant(recipe: str) -> tuple[str, str]:
    for name in VARIANTS:
        if recipe.endswith(f", {name}"):
            return recipe.removesuffix(f", {name}"), name
    return recipe, FULL


def _published(data: str, variant: str) -> float | None:
    known = published_figures()
    if variant != FULL:
        published: float | None = known["ablation"].get(data, {}).get(variant)
        return published
    row = known["figures"].get(data, {}).get(OURS)
    return None if row is None else row["score"]


# ---- tables ------------------------------------------------------------------------------------


def ablation_tables(records: Iterable[Record]) -> list[Table]:
    """Return a table per dataset and recipe, then one of all findings, with the notes under it.

    Args:
        records: Of results files.
    """
    known = list(records)
    measured = effects(known)
    blocks: dict[tuple[str, str], list[Effect]] = {}
    for effect in measured:
        blocks.setdefault((effect.data, effect.recipe), []).append(effect)
    tables = []
    for (data, recipe), block in blocks.items():
        columns = (SCORES.get(block[0].metric, block[0].metric), *_COLUMNS)
        rows = tuple(Row(effect.variant, (_entries(effect),)) for effect in block)
        tables.append(Table((title(data, recipe),), (columns,), rows))
    if tables:
        tables.append(_findings(measured))
        used = [one for one in known if (one.cell.data, _variant(one.cell.recipe)[0]) in blocks]
        tables[-1] = replace(tables[-1], notes=tuple(_notes(measured, used)))
    return tables


def _findings(measured: Sequence[Effect]) -> Table:
    """Return the datasets on which the score drops, gains or neither, by variant and recipe."""
    recipes = list(dict.fromkeys(effect.recipe for effect in measured))
    ran = {effect.variant for effect in measured if effect.variant != FULL}
    rows = []
    for name in (name for name in VARIANTS if name in ran):
        own = [effect for effect in measured if effect.variant == name]
        rows.append(Row(name, tuple(_found(own, recipe) for recipe in recipes)))
    columns = ((DROPS, GAINS, UNSEEN),) * len(recipes)
    return Table(tuple(f"recipe {recipe}" for recipe in recipes), columns, tuple(rows))


def _found(own: Sequence[Effect], recipe: str) -> tuple[TableEntry, ...]:
    gaps = [(e.data, e.difference) for e in own if e.recipe == recipe and e.difference is not None]
    texts = [
        [f"{data} {100 * gap.mean:+.2f}" for data, gap in gaps if gap.verdict == verdict]
        for verdict in (DROPS, GAINS, UNSEEN)
    ]
    return tuple(TableEntry(", ".join(found) or NOTHING) for found in texts)


def _entries(effect: Effect) -> tuple[TableEntry, ...]:
    score = score_text(effect.scores) if effect.scores else NOT_RUN
    if effect.scores and len(effect.scores) < effect.tried:
        score += f" ({len(effect.scores)} of {effect.tried})"
    published = effect.published
    if effect.variant == FULL:
        last = NOTHING if published is None else f"{published:.2f}"
        return tuple(map(TableEntry, (score, "", "", "", last)))
    last = NOTHING if published is None else f"{published:+.2f}"
    return tuple(map(TableEntry, (score, *difference_texts(effect.difference), last)))


def _notes(measured: Sequence[Effect], records: Sequence[Record]) -> list[str]:
    tried = sum(e.difference is not None and e.difference.low is not None for e in measured)
    notes = [
        "Test scores in per cent, mean ± standard deviation over "
        f"{seeds_text(effect.tried for effect in measured)}. The difference to "
        "the full model is taken split by split; its mean has the interval of the t distribution. "
        "Seen: drops or gains where the interval leaves 0 out.",
    ]
    if tried:
        notes.append(
            f"Of {tried} intervals about {tried / 20:.1f} leave 0 out by chance where nothing "
            "changes. Random splits of one graph share nodes, so the intervals are rather too "
            "narrow."
        )
    if any(effect.published is not None for effect in measured):
        notes.append("Published: the paper's score of the full model, and its differences to it.")
    return notes + machines(records) + troubles(records)


# ---- figure ------------------------------------------------------------------------------------


def draw_ablation(records: Iterable[Record], stem: Path) -> list[Path]:
    """Draw the differences to the whole model with their intervals; return the files.

    Args:
        records: Of results files.
        stem: Path without a suffix; a PNG and an SVG are written.

    Raises:
        ArtifactError: If there is no difference to draw.
        DhilgtError: If matplotlib is not installed, or a file cannot be written.
    """
    measured = [effect for effect in effects(records) if effect.difference is not None]
    if not measured:
        raise ArtifactError("there are no differences to draw; run more cells with --resume")
    data = list(dict.fromkeys(effect.data for effect in measured))
    recipes = list(dict.fromkeys(effect.recipe for effect in measured))
    ran = {effect.variant for effect in measured}
    rows = [name for name in VARIANTS if name in ran]
    across = min(2, len(data))
    down = -(-len(data) // across)
    height = 0.7 + (_PANEL_HEIGHT + _ROW_HEIGHT * len(rows)) * down
    with figures.drawn(stem, height) as figure:
        panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
        for at, panel in enumerate(panels.flat):
            if at < len(data):
                own = [effect for effect in measured if effect.data == data[at]]
                _panel(panel, data[at], own, recipes, rows)
            else:
                panel.set_visible(False)
        figures.add_legend(figure, panels.flat)
    return figures.paths(stem)


def _panel(
    panel: Any, data: str, shown: Sequence[Effect], recipes: Sequence[str], rows: Sequence[str]
) -> None:
    places = {name: -at for at, name in enumerate(rows)}
    panel.axvline(0, color=figures.GREY, linewidth=1)
    for at, recipe in enumerate(recipes):
        shift = 0.18 * (at - (len(recipes) - 1) / 2)
        for effect in (effect for effect in shown if effect.recipe == recipe):
            gap = effect.difference
            assert gap is not None, "chosen by the caller"
            reach = 0.0 if gap.high is None else 100 * (gap.high - gap.mean)
            panel.errorbar(
                100 * gap.mean,
                places[effect.variant] - shift,
                xerr=reach,
                color=figures.COLOURS[at % len(figures.COLOURS)],
                marker=figures.MARKERS[at % len(figures.MARKERS)],
                markersize=5,
                capsize=3,
                linestyle="none",
                label=f"measured, recipe {recipe}",
            )
    published = {e.variant: e.published for e in shown if e.published is not None}
    if published:
        panel.plot(
            list(published.values()),
            [places[name] for name in published],
            linestyle="none",
            marker="x",
            color=figures.GREY,
            label="as published",
        )
    panel.set_title(data)
    panel.set_xlabel("difference to full in points, 95 % interval")
    panel.tick_params(labelbottom=True)
    panel.set_yticks(list(places.values()), list(places))
    panel.set_ylim(-len(places) + 0.5, 0.5)
    panel.grid(axis="y", visible=False)
