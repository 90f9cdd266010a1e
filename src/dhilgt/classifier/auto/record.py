"""What a search tried and chose: plain values, kept as `search.json` of a run's folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dhilgt.errors import ArtifactError
from dhilgt.store.files import canonical_json, explained, read_object, write_file
from dhilgt.training.run_folder import SEARCH_RECORD

FORMAT = 1
RUNNING, CHOSEN, AVERAGED, DROPPED, FAILED, REFERENCE = STATUSES = (
    "running",
    "chosen",
    "averaged",
    "dropped",
    "failed",
    "reference",
)


@dataclass
class Rung:
    """The trainings of a candidate up to one rung.

    Attributes:
        epochs: The epoch of the rung.
        scores: Best validation score so far, by seed; None where there are no validation nodes.
        losses: Validation loss of that epoch, likewise.
        seconds: Time of these trainings since the rung before.
    """

    epochs: int
    scores: list[float | None] = field(default_factory=list)
    losses: list[float | None] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class Trial:
    """A candidate and how it did.

    Attributes:
        name: Of the candidate.
        about: What it learns from.
        settings: Its settings that differ from the defaults.
        rungs: Its scores.
        status: One of `STATUSES`.
        error: Why it failed; None where it did not.
        batch_size: Nodes per step; None before its first training.
    """

    name: str
    about: str
    settings: dict[str, Any]
    rungs: list[Rung] = field(default_factory=list)
    status: str = RUNNING
    error: str | None = None
    batch_size: int | None = None

    def rung(self, epochs: int) -> Rung:
        """Return the rung that ends at an epoch; an empty one is added where there is none."""
        found = next((one for one in self.rungs if one.epochs == epochs), None)
        if found is None:
            found = Rung(epochs)
            self.rungs.append(found)
        return found


@dataclass
class SearchRecord:
    """What a search tried and chose.

    Attributes:
        metric: What candidates are compared by; "loss" where the metric is not defined on the
            validation nodes.
        higher_is_better: Whether a larger score is the better one.
        rungs: Epochs at which candidates are compared.
        seeds: Trainings of each candidate.
        last_seeds: Trainings of each candidate that is averaged; None for as many.
        candidates: In the order of the portfolio.
        num_epochs: Epochs trained in all.
        seconds: Time of the search.
        references: Scores of "mlp" (features alone) and "majority" on "val" and "test".
        chosen: Name, seed and weight of each model that is averaged.
        sentence: What was chosen and why, in a sentence or two.
        out_of_time: Whether the budget ended the search.
        began: What the search began with, to compare on a resume.

    Example:
        >>> record = SearchRecord("accuracy", True, [1, 3], 1, [Trial("plain", "features", {})])
        >>> SearchRecord.from_dict(record.to_dict()) == record
        True
    """

    metric: str
    higher_is_better: bool
    rungs: list[int]
    seeds: int
    candidates: list[Trial]
    num_epochs: int = 0
    seconds: float = 0.0
    references: dict[str, dict[str, float | None]] = field(default_factory=dict)
    chosen: list[dict[str, Any]] = field(default_factory=list)
    sentence: str = ""
    out_of_time: bool = False
    began: dict[str, Any] = field(default_factory=dict)
    last_seeds: int | None = None

    def trial(self, name: str) -> Trial:
        """Return a candidate by name."""
        return next(one for one in self.candidates if one.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"format": FORMAT, "recipe": "auto"} | asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SearchRecord:
        """Return the record that `to_dict` made.

        Raises:
            ArtifactError: If the values are not as written.
        """
        rest = dict(values)
        try:
            if rest.pop("format") != FORMAT:
                raise ArtifactError(
                    f"the record of the search has format {values['format']!r}, this version reads "
                    f"{FORMAT}; use the version that wrote it"
                )
            del rest["recipe"]
            trials = []
            for one in rest.pop("candidates"):
                rungs = [Rung(**rung) for rung in one["rungs"]]
                trials.append(Trial(**{**one, "rungs": rungs}))
                if trials[-1].status not in STATUSES:
                    raise ArtifactError(f"{trials[-1].status!r} is not a status of a candidate")
            return cls(**rest, candidates=trials)
        except (KeyError, TypeError, AttributeError) as error:
            raise ArtifactError(f"the record of the search is not as written: {error}") from error


def read_record(folder: Path) -> SearchRecord | None:
    """Return the record in an untrusted folder; None where there is none.

    Args:
        folder: Of a run.

    Raises:
        ArtifactError: If it is damaged.
    """
    path = folder / SEARCH_RECORD
    if not path.exists():
        return None
    try:
        return SearchRecord.from_dict(read_object(path))
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error}") from error


def write_record(record: SearchRecord, folder: Path) -> None:
    """Write the record to a run's folder, whole or not at all."""
    path = folder / SEARCH_RECORD
    with explained("write", path):
        data = canonical_json(record.to_dict(), indent=2) + b"\n"
        write_file(path, iter((memoryview(data),)))
