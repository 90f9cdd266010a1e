"""The report of a run: one HTML file that needs nothing else."""

from collections.abc import Mapping
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dhilgt.errors import ArtifactError
from dhilgt.report.html import Markup, joined, tag
from dhilgt.report.run import score_sections
from dhilgt.report.run.facts import run_facts
from dhilgt.store.files import canonical_json, explained, strict_json, write_file

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier


def render(facts: Mapping[str, Any]) -> str:
    """Gives the page of facts; the same facts give the same text.

    Args:
        facts: As `run_facts` or `read_facts` give them.
    """
    style = files("dhilgt.report.run").joinpath("style.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="generator", content=f"dhilgt {facts['environment'].get('dhilgt', '')}"),
        tag("title", f"{facts['title']} · dhilgt report"),
        tag("style", Markup(style)),
    )
    header = tag(
        "header", tag("p", "dhilgt · report of a run", class_="eyebrow"), tag("h1", facts["title"])
    )
    main = tag("main", *(section(facts) for section in score_sections.ALL))
    footer = tag(
        "footer",
        tag(
            "p",
            "The numbers of this page are in the .json file beside it, from which it can be "
            "rendered again.",
        ),
    )
    body = tag("body", header, main, footer)
    return joined([Markup("<!doctype html>\n"), tag("html", head, body, lang="en"), Markup("\n")])


def write_report(
    clf: "NodeClassifier", path: str | PathLike[str], *, title: str | None = None
) -> Path:
    """Writes the report of a fitted classifier, and its data beside it; gives the page's path.

    Files appear whole or not at all, and replace older ones of the same name. In the folder of a
    run, versions and hardware are taken from its `environment.json`. Under `torchrun` every process
    calls it, as each predicts its share of the nodes; the first one writes.

    Args:
        clf: After `fit` or `load`.
        path: The page, for example `report.html`; the data goes to the same name with `.json`.
        title: Heading; says what was classified when None.

    Raises:
        ArtifactError: If a file cannot be written.
    """
    page = Path(path)
    if page.suffix == ".json" or page.is_dir():
        what = "a folder" if page.is_dir() else "where the report's data goes"
        raise ArtifactError(f"{page} is {what}; name a page, for example report.html")
    if not page.parent.is_dir():
        raise ArtifactError(f"{page.parent} is not a folder; make it or choose another path")
    from dhilgt.training.distributed import Group

    facts = run_facts(clf, title, _environment_beside(page))
    if not Group().is_main:
        return page
    data = canonical_json(facts, indent=2) + b"\n"
    text = render(facts).encode("utf-8")
    for target, content in ((page.with_suffix(".json"), data), (page, text)):
        with explained("write", target):
            write_file(target, iter((memoryview(content),)))
    return page


def _environment_beside(page: Path) -> dict[str, Any] | None:
    """Gives what the run's folder says of where it was trained; None if the page is elsewhere."""
    try:
        found = strict_json((page.parent / "environment.json").read_bytes())
    except (OSError, ArtifactError):
        return None
    return found if isinstance(found, dict) and "dhilgt" in found else None
