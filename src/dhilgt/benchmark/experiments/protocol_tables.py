"""The two tables of the protocol, who is first on each graph, and the known figures beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dhilgt.benchmark.experiments.default import DEFAULT
from dhilgt.benchmark.experiments.known import known_figures
from dhilgt.benchmark.experiments.paper import SYSTEMS, published_figures
from dhilgt.benchmark.experiments.protocol import DEFAULTS, SEARCH, SEEDS
from dhilgt.benchmark.experiments.protocol_results import LEVEL, Column, columns_of
from dhilgt.benchmark.record import Record
from dhilgt.benchmark.running.grid import OWN
from dhilgt.benchmark.running.recipe import OURS, PAPER
from dhilgt.benchmark.show.notes import machines, troubles
from dhilgt.benchmark.show.paired import difference_texts, seeds_text
from dhilgt.benchmark.show.tables import (
    NOTHING,
    SCORES,
    TITLES,
    Row,
    RowKey,
    Table,
    TableEntry,
    label_of,
    score_text,
    sorted_keys,
)

ABOVE, BELOW = "▲", "▼"
_ACROSS = 3
_Entries = tuple[TableEntry, ...]


def protocol_tables(
    records: Iterable[Record],
    table: str,
    split: str = OWN,
    *,
    across: int = _ACROSS,
    published: bool = True,
) -> list[Table]:
    """Return a table of the protocol: our place on each graph, then all systems; [] without lines.

    Args:
        records: Of results files.
        table: "defaults" (as they come) or "search" (equal search).
        split: "own" or "official".
        across: Graphs side by side.
        published: Put the figures of the paper's tables under each system that has some.
    """
    known = list(records)
    columns = [one for one in columns_of(known, table) if one.split == split]
    if not columns:
        return []
    keys = _ours_last(_row_keys(columns, table))
    shown = [
        _all_systems(columns[at : at + across], keys, table, published and split == OWN)
        for at in range(0, len(columns), across)
    ]
    used = [r for one in columns for by_seed in one.rows.values() for r in by_seed.values()]
    notes = [*_reading(columns, table), *machines(used), *troubles(used)]
    last = shown[-1]
    shown[-1] = Table(last.data, last.columns, last.rows, tuple(notes))
    return [_places(columns), *shown]


# ---- our place on each graph -------------------------------------------------------------------


def _places(columns: Sequence[Column]) -> Table:
    rows = []
    for one in columns:
        best, place = one.best_other, one.place(one.ours)
        compared = None if best is None else one.comparisons.get(best)
        mean, interval, _ = difference_texts(None if compared is None else compared.gap)
        alone = place is None or best is None
        parts = (
            (_score(one, one.ours), NOTHING if alone else f"{place} of {len(one.means)}"),
            (NOTHING if best is None else _label(best), _score(one, best)),
            (mean, interval, NOTHING if compared is None else p_text(compared.p_value)),
        )
        label = f"{one.title}, {SCORES.get(one.metric, one.metric)}"
        rows.append(Row(label, tuple(tuple(map(TableEntry, part)) for part in parts)))
    return Table(
        ("DHIL-GT", "Best other system", "DHIL-GT − best other"),
        (("score", "place"), ("system", "score"), ("mean", "95 % interval", "corrected p")),
        tuple(rows),
        tuple(_verdicts(columns)),
    )


def _verdicts(columns: Sequence[Column]) -> list[str]:
    """Return on which graphs we are first, no worse than the first, or behind."""
    first: list[str] = []
    level: list[str] = []
    behind: list[str] = []
    unknown: list[str] = []
    for one in columns:
        best = one.best_other
        compared = None if best is None else one.comparisons.get(best)
        if compared is None or best is None:
            unknown.append(one.data)
        elif compared.gap.mean >= 0:
            first.append(one.data)
        else:
            text = f"{one.data} ({100 * compared.gap.mean:+.2f} to {_label(best)})"
            (behind if compared.is_seen else level).append(text)
    return [
        f"{words}: {', '.join(graphs)}."
        for words, graphs in (
            ("DHIL-GT has the highest mean score on", first),
            ("No difference to the highest mean score is seen on", level),
            ("DHIL-GT is below the highest mean score on", behind),
            ("Not comparable yet", unknown),
        )
        if graphs
    ]


def p_text(value: float) -> str:
    """Return a p value with two digits that count.

    Example:
        >>> p_text(0.0421), p_text(0.00004), p_text(1.0)
        ('0.042', '<0.001', '1')
    """
    return "<0.001" if value < 0.001 else f"{value:.2g}"


# ---- all systems -------------------------------------------------------------------------------


def _row_keys(columns: Sequence[Column], table: str) -> list[RowKey]:
    """Return the rows that have lines, and one of every system of the comparison that has none."""
    keys = list(dict.fromkeys(key for one in columns for key in one.rows))
    there = {key.system for key in keys}
    trials = max(key.trials for key in keys) if table == SEARCH else 0
    keys += [RowKey(name, PAPER, PAPER, trials) for name in SYSTEMS if name not in there]
    if OURS not in there:
        keys.append(RowKey(OURS, PAPER, PAPER, trials) if trials else DEFAULT)
    return keys


def _ours_last(keys: Iterable[RowKey]) -> list[RowKey]:
    """Return rows in the order of the paper; of ours the paper's recipe before the default."""
    ordered = sorted_keys(sorted(keys, key=lambda key: (key.variant != PAPER, key.recipe)))
    return sorted(ordered, key=lambda key: (key.system == OURS, key == DEFAULT))


def _all_systems(
    columns: Sequence[Column], keys: Sequence[RowKey], table: str, published: bool
) -> Table:
    rows: list[Row] = []
    for key in keys:
        rows.append(Row(_label(key), tuple(_entries(one, key, table) for one in columns)))
        last = [other for other in keys if other.system == key.system][-1] == key
        if published and last and any(_published(one, key.system) for one in columns):
            entries = tuple(_published_entries(one, key.system, table) for one in columns)
            rows.append(Row(f"{TITLES.get(key.system, key.system)}, as published", entries, True))
    heads = tuple((SCORES.get(one.metric, one.metric), *_further_heads(table)) for one in columns)
    return Table(tuple(one.title for one in columns), heads, tuple(rows))


def _further_heads(table: str) -> tuple[str, ...]:
    return ("to ours", "trials") if table == SEARCH else ("to ours",)


def _entries(one: Column, key: RowKey, table: str) -> _Entries:
    reason = one.reason(key)
    marks = dict(zip(dict.fromkeys(one.means.values()), ("best", "second"), strict=False))
    mark = marks.get(one.means[key], "") if key in one.means and len(one.means) > 1 else ""
    entries = [TableEntry(reason or _score(one, key), mark), TableEntry(_gap(one, key))]
    if table == SEARCH:
        entries.append(TableEntry(_trials(one, key)))
    return tuple(entries)


def _score(one: Column, key: RowKey | None) -> str:
    if key is None or not one.is_complete(key):
        return NOTHING
    return score_text([score for _, score in sorted(one.scores(key).items())])


def _gap(one: Column, key: RowKey) -> str:
    """Return the other's score minus ours, with a mark where the difference is seen."""
    compared = one.comparisons.get(key)
    if compared is None:
        return NOTHING
    mean = -compared.gap.mean
    mark = "" if not compared.is_seen else f" {ABOVE}" if mean > 0 else f" {BELOW}"
    return f"{100 * mean:+.2f}{mark}"


def _trials(one: Column, key: RowKey) -> str:
    """Return the settings that were tried and their trainings, as "20 (34)"."""
    searches = [r.search for r in one.rows.get(key, {}).values() if r.search is not None]
    counts = {(search.trials, search.trainings) for search in searches}
    return ", ".join(f"{trials} ({trainings})" for trials, trainings in sorted(counts)) or NOTHING


def _published(one: Column, system: str) -> str | None:
    row = published_figures()["figures"].get(one.data, {}).get(system, {})
    return f"{row['score']:.2f} ± {row['sd']:.2f}" if "score" in row else None


def _published_entries(one: Column, system: str, table: str) -> _Entries:
    figure = TableEntry(_published(one, system) or "")
    return (figure, *(TableEntry("") for _ in _further_heads(table)))


def _label(key: RowKey) -> str:
    if key == DEFAULT:
        return "DHIL-GT, default"
    if key.system == OURS and not key.trials:
        return "DHIL-GT, paper's recipe"
    return label_of(key._replace(trials=0))


def _reading(columns: Sequence[Column], table: str) -> list[str]:
    """Return how to read the table."""
    notes = [
        "Test scores in per cent: mean ± standard deviation over "
        f"{seeds_text(len(one.seeds) for one in columns)}; best and second best marked among rows "
        "with all of them. A row without a score on every split has the reason in its place.",
        "To ours: the mean of the row's score minus that of "
        f"{'DHIL-GT' if table == SEARCH else 'the default'}, split by split. {ABOVE} above it, "
        f"{BELOW} below it, where Holm's corrected p value over the rows of the graph is below "
        f"{LEVEL:g}; elsewhere no difference is seen.",
    ]
    if table == SEARCH:
        notes.append(
            "Trials: settings tried, in brackets the trainings that took: all on the split of "
            "seed 0, the best third on those of seeds 1 and 2 too; the best mean validation score "
            "was chosen."
        )
    if short := [one for one in columns if one.missing]:
        text = ", ".join(f"{one.data} {len(one.seeds)}" for one in short)
        notes.append(f"Not all {len(SEEDS)} splits are run yet: {text}.")
    return notes


# ---- known figures -----------------------------------------------------------------------------


def known_table(records: Iterable[Record]) -> Table | None:
    """Return known figures beside those of both tables; None where no line is of one of them.

    Args:
        records: Of results files.
    """
    known = list(records)
    columns = {
        table: {(one.data, one.split): one for one in columns_of(known, table)}
        for table in (DEFAULTS, SEARCH)
    }
    rows = []
    for figure in known_figures():
        split = figure.kind_of_split
        if split is None:
            continue
        place = (figure.data, split)
        key = RowKey(figure.system, figure.variant, figure.recipe, 0)
        measured = [
            _measured(columns[DEFAULTS].get(place), key),
            _measured(columns[SEARCH].get(place), None, figure.system),
        ]
        if any(text != NOTHING for text in measured):
            label = f"{label_of(key)}, {figure.data}, {split}"
            texts = (figure.text, *measured, f"{figure.source}; {figure.splits}")
            rows.append(Row(label, (tuple(map(TableEntry, texts)),)))
    if not rows:
        return None
    heads = ("known", "as it comes", "equal search", "known from")
    return Table(("Test score",), (heads,), tuple(rows))


def _measured(one: Column | None, key: RowKey | None, system: str = "") -> str:
    if one is None:
        return NOTHING
    if key is None:
        key = next((other for other in one.rows if other.system == system), None)
    return NOTHING if key is None or key not in one.rows else one.reason(key) or _score(one, key)
