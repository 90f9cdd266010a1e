"""Attributes of the nodes of a NetworkX graph, by name, as features and classes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dhilgt.errors import GraphError, argument
from dhilgt.graph.node_ids import as_objects
from dhilgt.graph.table import Column
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


def feature_columns(nodes: Attributes, names: str | Sequence[str]) -> list[Column]:
    """Return attributes as columns with one row per node; a vector takes several columns.

    Args:
        nodes: Attributes of every node.
        names: Of the attributes to take, in this order.

    Raises:
        GraphError: If a node lacks one of them, or values of one attribute differ in kind.

    Example:
        >>> people = {"ann": {"age": 3, "at": (0, 1)}, "bob": {"age": 5, "at": (2, 2)}}
        >>> [(one.name, one.values.tolist()) for one in feature_columns(people, ["age", "at"])]
        [('age', [3, 5]), ('at[0]', [0, 2]), ('at[1]', [1, 2])]
    """
    columns: list[Column] = []
    for name in [names] if isinstance(names, str) else names:
        values = _values(nodes, name, "features")
        absent = [node for node, value in zip(nodes, values, strict=True) if value is _ABSENT]
        if absent:
            raise GraphError(
                f"{len(absent):,} of {len(values):,} nodes have no attribute {name!r}, the first "
                f"is {absent[0]!r}; set it for all, as in networkx.set_node_attributes"
            )
        columns += _columns(name, list(nodes), values)
    return columns


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


def _columns(name: str, nodes: list[Any], values: list[Any]) -> list[Column]:
    present = np.zeros(len(nodes), np.bool_)
    if all(isinstance(value, str) for value in values):
        return [Column(name, as_objects(values), present)]
    rows = [as_array(value).reshape(-1) for value in values]
    for node, row, value in zip(nodes, rows, values, strict=True):
        if row.dtype.kind not in "biuf":
            raise GraphError(
                f"attribute {name!r} of node {node!r} is {value!r}, which is no number as that of "
                "others is; give numbers, vectors or words to all nodes"
            )
        if len(row) != len(rows[0]):
            raise GraphError(
                f"attribute {name!r} has {len(rows[0])} numbers for node {nodes[0]!r} and "
                f"{len(row)} for node {node!r}; give every node as many"
            )
    numbers = np.stack(rows)
    if numbers.shape[1] == 1:
        return [Column(name, numbers[:, 0], present)]
    return [Column(f"{name}[{at}]", one, present) for at, one in enumerate(numbers.T)]
