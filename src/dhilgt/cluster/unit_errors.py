"""Errors of a job: which unit, on which node, and the way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dhilgt import errors
from dhilgt._version import __version__
from dhilgt.cluster.units import Node, Problem, Unit
from dhilgt.errors import DhilgtError

# Of Ray's message about a task that could not be imported; the worker never began it.
_MISSING = re.compile(r"No module named '([^']+)'")
_ADDRESS = re.compile(r"\bip=([^)\s]+)")


def unit_error(unit: Unit, node: Node, problem: Problem, kept: str) -> DhilgtError:
    """Return the error about a unit that raised one, of the same class if it is one of ours.

    Args:
        unit: The unit.
        node: Where it ran.
        problem: What it reported.
        kept: What is finished, and how to go on.
    """
    what = f"{unit.name} failed on node {node}"
    if problem.full_disk:
        what = f"the disk of node {node} is full, at {unit.name}"
    error = _class_of(problem.kind)(f"{what}: {problem.text}; {kept}")
    error.add_note(problem.trace)
    return error


def failure(
    ray: Any, unit: Unit, node: Node | None, error: Exception, attempts_left: int, kept: str
) -> DhilgtError | None:
    """Return the error about a unit that Ray could not finish; None if it can be begun again.

    Args:
        ray: The package.
        unit: The unit.
        node: Where it was begun, if that is known.
        error: Of Ray.
        attempts_left: How often it may be begun again.
        kept: What is finished, and how to go on.
    """
    kinds = ray.exceptions
    what = f"{unit.name}{'' if node is None else f' on node {node}'}"
    reason = " ".join(str(error).split())
    if isinstance(error, (kinds.ObjectStoreFullError, kinds.OutOfDiskError)):
        return DhilgtError(
            f"{what}: the object store and the disk under Ray's temporary folder there are full "
            f"({reason}); free some space on that node, or start Ray there with a larger "
            f"--object-store-memory; {kept}"
        )
    if missing := _MISSING.search(reason):
        address = _ADDRESS.search(reason)
        place = f"the node {address[1]}" if address else "a node"
        return DhilgtError(
            f"{place} has no module {missing[1]}; install there what is installed here, with "
            f"dhilgt {__version__}; {kept}"
        )
    lost = (
        kinds.WorkerCrashedError,
        kinds.NodeDiedError,
        kinds.OutOfMemoryError,
        kinds.LocalRayletDiedError,
        kinds.ObjectLostError,
        kinds.TaskUnschedulableError,
        kinds.RpcError,
    )
    if not isinstance(error, lost):
        return DhilgtError(f"{what} failed: {reason}; {kept}")
    if attempts_left > 0:
        return None
    return DhilgtError(
        f"{what}: the worker died each time, the last time with {type(error).__name__} "
        f"({reason}); look at the memory of that node and at Ray's log there; {kept}"
    )


def _class_of(kind: str) -> Callable[[str], DhilgtError]:
    """Return the class of an error of this package, by name; its base for any other."""
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, DhilgtError):
        return found
    return DhilgtError
