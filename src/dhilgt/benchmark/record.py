"""The record of a cell: what was asked for, how it ended, what it measured. One line of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from dhilgt.benchmark.lines import LINE_HASH, check_line, digest, signed_line
from dhilgt.benchmark.running.data import DataInfo
from dhilgt.benchmark.running.grid import OWN, Cell
from dhilgt.benchmark.running.recipe import Changes
from dhilgt.errors import ArtifactError

FORMAT = 2
_READABLE = (1, FORMAT)
_RUN_HASH = "run_hash"
OK, OOM, OVER, FAILED = "ok", "oom", "over-budget", "failed"
_REQUIRED = ("system", "data", "seed", "variant", "recipe", "status", "key")
_VERSIONS = ("dhilgt", "python", "torch", "numpy", "cuda", "device", "gpus")
_ONLY_WHERE_SET = {"search": None, "chosen": None, "command": None, "split": OWN}
_LONGEST_MESSAGE = 2000
_CUDA_OUT = ("out of memory", "alloc_failed", "cannot allocate memory")


@dataclass(frozen=True)
class SearchSummary:
    """The search whose best settings a cell was trained with.

    Attributes:
        trials: Settings that were tried.
        trials_ok: Those that ended well.
        seed: Of the split they were tried on.
        chosen: Number of the best trial; None if none ended well.
        val_score: Its validation score.
        changes: Its settings.
        seconds: Of all trials together.
        seeds: Of all splits that were searched on; empty in older lines, which had one.
        trainings: Of all trials on these splits; 0 in older lines.
    """

    trials: int
    trials_ok: int
    seed: int
    chosen: int | None
    val_score: float | None
    changes: Changes | None
    seconds: float
    seeds: tuple[int, ...] = ()
    trainings: int = 0

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> SearchSummary:
        """Return the summary that a record holds under "search"."""
        known = _present(cls, values)
        changes = known["changes"]
        known["seeds"] = tuple(known.get("seeds", ()))
        return cls(**{**known, "changes": None if changes is None else Changes(**changes)})


@dataclass(frozen=True)
class Costs:
    """Time and memory of a cell, and the circumstances they were measured under.

    Attributes:
        load_seconds: Of reading and cleaning the graph.
        precompute_seconds: Of everything done once before training.
        epoch_seconds: Of an epoch, the median.
        first_epoch_seconds: Of the first epoch, which pays for what is made once.
        inference_seconds: Of predicting the test nodes.
        inference_device: Where they were predicted.
        host_before_bytes: Peak memory of the process before the graph was loaded.
        host_peak_bytes: Peak memory of the process.
        gpu_peak_bytes: Peak memory allocated on the GPU in any stage.
        stages: What `StageClock.to_dict` returns.
        environment: Versions and hardware.
        jobs: Cells that the run allowed at once.
        beside: Most other cells that ran at the same time.
        own_process: Whether the process ran no cell before this one.
    """

    load_seconds: float | None = None
    precompute_seconds: float | None = None
    epoch_seconds: float | None = None
    first_epoch_seconds: float | None = None
    inference_seconds: float | None = None
    inference_device: str | None = None
    host_before_bytes: int | None = None
    host_peak_bytes: int | None = None
    gpu_peak_bytes: int | None = None
    stages: dict[str, dict[str, Any]] | None = None
    environment: dict[str, Any] | None = None
    jobs: int = 1
    beside: int = 0
    own_process: bool = False

    def seconds(self, stage: str) -> float | None:
        """Return the seconds of "load", "precompute", "epoch", "first_epoch" or "inference"."""
        value: float | None = getattr(self, f"{stage}_seconds")
        return value

    @property
    def ran_alone(self) -> bool:
        """Whether the cell had the machine to itself: no other beside it, all of its cores."""
        return not self.beside and self.jobs == 1


@dataclass(frozen=True)
class Record:
    """What became of a cell.

    `to_json` and `from_json` give and take the flat object that a results file holds. A value can
    also be read by its name in that object, as in ``record["epoch_seconds"]``.

    Attributes:
        cell: What was asked for; its settings are those that a search chose, if one was made.
        key: Of the cell as it was asked for, before the search.
        metrics: Scores of the dataset; the first one ranks systems.
        standin_for: The graph that a generated one stands in for.
        budget_seconds: Seconds that the cell was allowed; None for any time.
        status: "ok", "oom", "over-budget" or "failed".
        message: Why it did not end well.
        scores: By part ("val", "test") and metric; None where a score is undefined.
        score_notes: Why scores are undefined.
        val_score: The validation score that chose the epoch.
        chosen_by: The metric of that score.
        epochs: Epochs trained.
        best_epoch: The one that was chosen.
        out_of_time: Whether the time given to the training ended it.
        costs: Time and memory.
        total_seconds: Of everything once the graph was loaded.
        num_parameters: Trained numbers.
        rows: Mean contents of token rows; None for systems without them.
        split_hash: Equal for equal splits.
        graph: Size and fingerprint of the graph.
        settings: All settings of the system.
        training: All settings of its training.
        search: The search before the training; None without one.
        chosen: What a system that chooses its own settings tried and chose; None for others.
        command: The command that ran the cell; None where it was run from Python.
        format: Of the line it was read from. Lines of format 1 have no hash.
        extra: Values of a line that this version does not know.
        timed_apart: Whether this is a short training that was run for its times only, placed in the
            row of longer ones. Never written.
    """

    cell: Cell
    key: str
    metrics: tuple[str, ...] = ()
    standin_for: str | None = None
    budget_seconds: float | None = None
    status: str = FAILED
    message: str = ""
    scores: dict[str, dict[str, float | None]] = field(default_factory=dict)
    score_notes: dict[str, str] = field(default_factory=dict)
    val_score: float | None = None
    chosen_by: str | None = None
    epochs: int | None = None
    best_epoch: int | None = None
    out_of_time: bool | None = None
    costs: Costs = field(default_factory=Costs)
    total_seconds: float | None = None
    num_parameters: int | None = None
    rows: dict[str, float] | None = None
    split_hash: str | None = None
    graph: dict[str, Any] | None = None
    settings: dict[str, Any] | None = None
    training: dict[str, Any] | None = None
    search: SearchSummary | None = None
    chosen: dict[str, Any] | None = None
    command: str | None = None
    format: int = FORMAT
    extra: dict[str, Any] = field(default_factory=dict)
    timed_apart: bool = False

    @classmethod
    def of(cls, cell: Cell, data: DataInfo, budget: float | None) -> Record:
        """Return the record of a cell of which nothing is known but what was asked for.

        Args:
            cell: The cell.
            data: Its dataset.
            budget: Seconds that it may take.

        Example:
            >>> from dhilgt.benchmark.running.data import about
            >>> record = Record.of(Cell("gcn", "cora", 3), about("cora"), 60.0)
            >>> record.cell.system, record.status, record.scores
            ('gcn', 'failed', {})
        """
        return cls(cell, cell.key, data.metrics, data.standin_for, budget)

    @classmethod
    def from_json(cls, values: Any) -> Record:
        """Return the record of a line; what an older version did not write has its default.

        Args:
            values: The parsed line.

        Raises:
            ArtifactError: If it is no line of `dhilgt bench`, or of another format.
        """
        if not isinstance(values, dict) or any(name not in values for name in _REQUIRED):
            raise ArtifactError("is not a result of dhilgt bench; choose another file")
        if values.get("format") not in _READABLE:
            raise ArtifactError(
                f"has format {values.get('format')!r}, this version reads {FORMAT}; use the "
                "version that wrote it"
            )
        cell = {**_present(Cell, values), "changes": Changes(**values.get("changes", {}))}
        own = _present(cls, {**values, "metrics": tuple(values.get("metrics", ()))})
        if own.get("search") is not None:
            own["search"] = SearchSummary.from_json(own["search"])
        extra = {name: value for name, value in values.items() if name not in _NAMES}
        costs = Costs(**_present(Costs, values))
        return cls(**{**own, "cell": Cell(**cell), "costs": costs, "extra": extra})

    def to_json(self) -> dict[str, Any]:
        """Return plain values by name, as a results file holds them."""
        values = asdict(self)
        for part in ("cell", "costs", "extra"):
            values |= values.pop(part)
        del values["timed_apart"]
        if self.search is not None and not self.search.seeds:
            del values["search"]["seeds"], values["search"]["trainings"]
        for name, default in _ONLY_WHERE_SET.items():
            if values[name] == default:
                del values[name]
        return {**values, "metrics": list(self.metrics)}

    def __getitem__(self, name: str) -> Any:
        return self.to_json()[name]

    @property
    def run_hash(self) -> str:
        """16 hexadecimal digits: equal for equal settings, split, graph, versions and device."""
        environment = self.costs.environment or {}
        run = {
            "key": self.key,
            "settings": self.settings,
            "training": self.training,
            "split": self.split_hash,
            "graph": (self.graph or {}).get("fingerprint"),
            "versions": {name: environment.get(name) for name in _VERSIONS},
        }
        return digest("dhilgt run 1", run)

    def line(self) -> bytes:
        """Return the line of a results file: the values of `to_json`, signed.

        Example:
            >>> import json
            >>> values = json.loads(Record(Cell("gcn", "cora", 3), "").line())
            >>> checked_line(values)["seed"], len(values["line_hash"])
            (3, 16)
        """
        return signed_line({**self.to_json(), _RUN_HASH: self.run_hash})

    @property
    def ok(self) -> bool:
        """Whether the cell ended well."""
        return self.status == OK

    @property
    def whole(self) -> bool:
        """Whether the cell ended well, and its training by its own rule, not by a clock."""
        return self.ok and not self.out_of_time

    def test_score(self, metric: str | None = None) -> float | None:
        """Return the score on the test nodes; None where there is none.

        Args:
            metric: Its name; None for the one that ranks systems.
        """
        return self.scores.get("test", {}).get(metric or self.metrics[0])

    def after_error(self, error: BaseException) -> Record:
        """Return this record with the status and message of an error.

        Example:
            >>> record = Record(Cell("gcn", "cora", 3), "")
            >>> [record.after_error(error).status for error in (
            ...     MemoryError(), RuntimeError("CUDA error: out of memory"), ValueError("wrong"))]
            ['oom', 'oom', 'failed']
        """
        text = f"{type(error).__name__}: {error}".strip()
        full = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
        full = full or (
            isinstance(error, RuntimeError) and any(word in text.lower() for word in _CUDA_OUT)
        )
        return replace(self, status=OOM if full else FAILED, message=text[:_LONGEST_MESSAGE])

    def is_final(self, budget: float | None) -> bool:
        """Return whether the cell need not be run again.

        A failed cell is tried again, so is one over budget that now has more time, and one that ran
        out of memory beside others.

        Args:
            budget: Seconds that it may take now.
        """
        if self.status == OVER:
            before = self.budget_seconds
            return before is not None and budget is not None and budget <= before
        return self.ok or (self.status == OOM and not self.costs.beside)


def checked_line(values: Any) -> Any:
    """Return the values of a line that were not changed since it was written.

    Lines of format 1 have no hash and are returned as they are; so is what is no line at all, which
    `Record.from_json` refuses.

    Args:
        values: The parsed line.

    Raises:
        ArtifactError: If the hash of the line is not that of its values.
    """
    if isinstance(values, dict) and values.get("format") == FORMAT:
        check_line(values)
    return values


def _present(kind: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return {one.name: values[one.name] for one in fields(kind) if one.name in values}


_NAMES = {one.name for kind in (Cell, Costs, Record) for one in fields(kind)} | {
    _RUN_HASH,
    LINE_HASH,
}
