"""Published figures of the systems: complete, possible, and the ones that runs are held against."""

from pathlib import Path

import pytest
from docs.make import known
from docs.make import known_figures as page

from dhilgt import baselines, datasets
from dhilgt.benchmark.experiments.known import known_figures, without_figure
from dhilgt.datasets.splits import parse_percentages

RESULTS = Path(__file__).parents[2] / "docs" / "results"
FIGURES = known_figures()


def test_every_system_has_a_figure_or_a_reason_to_have_none():
    covered = {one.system for one in FIGURES} | without_figure().keys()
    assert set(baselines.names()) <= covered
    assert not {one.system for one in FIGURES} & without_figure().keys()


def test_figures_stand_once_in_the_order_of_systems():
    assert [one.system for one in FIGURES] == sorted(one.system for one in FIGURES)
    keys = [(one.system, one.variant, one.data, one.splits) for one in FIGURES]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda one: f"{one.system} {one.data}")
def test_a_figure_has_a_graph_and_splits_that_exist(figure):
    about = datasets.info(figure.data)
    assert figure.metric is None or figure.metric in about.metrics
    assert 0 < figure.sd < 6 < figure.mean < 100
    if figure.split == "official":
        assert about.official_splits
        assert figure.runs in (None, about.official_splits)
    elif figure.split is not None:
        assert parse_percentages(figure.split) is not None
    if figure.system in baselines.names():
        assert figure.variant in baselines.describe(figure.system)["variants"]


def test_runs_are_held_against_ranges_around_published_figures():
    for check in known.CHECKS:
        published = [
            one.mean
            for one in FIGURES
            if (one.system, one.data) == (check.system, check.data)
            and (one.split == "official") == (check.split == "official")
        ]
        assert any(check.low <= mean <= check.high for mean in published), check.name


def test_runs_have_settings_that_exist():
    for check in known.CHECKS:
        if check.system not in baselines.names():
            continue
        cls = baselines.registry.system(check.system)
        cls.settings_type.from_dict({**cls.variants()[check.variant], **check.model})
        cls.train_config(check.variant, **check.training)


def test_the_table_is_made_from_the_file():
    made = (RESULTS / "known-figures-table.md").read_text(encoding="utf-8")
    assert made == page.table()
