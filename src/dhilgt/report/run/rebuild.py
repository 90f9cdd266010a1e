"""The report of a run made again from its folder."""

from pathlib import Path
from typing import Any

from dhilgt.errors import ArtifactError, warn
from dhilgt.report.run.facts import read_facts, run_facts
from dhilgt.report.run.folder import CUT_OFF, NOT_BEGUN, RUNNING, run_state
from dhilgt.report.run.page import check_page, write_page

_DATA = "report.json"


def write_page_of_run(folder: Path, page: Path, *, title: str | None = None) -> Path:
    """Write the report of a run, and return the path of the page.

    The page is rendered from the run's report.json. Where that is lost, damaged or of an earlier
    training, all of it is computed again from model, graph and history of the run.

    Args:
        folder: Of the run.
        page: The file to write; the data goes to the same name with `.json`.
        title: Heading; None keeps the one it had.

    Raises:
        ArtifactError: If the run has not ended, is damaged, or the page cannot be written.
    """
    state = run_state(folder)
    if state["state"] in (CUT_OFF, NOT_BEGUN, RUNNING):
        way_out = f"; go on with: {state['next'][0]}" if state["next"] else "; wait for it"
        raise ArtifactError(
            f"{folder} holds a run that has not ended, so it has no report{way_out}"
        )
    page.parent.mkdir(parents=True, exist_ok=True)
    check_page(page)
    facts = _kept_facts(folder, state) or _computed_facts(folder, state)
    if title is not None:
        facts["title"] = title
    return write_page(facts, page)


def _kept_facts(folder: Path, state: dict[str, Any]) -> dict[str, Any] | None:
    """Return the facts in report.json if they are about the run as it is."""
    path = folder / _DATA
    if not path.exists():
        return None
    try:
        facts = read_facts(path)
        same = (
            facts["scores"] == state["scores"]
            and facts["graph"]["fingerprint"] == state["graph"]["fingerprint"]
            and facts["training"]["epochs"] == state["epochs"]
        )
    except (ArtifactError, KeyError, TypeError) as error:
        warn(f"{path} cannot be used ({error}); the report is computed again")
        return None
    if not same:
        warn(f"{path} is about another training; the report is computed again")
        return None
    return facts


def _computed_facts(folder: Path, state: dict[str, Any]) -> dict[str, Any]:
    from dhilgt.classifier.classifier import NodeClassifier

    clf = NodeClassifier.load(folder)
    environment = state["environment"]
    if not environment:
        warn(
            f"{folder / 'environment.json'} is lost, so versions and hardware of the training are "
            "not known; the report has those of this machine"
        )
    warn("the time that predicting took was in report.json only; the report leaves it out")
    stages = {name: dict(one) for name, one in clf.stages_.items()}
    # Predicting the nodes once more takes time, too, but not that of the run.
    return run_facts(clf, None, environment) | {"stages": stages}
