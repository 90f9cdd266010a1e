"""The runs of `dhilgt train`: their folders, and one run per seed, in turn or side by side."""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from dhilgt.classifier.cache import Cache
from dhilgt.classifier.inputs import prepare
from dhilgt.cli import processes, shell, train_output
from dhilgt.cli.inputs import InputSource
from dhilgt.cli.request import Request
from dhilgt.errors import ArtifactError, DhilgtError, TrainingInterrupted
from dhilgt.graph.graph import Graph
from dhilgt.report.run.tried import search_record
from dhilgt.settings import recipes, yaml_files
from dhilgt.settings.yaml_files import NAME
from dhilgt.store.files import canonical_json, explained, write_file
from dhilgt.utils.workers import Workers

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier


def check_place(path: Path, *, resume: bool) -> None:
    """Raise an error if a folder cannot take a run; create nothing.

    Args:
        path: The folder.
        resume: Whether a run in it is to go on.

    Raises:
        ArtifactError: If it cannot be used; the message says why.
    """
    from dhilgt.training.run_folder import RunFolder

    if path.exists():
        folder = RunFolder(path)
        folder.open(resume=resume)
        folder.close()
        return
    above = path.resolve().parent
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        raise ArtifactError(f"{above} is a file, so {path} cannot be made; choose another path")
    if not os.access(above, os.W_OK | os.X_OK):
        raise ArtifactError(f"{above} cannot be written; allow it or choose another folder")


@contextlib.contextmanager
def started(path: Path, config: str) -> Iterator[None]:
    """Write config.yaml into a run's folder; if the block fails, the folder is as it was before.

    What training saved stays, so that an interrupted run can go on.

    Args:
        path: The folder.
        config: The text of the file.
    """
    file = path / NAME
    new = [one for one in (path.resolve(), *path.resolve().parents) if not one.exists()]
    before = file.read_bytes() if file.exists() else None
    try:
        with explained("write", file):
            path.mkdir(parents=True, exist_ok=True)
            _write(file, config.encode())
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):
            nothing_saved = all(one.name == NAME for one in path.iterdir())
            if before is None and nothing_saved:
                file.unlink(missing_ok=True)
            if before is not None and (nothing_saved or not isinstance(error, KeyboardInterrupt)):
                _write(file, before)
            for one in new:  # those that are not empty stay
                one.rmdir()
        raise


def _write(file: Path, data: bytes) -> None:
    write_file(file, iter((memoryview(data),)))


@dataclass(frozen=True)
class Options:
    """How runs are made.

    Attributes:
        data: Where the graph comes from, for the run's file of settings.
        again: The command that goes on with an interrupted run.
        anew: The command that starts it again where nothing of it was saved.
        resume: Whether runs in the folders go on.
        cache: Whether to use the cache of labels and tokens.
        report: Whether to write a page about each run.
        progress: False for no display.
        cluster: A Ray cluster to train on; None trains here.
    """

    data: dict[str, Any]
    again: str
    anew: str
    resume: bool
    cache: bool
    report: bool
    progress: bool | Literal["auto"]
    cluster: str | None = None


def train_seeds(
    source: InputSource,
    places: Mapping[Path, Request],
    options: Options,
    jobs: int,
    lines: Path,
    *,
    verbose: bool,
) -> list[dict[str, Any]]:
    """Train once in each folder, and return the facts of each run in order.

    Args:
        source: The graph.
        places: What each run is asked to be, by folder; they differ in their seed.
        options: How runs are made.
        jobs: Runs at once.
        lines: File with one line of JSON per run, rewritten after each.
        verbose: Whether to name each run when it starts.
    """
    done: dict[str, dict[str, Any]] = {}

    def keep(place: str, facts: dict[str, Any]) -> None:
        done[place] = facts
        if not processes.is_main():
            return
        facts_in_order = [done[str(one)] for one in places if str(one) in done]
        with explained("write", lines):
            data = b"".join(canonical_json(one) + b"\n" for one in facts_in_order)
            lines.parent.mkdir(parents=True, exist_ok=True)
            write_file(lines, iter((memoryview(data),)))

    def announce(place: Path) -> None:
        if verbose:
            typer.echo(f"seed {places[place].settings.seed}: {place}", err=True)

    if jobs == 1:
        for place, request in places.items():
            announce(place)
            keep(str(place), train_one(source, request, place, options))
        return list(done.values())
    waiting = list(places)
    alone = replace(options, progress=False)
    with Workers(min(jobs, len(places))) as workers:

        def start() -> None:
            while waiting and workers.running < jobs:
                place = waiting.pop(0)
                announce(place)
                workers.start(str(place), train_one, source, places[place], place, alone)

        start()
        try:
            for name, facts in workers.results(start):
                keep(name, facts)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"stopped; go on with: {options.again}") from None
    return [done[str(place)] for place in places]


def train_one(
    source: InputSource, request: Request, place: Path, options: Options
) -> dict[str, Any]:
    """Train once, or load the run if it has ended, and return the facts of the run.

    Args:
        source: The graph.
        request: What the run is asked to be.
        place: Folder of the run.
        options: How the run is made.
    """
    import dhilgt
    from dhilgt.training.run_folder import BUNDLE, REPORT, REPORT_DATA

    graph = source(request.settings.seed)
    if options.resume and (place / BUNDLE).exists():
        clf = dhilgt.NodeClassifier.load(place)
        if request.fits(clf):
            _check_inputs(clf, graph, place)
            if options.report and not any((place / one).exists() for one in (REPORT, REPORT_DATA)):
                _write_report(clf, place, options)
            return train_output.facts(clf, place, set(), 0.0, options.data)
    clf = request.classifier(cache=options.cache, progress=options.progress)
    return _trained(clf, graph, request, place, options)


def _check_inputs(clf: "NodeClassifier", graph: Graph, place: Path) -> None:
    """Raise if a graph is not what the run that has ended in a folder was trained on."""
    from dhilgt.classifier import origin

    settings = clf.settings_
    now = prepare(
        graph, None, train=None, val=None, validation=settings.validation, seed=settings.seed
    )
    before = origin.input_digests(clf.graph_, clf.classes_)
    origin.check_inputs(before, origin.input_digests(now.graph, now.classes), str(place))


def _trained(
    clf: "NodeClassifier", graph: Graph, request: Request, place: Path, options: Options
) -> dict[str, Any]:
    clf._resume_command = options.again.replace("{", "{{").replace("}", "}}")
    cache = Cache() if clf.cache and graph.num_edges else None
    before = set() if cache is None else {entry.path for entry in cache.entries()}
    start_seconds = time.perf_counter()
    text = request.text(options.data)
    with ExitStack() as stack:
        with processes.agreed():
            if processes.is_main():
                stack.enter_context(started(place, text))
        try:
            clf.fit(graph, run_dir=place, resume=options.resume, cluster=options.cluster)
        except TrainingInterrupted:
            raise
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_stopped(place, options)) from None
    if processes.is_main():
        _write_chosen(clf, place, options)
    if options.report:
        _write_report(clf, place, options)
    reused: set[str] = set()
    if cache is not None:
        made = {entry.kind for entry in cache.entries() if entry.path not in before}
        reused = {"labels"} - made if clf.settings_.fresh else {"labels", "tokens"} - made
    seconds = time.perf_counter() - start_seconds
    return train_output.facts(clf, place, reused, seconds, options.data)


def _write_chosen(clf: "NodeClassifier", place: Path, options: Options) -> None:
    """Write the settings that a search chose, as a file to train with them again."""
    from dhilgt.training.run_folder import CHOSEN

    record = search_record(clf)
    if record is None:
        return
    about = recipes.header(
        f"The settings that a search chose. {record['sentence']}"
        " Passed with --config, this file trains with them, without the search."
    )
    text = yaml_files.settings_text(clf.settings_, options.data, recipe=yaml_files.PAPER)
    with explained("write", place / CHOSEN):
        _write(place / CHOSEN, (about + text).encode())


def _stopped(place: Path, options: Options) -> str:
    """Return the message of a run that was interrupted before its training, or after it."""
    from dhilgt.training.run_folder import RunFolder

    saved = RunFolder(place).checkpoints.values()
    if saved is not None:
        epochs = saved["state"]["epoch"]
        return (
            f"interrupted; the last save in {place} is of {epochs} epoch"
            f"{'' if epochs == 1 else 's'}; go on with: {options.again}"
        )
    # Without any other file `started` takes config.yaml away, which the short command needs.
    begun = any(one.name != NAME for one in place.iterdir())
    return (
        "interrupted before the first epoch; labels and tokens that are in the cache are used "
        f"again; start again with: {options.again if begun else options.anew}"
    )


def _write_report(clf: "NodeClassifier", place: Path, options: Options) -> None:
    """Write the page about a run; if that fails, the run is kept."""
    from dhilgt.report import write_report
    from dhilgt.training.run_folder import REPORT, REPORT_DATA

    try:
        write_report(clf, place / REPORT)
    except (DhilgtError, OSError) as error:
        shell.note(f"the report was not written: {error}")
    except KeyboardInterrupt:
        (place / REPORT_DATA).unlink(missing_ok=True)  # without either file it is written again
        raise KeyboardInterrupt(
            f"interrupted; the run in {place} has ended, only its report is missing; write it "
            f"with: {options.again}"
        ) from None
