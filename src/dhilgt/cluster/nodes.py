"""The machines of a cluster: what they can run."""

from __future__ import annotations

from typing import Any

from dhilgt.errors import ConfigError
from dhilgt.utils.memory import format_bytes


def capacity(ray: Any, num_cpus: int, memory: int | None) -> int:
    """Return how many units the cluster can run at once.

    Args:
        ray: The package, connected.
        num_cpus: Cores of a unit.
        memory: Bytes of a unit; None if they are not counted.
    """
    return sum(_room(node, num_cpus, memory) for node in _alive(ray))


def cores_each(ray: Any, num_units: int, memory: int | None) -> int:
    """Return how many cores each unit of a stage can have, if all are to run at the same time.

    No more than the smallest machine has: the units must fit whatever machine is left.

    Args:
        ray: The package, connected.
        num_units: Units of the stage.
        memory: Bytes of a unit; None if they are not counted.
    """
    each = capacity(ray, 1, memory) // max(1, num_units)
    smallest = min((int(_resource(node, "CPU")) for node in _fitting(ray, memory)), default=1)
    return max(1, min(each, smallest))


def check_fits(ray: Any, num_cpus: int, memory: int | None) -> None:
    """Raise if no machine of the cluster can run a unit, for which Ray would wait for ever.

    Args:
        ray: The package, connected.
        num_cpus: Cores of a unit.
        memory: Bytes of a unit; None if they are not counted.

    Raises:
        ConfigError: With what the machines have.
    """
    if capacity(ray, num_cpus, memory):
        return
    found = [
        f"{node['NodeManagerHostname']}: {_cores(_resource(node, 'CPU'))}, "
        f"{format_bytes(int(_resource(node, 'memory')))}"
        for node in _alive(ray)
    ]
    need = _cores(num_cpus) + ("" if memory is None else f" and {format_bytes(memory)}")
    raise ConfigError(
        f"no node of the cluster has {need} for one unit of work ({'; '.join(found)}); ask for "
        "less, or add a node"
    )


def pinned(node_id: str) -> dict[str, Any]:
    """Return the options of a task that runs on one node only.

    Args:
        node_id: Of the node.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node_id, soft=False)}


def _cores(count: float) -> str:
    return f"{count:g} core{'' if count == 1 else 's'}"


def _alive(ray: Any) -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _fitting(ray: Any, memory: int | None) -> list[dict[str, Any]]:
    return [node for node in _alive(ray) if _room(node, 1, memory)]


def _resource(node: dict[str, Any], name: str) -> float:
    return float(node["Resources"].get(name, 0.0))


def _room(node: dict[str, Any], num_cpus: int, memory: int | None) -> int:
    room = int(_resource(node, "CPU")) // num_cpus
    return room if memory is None else min(room, int(_resource(node, "memory")) // memory)
