"""The report of a run: one HTML file that needs no other."""

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dhilgt.errors import ArtifactError
from dhilgt.report.html import Markup, document, packaged, tag
from dhilgt.report.run.class_sections import calibration, classes, confusion
from dhilgt.report.run.facts import run_facts
from dhilgt.report.run.run_sections import environment, settings, stages, tokens
from dhilgt.report.run.score_sections import score, training
from dhilgt.report.run.search_sections import search
from dhilgt.store.files import canonical_json, explained, strict_json, write_file

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier

_SECTIONS: tuple[Callable[[Mapping[str, Any]], Markup], ...] = (
    score, search, training, confusion, classes, calibration, tokens, stages, settings,
    environment,
)  # fmt: skip


def render(facts: Mapping[str, Any]) -> str:
    """Return the page of facts; the same facts give the same text.

    Args:
        facts: From `run_facts` or `read_facts`.
    """
    note = (
        "The numbers of this page are in the .json file beside it, from which it can be "
        "rendered again."
    )
    version = facts["environment"].get("dhilgt", "")
    return document(
        f"{facts['title']} · dhilgt report",
        tag(
            "header",
            tag("p", "dhilgt · report of a run", class_="eyebrow"),
            tag("h1", facts["title"]),
        ),
        tag("main", *(section(facts) for section in _SECTIONS)),
        tag("footer", tag("p", note)),
        style=packaged("dhilgt.report", "base.css") + packaged("dhilgt.report.run", "style.css"),
        head=[tag("meta", name_="generator", content=f"dhilgt {version}")],
    )


def write_report(
    clf: "NodeClassifier", path: str | PathLike[str], *, title: str | None = None
) -> Path:
    """Write the report of a fitted classifier and its data, and return the path of the page.

    Each file is written completely or not at all, and replaces an older one of the same name. In
    the folder of a run, versions and hardware are read from its `environment.json`. Under
    `torchrun` every process must call this, as each predicts a part of the nodes; the first one
    writes.

    Args:
        clf: After `fit` or `load`.
        path: The page, for example `report.html`; the data goes to the same name with `.json`.
        title: Heading; the numbers of nodes and classes when None.

    Raises:
        ArtifactError: If a file cannot be written.
    """
    page = Path(path)
    check_page(page)
    from dhilgt.training.distributed import Group

    facts = run_facts(clf, title, _environment_beside(page))
    return write_page(facts, page) if Group().is_main else page


def check_page(page: Path) -> None:
    """Raise for a path at which no page can be written, before any work.

    Raises:
        ArtifactError: If it is a folder, the place of the data, or in no folder.
    """
    if page.suffix == ".json" or page.is_dir():
        what = "a folder" if page.is_dir() else "where the report's data goes"
        raise ArtifactError(f"{page} is {what}; name a page, for example report.html")
    if not page.parent.is_dir():
        raise ArtifactError(f"{page.parent} is not a folder; make it or choose another path")


def write_page(facts: Mapping[str, Any], page: Path) -> Path:
    """Write the data of a report and its page, each completely or not at all.

    Args:
        facts: From `run_facts` or `read_facts`.
        page: The page; the data goes to the same name with `.json`.
    """
    data = canonical_json(facts, indent=2) + b"\n"
    text = render(facts).encode("utf-8")
    for target, content in ((page.with_suffix(".json"), data), (page, text)):
        with explained("write", target):
            write_file(target, iter((memoryview(content),)))
    return page


def _environment_beside(page: Path) -> dict[str, Any] | None:
    """Return the environment of the run in whose folder the page is; None if there is none."""
    try:
        values = strict_json((page.parent / "environment.json").read_bytes())
    except (OSError, ArtifactError):
        return None
    return values if isinstance(values, dict) and "dhilgt" in values else None
