"""The tree, its map and its order agree."""

from pathlib import Path

from docs.make import portfolio_table
from docs.make.package_map import PAGE, packages, page_with_table

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "dhilgt"


def test_every_package_has_its_place_in_the_order():
    folders = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert sorted(packages()) == sorted(folders)


def test_the_map_in_contributing_is_that_of_the_packages():
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with_table(page), "run python -m docs.make.package_map"


def test_the_page_of_the_default_lists_its_candidates():
    page = portfolio_table.PAGE.read_text(encoding="utf-8")
    assert page == portfolio_table.page_text(page), "run python -m docs.make.portfolio_table"


def test_few_modules_lie_at_the_top():
    modules = {path.stem for path in SOURCE.glob("*.py")}
    assert modules == {"__init__", "__main__", "_version", "errors", "metrics", "pyg"}


def test_tests_mirror_the_packages():
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert folders == set(packages())
