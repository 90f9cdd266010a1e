"""Many units of work on a cluster: in order, a bounded number at once, each until it is done."""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections import deque
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, Self

from dhilgt._version import __version__
from dhilgt.cluster.folder import JobFolder
from dhilgt.cluster.nodes import capacity, check_fits, pinned
from dhilgt.cluster.receive import receive
from dhilgt.cluster.transfer import Parcel, clear_local, pack
from dhilgt.cluster.unit_errors import failure, unit_error
from dhilgt.cluster.units import (
    Call,
    Outcome,
    Report,
    Unit,
    forget_places,
    noted_place,
    perform,
    warm_up,
)
from dhilgt.errors import DhilgtError
from dhilgt.utils.progress import progress_bar

MAX_ATTEMPTS = 4
"""How often a unit is begun before its worker's deaths stop the job."""

_SECONDS_BETWEEN_LOOKS = 5.0
_SECONDS_TO_CLEAR = 10.0
_CALLS_PER_WORKER = 2  # one runs, one waits at the node, so that no worker is idle


class _Running(NamedTuple):
    call: Call
    attempt: int


class Job:
    """Runs units on a cluster and keeps what is finished in a folder.

    A worker process or a machine that dies costs the units it was doing, which are begun again
    elsewhere, each at most `MAX_ATTEMPTS` times. An error inside a unit stops the job, as does
    Ctrl-C; in both cases, and if this process is killed, a job with the same folder goes on with
    the units that are not finished.

    Args:
        ray: The package, connected (see `session.connected`).
        folder: Of the job.
        num_cpus: Cores of a unit. A unit with threads of its own gets their number as an argument.
        memory: Bytes that a unit needs: no more units are run on a machine than fit. None: not
            counted.
        progress: Show a progress bar when standard error is a terminal.

    Attributes:
        num_cpus: Cores of a unit.
        seconds: What each unit took, of those that workers have done.

    Example::

        with connected("auto") as ray, JobFolder(path, about={"kind": "demo"}) as folder:
            with Job(ray, folder) as job:
                outcomes = job.run(units, title="searching", unit="hubs")
    """

    def __init__(
        self,
        ray: Any,
        folder: JobFolder,
        *,
        num_cpus: int = 1,
        memory: int | None = None,
        progress: bool = True,
    ) -> None:
        self._ray = ray
        self._folder = folder
        self.num_cpus = num_cpus
        self._memory = memory
        self._progress = progress
        self._task = ray.remote(perform)
        # Attempts are counted here: Ray repeats a task whose worker ran out of memory for ever.
        self._options = {"num_cpus": num_cpus, "max_retries": 0}
        if memory is not None:
            self._options["memory"] = memory
        self.seconds: dict[str, float] = {}
        self._parcels: dict[str, Parcel] = {}
        self._apart: set[str] = set()  # nodes that do not see the folder
        self._seeing: list[str] = []  # nodes that do
        self._turn = itertools.count()
        self._running: dict[Any, _Running] = {}  # calls under way, by reference
        self._given_up: list[Any] = []  # calls that were asked to end
        self._asked, self._limit = -math.inf, 0  # when, and how many calls may be under way
        self._warm_up()

    def run(
        self,
        units: Sequence[Unit],
        *,
        title: str,
        unit: str = "units",
        ahead: Sequence[Unit] = (),
    ) -> list[Outcome]:
        """Do the units that are not finished, and return the outcomes of all, in their order.

        Args:
            units: The units, in the order in which they are begun: heavy ones first.
            title: Name of the stage, for the progress bar.
            unit: What the weights of the units count.
            ahead: Units that the next stage will probably have. They are begun when workers would
                have nothing to do, not waited for, and given up if the next stage has not got them.

        Raises:
            DhilgtError: If a unit fails; it names the unit and the node.
            KeyboardInterrupt: On Ctrl-C; the message says how to go on.
        """
        names = [one.name for one in units]
        if len(set(names)) != len(names):
            raise ValueError("two units of a job have the same name")
        self._give_up_others({*names, *(one.name for one in ahead)})
        begun = {one.call.unit.name for one in self._running.values()}
        todo = deque(
            _Running(self._call(one), 1)
            for one in (*units, *ahead)
            if not self._is_done(one) and one.name not in begun
        )
        missing = {one.name for one in units if not self._is_done(one)}
        total = sum(one.weight for one in units)
        finished = sum(one.weight for one in units if one.name not in missing)
        with progress_bar(title, unit=unit, enabled=self._progress) as update:
            update(finished, total)
            with contextlib.closing(self._finished(todo, missing)) as ended:
                try:
                    for done, nodes in ended:
                        finished += done.weight
                        update(finished, total, note=f"{nodes} nodes" if nodes > 1 else "")
                except KeyboardInterrupt:
                    raise KeyboardInterrupt(f"interrupted; {self._kept()}") from None
        return [self._folder.done[name] for name in names]

    def here(self, unit: Unit) -> Outcome:
        """Do a unit in this process, unless it is finished, and return its outcome."""
        if not self._is_done(unit):
            self._do_here(unit)
        return self._folder.done[unit.name]

    def close(self) -> None:
        """Stop what is under way, and remove what was left on nodes that do not see the folder."""
        self._stop()
        clear = self._ray.remote(clear_local)
        refs = [
            clear.options(num_cpus=0, max_retries=0, **pinned(node)).remote(self._folder.name)
            for node in self._apart
        ]
        with contextlib.suppress(Exception):
            self._ray.wait(refs, num_returns=len(refs), timeout=_SECONDS_TO_CLEAR)
        self._parcels.clear()
        forget_places(self._folder.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _warm_up(self) -> None:
        """Start processes on the nodes while this one prepares the first units."""
        ready = self._ray.remote(warm_up).options(**self._options)
        for _ in range(self._most_calls() // _CALLS_PER_WORKER):
            ready.remote()

    # ---- the loop ----

    def _finished(
        self, todo: deque[_Running], missing: set[str]
    ) -> Generator[tuple[Unit, int], None, None]:
        """Yield each missing unit when it is finished, with the number of nodes at work."""
        try:
            while missing:
                self._submit(todo)
                for done in self._ended(todo, missing):
                    missing.remove(done.name)
                    yield done, len(self._seeing) + len(self._apart)
        except BaseException:
            self._stop()
            raise

    def _submit(self, todo: deque[_Running]) -> None:
        limit = self._most_calls()
        while todo and len(self._running) < limit:
            where: dict[str, Any] = {}
            if todo[0].call.unit.inputs is None and self._apart:
                if not self._seeing:
                    return  # done in this process
                where = pinned(self._seeing[next(self._turn) % len(self._seeing)])
            one = todo.popleft()
            options = {**self._options, **where}
            self._running[self._task.options(**options).remote(one.call)] = one

    def _ended(self, todo: deque[_Running], missing: set[str]) -> list[Unit]:
        """Wait for a call to end, and return the missing unit that is finished, if it is one."""
        if not self._running:
            unit = todo.popleft().call.unit
            self._do_here(unit)
            return [unit]
        ready, _ = self._ray.wait(
            list(self._running), num_returns=1, timeout=_SECONDS_BETWEEN_LOOKS
        )
        for ref in ready:
            one = self._running.pop(ref)
            needed = one.call.unit.name in missing
            try:
                again = self._collect(ref, one)
            except DhilgtError:
                if needed:
                    raise
                continue  # begun ahead: if it is needed later, it is begun again
            if again is not None:
                todo.appendleft(again)
            elif needed:
                return [one.call.unit]
        return []

    def _most_calls(self) -> int:
        """Return how many calls are under way at most; nodes come and go, so ask now and then."""
        now = time.monotonic()
        if now > self._asked + _SECONDS_BETWEEN_LOOKS:
            self._end_given_up()
            check_fits(self._ray, self.num_cpus, self._memory)
            self._limit = _CALLS_PER_WORKER * capacity(self._ray, self.num_cpus, self._memory)
            self._asked = now
        return self._limit

    def _do_here(self, unit: Unit) -> None:
        self._folder.record(unit.name, unit.function(self._folder.folder, **unit.arguments))

    def _collect(self, ref: Any, one: _Running) -> _Running | None:
        """Record the unit of a task that has ended; return it if it must be begun again."""
        unit = one.call.unit
        try:
            report: Report = self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            return self._after_failure(one, error)
        self._learn(report)
        if report.problem is not None:
            raise unit_error(unit, report.node, report.problem, self._kept())
        if report.outcome is None:
            return one._replace(call=self._with_parcels(one.call))
        receive(self._folder, unit.name, report)
        self.seconds[unit.name] = report.seconds
        self._folder.record(unit.name, report.outcome)
        return None

    def _learn(self, report: Report) -> None:
        node_id = report.node.node_id
        if not report.sees_folder and report.problem is None:
            self._apart.add(node_id)
        elif report.sees_folder and node_id not in self._seeing:
            self._seeing.append(node_id)

    def _with_parcels(self, call: Call) -> Call:
        names = call.unit.inputs
        if names is None:
            return call
        for name in names:
            if name not in self._parcels:
                self._parcels[name] = pack(self._ray, self._folder.folder, name)
        return call._replace(parcels=tuple(self._parcels[name] for name in names))

    def _after_failure(self, one: _Running, error: Exception) -> _Running:
        """Return the unit to be begun again, if a failure of the system is the reason.

        Raises:
            DhilgtError: If it is not, or the unit has been begun too often.
        """
        attempts_left = MAX_ATTEMPTS - one.attempt
        reason = failure(
            self._ray, one.call.unit, noted_place(one.call), error, attempts_left, self._kept()
        )
        if reason is not None:
            raise reason from error
        self._forget_dead_nodes()
        return one._replace(attempt=one.attempt + 1)

    def _forget_dead_nodes(self) -> None:
        alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}
        self._seeing = [node for node in self._seeing if node in alive]
        self._apart &= alive

    def _give_up_others(self, names: set[str]) -> None:
        """Cancel the calls of units that were begun ahead and are not among these."""
        for ref, one in list(self._running.items()):
            if one.call.unit.name not in names:
                del self._running[ref]
                self._given_up.append(ref)
                with contextlib.suppress(Exception):
                    self._ray.cancel(ref)  # not by force yet: its process serves the next unit

    def _stop(self) -> None:
        """Record what has ended meanwhile and cancel the rest."""
        running, self._running = self._running, {}
        refs = list(running)
        with contextlib.suppress(Exception):
            ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
            for ref in ready:
                with contextlib.suppress(DhilgtError):
                    self._collect(ref, running.pop(ref))
        self._given_up += running
        self._end_given_up()

    def _end_given_up(self) -> None:
        """End calls that were asked to end, if they have not: Ray may lose the question."""
        given_up, self._given_up = self._given_up, []
        for ref in given_up:
            with contextlib.suppress(Exception):
                self._ray.cancel(ref, force=True)

    # ---- calls and messages ----

    def _is_done(self, unit: Unit) -> bool:
        return unit.name in self._folder.done

    def _call(self, unit: Unit) -> Call:
        folder = self._folder
        return Call(unit, str(folder.folder), folder.token, folder.name, __version__)

    def _kept(self) -> str:
        count = len(self._folder.done)
        units = f"{count} finished unit{'' if count == 1 else 's'}"
        return f"repeat it to go on from the {units} in {self._folder.folder}"
