"""The results of a search: the best settings as a file, all trials as lines of JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dhilgt.errors import DhilgtError
from dhilgt.settings import yaml_files
from dhilgt.settings.recipes import hardware_text, header, memory_text, versions_text
from dhilgt.settings.settings import Settings
from dhilgt.store.files import canonical_json, explained, write_file
from dhilgt.tune.space import followed
from dhilgt.tune.storage import JOURNAL, open_storage, optuna
from dhilgt.tune.study import Search, stages_begun
from dhilgt.tune.trials import LATE

BEST = "best.yaml"
TRIALS = "trials.jsonl"


@dataclass(frozen=True)
class SearchState:
    """The trials of a search so far.

    Attributes:
        trials: One dict per trial that ended: stage, number, state, score, chosen, time and memory;
            in the order of their start.
        best: The best one, of equal ones that of the last stage; None if none has ended.
        settings: All settings of the best trial; None if none has ended.
        seconds: Wall clock of the search so far.
    """

    trials: list[dict[str, Any]]
    best: dict[str, Any] | None
    settings: Settings | None
    seconds: float

    def count(self, state: str) -> int:
        """Return the number of trials in a state: "complete", "pruned" or "failed"."""
        return sum(one["state"] == state for one in self.trials)


_STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}


def look(search: Search, storage: Any = None) -> SearchState:
    """Return the state of a search, from its storage.

    Args:
        search: The search.
        storage: Its storage, if it is open already.
    """
    storage = open_storage(search.address) if storage is None else storage
    trials: list[dict[str, Any]] = []
    values, seconds = search.base.to_dict(), 0.0
    best: dict[str, Any] | None = None
    for number in range(stages_begun(search, storage)):
        study, stage = search.study(number, storage), search.space.stages[number]
        seconds = max(seconds, float(study.user_attrs.get("seconds", 0.0)))
        mine = [
            _plain(one, stage.name)
            for one in study.get_trials(deepcopy=False)
            if one.state.name in _STATES and not one.user_attrs.get(LATE)
        ]
        trials += mine
        ended = [one for one in mine if one["state"] == "complete"]
        if ended:
            chosen_by = max if search.higher_is_better else min
            top = chosen_by(ended, key=lambda one: float(one["score"]))
            if search.as_good(top["score"], None if best is None else best["score"]):
                best = top
                values = followed(values | top["chosen"], {one.name for one in stage.parameters})
    settings = None if best is None else Settings.from_dict(values)
    return SearchState(trials, best, settings, seconds)


def _plain(trial: Any, stage: str) -> dict[str, Any]:
    facts = {name: value for name, value in trial.user_attrs.items() if name != "chosen"}
    return {
        "stage": stage,
        "number": trial.number,
        "state": _STATES[trial.state.name],
        "score": facts.pop("score", None),
        "chosen": dict(trial.user_attrs.get("chosen", trial.params)),
        "steps": trial.last_step,
        **facts,
    }


def write_best(search: Search, state: SearchState, command: str) -> Path:
    """Write the best settings and all trials into the folder of a search.

    Args:
        search: The search.
        state: Its state.
        command: The command line, for the header.

    Raises:
        DhilgtError: If no trial has ended yet.
    """
    if state.settings is None or state.best is None:
        raise DhilgtError("no trial has ended yet, so there are no best settings to write")
    lines = b"".join(canonical_json(one) + b"\n" for one in state.trials)
    path = search.folder / BEST
    text = _best_header(search, state, command) + yaml_files.settings_text(
        state.settings, dict(search.about) or None, recipe=yaml_files.PAPER
    )
    for place, data in ((search.folder / TRIALS, lines), (path, text.encode())):
        with explained("write", place):
            write_file(place, iter((memoryview(data),)))
    return path


def _best_header(search: Search, state: SearchState, command: str) -> str:
    """Return the comment at the top of the best settings."""
    from dhilgt.training.run_folder import environment
    from dhilgt.utils.devices import choose_device

    assert state.best is not None, "checked by the caller"
    versions = environment(choose_device(search.base.device), 1)
    versions["optuna"] = optuna().__version__
    seeds = ", ".join(map(str, search.seeds))
    each = ", ".join(f"{score:.4f}" for score in state.best["scores"])
    states = Counter(one["state"] for one in state.trials)
    counts = ", ".join(f"{count} {name}" for name, count in sorted(states.items()))
    ended = [one for one in state.trials if one["state"] == "complete"]
    return header(
        "The best settings of a search by validation score. No training of it read the labels of "
        "its own split's test nodes; with a split per seed these are other nodes for other seeds. "
        "The score below chose the settings and is too good for that; it is no test score.",
        [
            ("command", command),
            ("space", search.space.name),
            (f"validation {search.base.metric}",
             f"{state.best['score']:.4f}, the mean of {each} on seeds {seeds}"),
            ("trials", f"{len(state.trials)} ({counts})"),
            ("time", f"{state.seconds:.0f} s for the search, {state.best['seconds']:.1f} s for "
             "the best trial"),
            ("memory", memory_text(ended)),
            ("versions", versions_text(versions)),
            ("hardware", hardware_text(versions)),
        ],
    )  # fmt: skip


def is_search(folder: Path) -> bool:
    """Return whether a folder holds a search, or nothing."""
    ours = (BEST, TRIALS, JOURNAL, ".search.lock")
    return folder.is_dir() and all(
        path.name.removesuffix(".tmp") in ours or path.name.startswith(f"{JOURNAL}.")
        for path in folder.iterdir()
    )
