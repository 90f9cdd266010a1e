"""Attributes of the nodes of a NetworkX graph, by name, as features and classes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError, argument
from dhilgt.utils.checks import as_array, name_hint

_ABSENT = object()

Attributes = Mapping[Any, Mapping[str, Any]]  # by node


def are_names(values: Any) -> bool:
    """Return whether these are names of attributes rather than data: a string or several."""
    if isinstance(values, str):
        return True
    return (
        isinstance(values, (list, tuple))
        and len(values) > 0
        and all(isinstance(one, str) for one in values)
    )


def features(nodes: Attributes, names: str | Sequence[str]) -> NDArray[np.float32]:
    """Return the attributes as features, one row per node; vectors take several columns.

    Args:
        nodes: Attributes of every node.
        names: Of the attributes to take, in this order.

    Raises:
        GraphError: If a node lacks one of them, or has what is neither number nor vector.

    Example:
        >>> features({"a": {"age": 3, "at": (0, 1)}, "b": {"age": 5, "at": (2, 2)}}, ["age", "at"])
        array([[3., 0., 1.],
               [5., 2., 2.]], dtype=float32)
    """
    names = [names] if isinstance(names, str) else names
    parts = []
    for name in names:
        values = _values(nodes, name, "features")
        absent = [node for node, value in zip(nodes, values, strict=True) if value is _ABSENT]
        if absent:
            raise GraphError(
                f"{len(absent):,} of {len(values):,} nodes have no attribute {name!r}, the first "
                f"is {absent[0]!r}; set it for all, as in networkx.set_node_attributes"
            )
        parts.append(_numbers(name, list(nodes), values))
    return np.concatenate(parts, axis=1)


def classes(nodes: Attributes, name: str) -> list[Any]:
    """Return the attribute of each node as its class, None where it has none.

    Args:
        nodes: Attributes of every node.
        name: Of the attribute.

    Example:
        >>> classes({1: {"club": "Hi"}, 2: {}}, "club")
        ['Hi', None]
    """
    return [None if value is _ABSENT else value for value in _values(nodes, name, "labels")]


def _values(nodes: Attributes, name: str, wanted_for: str) -> list[Any]:
    values = [attributes.get(name, _ABSENT) for attributes in nodes.values()]
    if all(value is _ABSENT for value in values):
        known = dict.fromkeys(key for attributes in nodes.values() for key in attributes)
        hint = name_hint(name, map(str, known)) if known else "they have no attributes at all"
        raise GraphError(f"{argument(wanted_for, name)}: no node has this attribute; {hint}")
    return values


def _numbers(name: str, nodes: list[Any], values: list[Any]) -> NDArray[np.float32]:
    """Return the values of an attribute as columns of numbers."""
    rows = [as_array(value).reshape(-1) for value in values]
    for node, row, value in zip(nodes, rows, values, strict=True):
        if row.dtype.kind not in "biuf":
            raise GraphError(
                f"attribute {name!r} of node {node!r} is {value!r}, which is no number; pass "
                "attributes that are numbers or vectors as features"
            )
        if len(row) != len(rows[0]):
            raise GraphError(
                f"attribute {name!r} has {len(rows[0])} numbers for node {nodes[0]!r} and "
                f"{len(row)} for node {node!r}; give every node as many"
            )
    return np.stack(rows).astype(np.float32)
