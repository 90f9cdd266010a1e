"""The ablation: DHIL-GT without some of its parts, on the same splits as the whole.

`ablation_cells` says what to run. From the lines of that, `effects` gives the numbers,
`ablation_tables` tables and `draw_ablation` the figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dhilgt.benchmark.experiments.paper import published_figures
from dhilgt.benchmark.running.grid import Cell, check
from dhilgt.benchmark.running.recipe import OURS, Changes
from dhilgt.benchmark.show import figures, paired
from dhilgt.benchmark.show.notes import machines, troubles
from dhilgt.benchmark.show.paired import (
    BySeed,
    Difference,
    Line,
    difference_texts,
    paired_difference,
    seeds_text,
    title,
)
from dhilgt.benchmark.show.tables import NOT_RUN, NOTHING, SCORES, Entry, Row, Table, score_text
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

    What the recipe of a dataset is without already is not removed once more, and of two variants
    that come to the same the first is taken.

    Args:
        whole: Cells of DHIL-GT, from `grid.cells`.
        variants: `WITHOUT`, or `BEYOND`.

    Raises:
        ConfigError: If the recipe is without all of the parts already.

    Example:
        >>> [cell.recipe for cell in ablation_cells([Cell("dhilgt", "cora", 0)])][:3]
        ['paper', 'paper, no readout', 'paper, no virtual nodes']
    """
    from dhilgt.benchmark.running.contenders import (
        resolved,
    )  # needs torch, which showing lines does not

    found = []
    for cell in whole:
        found.append(cell)
        settings = resolved(cell, "accuracy").model
        present: dict[str, dict[str, Any]] = {}
        for name, removed in variants.items():
            gone = {key: value for key, value in removed.items() if settings[key] != value}
            if gone and gone not in present.values():
                present[name] = gone
        if not present:
            raise ConfigError(
                f"the recipe {cell.recipe!r} is without all of the parts on {cell.data}: nothing "
                "is left to remove; choose another recipe"
            )
        for name, removed in present.items():
            changes = Changes(removed).over(cell.changes)
            found.append(replace(cell, recipe=f"{cell.recipe}, {name}", changes=changes))
            check(found[-1])
    return found


@dataclass(frozen=True)
class Effect:
    """What lines say of one variant on one dataset.

    Attributes:
        recipe: Of the whole model.
        data: The dataset.
        variant: `FULL`, or a name of `VARIANTS`.
        metric: The score.
        scores: On the test nodes, as shares, in the order of the seeds.
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


def effects(lines: Iterable[Line]) -> list[Effect]:
    """Return the effects that lines show, by dataset and recipe; cells of other kinds are left out.

    Args:
        lines: Of results files.

    Raises:
        ArtifactError: If lines contradict each other: two of one cell with different settings, or
            two of one seed with different splits.
    """
    found = []
    groups = _groups(lines)
    for data in paired.in_known_order(data for data, _ in groups):
        for recipe in (recipe for name, recipe in groups if name == data):
            variants = groups[data, recipe]
            whole = variants.get(FULL, {})
            metric = next(line["metrics"][0] for by in variants.values() for line in by.values())
            for name in _shown(variants):
                own = variants.get(name, {})
                found.append(
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
    return found


def _shown(ran: Iterable[str]) -> list[str]:
    """Return the rows of a table: all parts of the model if any was removed, options as removed."""
    there = set(ran)
    parts = list(WITHOUT) if there & set(WITHOUT) else []
    return [FULL, *parts, *(name for name in BEYOND if name in there)]


def _groups(lines: Iterable[Line]) -> dict[tuple[str, str], dict[str, BySeed]]:
    """Return lines by dataset and recipe, then by variant, where any part is removed."""
    named = [(*_variant(line["recipe"]), line) for line in lines if paired.is_ours(line)]
    wanted = {(line["data"], recipe) for recipe, variant, line in named if variant != FULL}
    found: dict[tuple[str, str], dict[str, BySeed]] = {}
    for recipe, variant, line in named:
        if (line["data"], recipe) in wanted:
            variants = found.setdefault((line["data"], recipe), {})
            paired.add(variants.setdefault(variant, {}), line)
    return found


def _variant(recipe: str) -> tuple[str, str]:
    for name in VARIANTS:
        if recipe.endswith(f", {name}"):
            return recipe.removesuffix(f", {name}"), name
    return recipe, FULL


def _published(data: str, variant: str) -> float | None:
    known = published_figures()
    if variant != FULL:
        found: float | None = known["ablation"].get(data, {}).get(variant)
        return found
    row = known["figures"].get(data, {}).get(OURS)
    return None if row is None else row["score"]


# ---- tables ------------------------------------------------------------------------------------


def ablation_tables(lines: Iterable[Line]) -> list[Table]:
    """Return a table per dataset and recipe; the notes stand under the last one.

    Args:
        lines: Of results files.
    """
    kept = list(lines)
    found = effects(kept)
    blocks: dict[tuple[str, str], list[Effect]] = {}
    for effect in found:
        blocks.setdefault((effect.data, effect.recipe), []).append(effect)
    tables = []
    for (data, recipe), block in blocks.items():
        columns = (SCORES.get(block[0].metric, block[0].metric), *_COLUMNS)
        rows = tuple(Row(effect.variant, (_entries(effect),)) for effect in block)
        tables.append(Table((title(data, recipe),), (columns,), rows))
    if tables:
        used = [line for line in kept if (line["data"], _variant(line["recipe"])[0]) in blocks]
        tables[-1] = replace(tables[-1], notes=tuple(_notes(found, used)))
    return tables


def _entries(effect: Effect) -> tuple[Entry, ...]:
    score = score_text(effect.scores) if effect.scores else NOT_RUN
    if effect.scores and len(effect.scores) < effect.tried:
        score += f" ({len(effect.scores)} of {effect.tried})"
    published = effect.published
    if effect.variant == FULL:
        last = NOTHING if published is None else f"{published:.2f}"
        return tuple(map(Entry, (score, "", "", "", last)))
    last = NOTHING if published is None else f"{published:+.2f}"
    return tuple(map(Entry, (score, *difference_texts(effect.difference), last)))


def _notes(found: Sequence[Effect], lines: Sequence[Line]) -> list[str]:
    tried = sum(e.difference is not None and e.difference.low is not None for e in found)
    notes = [
        "Test scores in per cent, mean ± standard deviation over "
        f"{seeds_text(effect.tried for effect in found)}. The difference to "
        "the full model is taken split by split; its mean has the interval of the t distribution. "
        "Seen: drops or gains where the interval leaves 0 out.",
    ]
    if tried:
        notes.append(
            f"Of {tried} intervals about {tried / 20:.1f} leave 0 out by chance where nothing "
            "changes. Random splits of one graph share nodes, so the intervals are rather too "
            "narrow."
        )
    if any(effect.published is not None for effect in found):
        notes.append("Published: the paper's score of the full model, and its differences to it.")
    return notes + machines(lines) + troubles(lines)


# ---- figure ------------------------------------------------------------------------------------


def draw_ablation(lines: Iterable[Line], stem: Path) -> list[Path]:
    """Draw the differences to the whole model with their intervals; return the files.

    Args:
        lines: Of results files.
        stem: Path without a suffix; a PNG and an SVG are written.

    Raises:
        ArtifactError: If the lines show no difference to draw.
        DhilgtError: If matplotlib is not there, or a file cannot be written.
    """
    found = [effect for effect in effects(lines) if effect.difference is not None]
    if not found:
        raise ArtifactError("there are no differences to draw; run more cells with --resume")
    data = list(dict.fromkeys(effect.data for effect in found))
    recipes = list(dict.fromkeys(effect.recipe for effect in found))
    ran = {effect.variant for effect in found}
    rows = [name for name in VARIANTS if name in ran]
    across = min(2, len(data))
    down = -(-len(data) // across)
    height = 0.7 + (_PANEL_HEIGHT + _ROW_HEIGHT * len(rows)) * down
    with figures.drawn(stem, height) as figure:
        panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
        for at, panel in enumerate(panels.flat):
            if at < len(data):
                own = [effect for effect in found if effect.data == data[at]]
                _panel(panel, data[at], own, recipes, rows)
            else:
                panel.set_visible(False)
        legend = {
            label: handle  # once, though several panels have it
            for panel in panels.flat
            for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
        }
        figure.legend(legend.values(), legend.keys(), loc="outside lower center", ncols=len(legend))
    return figures.paths(stem)


def _panel(
    panel: Any, data: str, found: Sequence[Effect], recipes: Sequence[str], rows: Sequence[str]
) -> None:
    places = {name: -at for at, name in enumerate(rows)}
    panel.axvline(0, color=figures.GREY, linewidth=1)
    for at, recipe in enumerate(recipes):
        shift = 0.18 * (at - (len(recipes) - 1) / 2)
        for effect in (effect for effect in found if effect.recipe == recipe):
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
    published = {e.variant: e.published for e in found if e.published is not None}
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
