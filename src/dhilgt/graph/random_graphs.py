"""Random graphs with hubs, communities and classes, from a seed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError, argument, setting
from dhilgt.graph import checks
from dhilgt.graph.graph import Graph

_UNIT = 1024  # weights are whole multiples of 1/1024: sums of integers are the same everywhere
_DRAWS = 1 << 20  # edges drawn at a time
_ROUNDS_BY_WEIGHT = 8
_MAX_ROUNDS = 200
_LOCAL = 0.8  # fraction of a light node's same-class edges that stay in its community


def generate(
    num_nodes: int,
    average_degree: float,
    *,
    num_classes: int = 5,
    homophily: float = 0.7,
    power: float = 2.5,
    num_communities: int | None = None,
    num_features: int = 32,
    feature_noise: float = 1.0,
    seed: int = 0,
    directed: bool = False,
) -> Graph:
    """Return a random graph with hubs, communities, classes and features.

    The model: every node belongs to a community of uneven size, every community to a class. A node
    has a weight with a power-law tail. An edge takes its first end by weight; with probability
    `homophily` its other end has the same class (mostly the same community, unless the first end
    is too heavy for it), otherwise another class, by weight again. Edges are drawn until there are
    enough distinct ones, so the average degree and the fraction of edges within classes are met
    exactly. Light nodes may stay isolated. A node's features are its class's centre
    (uniform in -1 to 1) plus noise. Ids are shuffled. Only integers and uniform numbers of PCG64
    are used, and no threads: a seed gives the same graph everywhere.

    Args:
        num_nodes: Number of nodes.
        average_degree: Neighbours per node, or outgoing edges per node if directed.
        num_classes: Number of classes, about equal in size.
        homophily: Fraction of edges whose ends have the same class.
        power: Exponent of the tail of the degree distribution, above 2.
        num_communities: At least num_classes; one per hundred nodes if None.
        num_features: Number of features per node; 0 for none.
        feature_noise: Standard deviation of the noise.
        seed: Any whole number of at least 0.
        directed: Return a directed graph.

    Example:
        >>> generate(1000, 8, seed=1)
        Graph(nodes=1,000, edges=4,000, undirected, features=32, classes=5)
    """
    drawn = draw(
        num_nodes,
        average_degree,
        num_classes=num_classes,
        homophily=homophily,
        power=power,
        num_communities=num_communities,
        seed=seed,
        directed=directed,
    )
    features = class_features(drawn.rng, drawn.labels, num_classes, num_features, feature_noise)
    return Graph.from_edges(
        drawn.sources,
        drawn.targets,
        num_nodes=len(drawn.labels),
        directed=directed,
        features=features,
        labels=drawn.labels,
    )


@dataclass(frozen=True, slots=True)
class Drawn:
    """Edges and classes, and the generator in its state after the draw."""

    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    labels: NDArray[np.int64]
    rng: np.random.Generator


def draw(
    num_nodes: int,
    average_degree: float,
    *,
    num_classes: int,
    homophily: float,
    power: float,
    num_communities: int | None,
    seed: int,
    directed: bool = False,
    class_weights: Sequence[int] | None = None,
) -> Drawn:
    """Return distinct edges and the class of each node; for the arguments see `generate`.

    The classes have sizes in proportion to `class_weights`, or equal ones if it is None.
    """
    n = checks.num_nodes(num_nodes)
    if num_communities is None:
        num_communities = max(num_classes, n // 100)
    _check(n, average_degree, num_classes, homophily, power, num_communities, seed)
    rng = np.random.Generator(np.random.PCG64(seed))
    layout = _lay_out(rng, n, num_classes, num_communities, power, class_weights)

    num_edges = round(n * average_degree * (1 if directed else 0.5))
    within = round(num_edges * homophily)
    _check_room(layout, within, num_edges - within, directed)
    keys = np.concatenate(
        [
            _draw_edges(rng, layout, within, True, directed),
            _draw_edges(rng, layout, num_edges - within, False, directed),
        ]
    )
    new_index = rng.permutation(n)  # of node i of the layout
    classes = np.empty(n, dtype=np.int64)
    classes[new_index] = layout.node_class
    return Drawn(new_index[keys // n], new_index[keys % n], classes, rng)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Nodes sorted by class, then community, as intervals of their weights on a line."""

    ends: NDArray[np.int64]  # node i covers ends[i] - its weight to ends[i]
    community: NDArray[np.int64]  # of each node
    community_bounds: NDArray[np.int64]  # nodes of community k: bounds[k] to bounds[k + 1]
    node_class: NDArray[np.int64]
    class_bounds: NDArray[np.int64]

    @property
    def num_nodes(self) -> int:
        return len(self.ends)


def _check(
    n: int,
    average_degree: float,
    num_classes: int,
    homophily: float,
    power: float,
    num_communities: int,
    seed: int,
) -> None:
    rules: list[tuple[bool, str, Any, str]] = [
        (average_degree >= 0, "average_degree", average_degree, "at least 0"),
        (1 <= num_classes <= n, "num_classes", num_classes, f"1 to {setting('num_nodes', n)}"),
        (0 <= homophily <= 1, "homophily", homophily, "0 to 1"),
        (power > 2, "power", power, "above 2"),
        (
            num_classes <= num_communities <= n,
            "num_communities",
            num_communities,
            f"{setting('num_classes', num_classes)} to {setting('num_nodes', n)}",
        ),
        (seed >= 0, "seed", seed, "at least 0"),
    ]
    for good, name, value, bounds in rules:
        if not good:
            raise GraphError(f"{argument(name, value)}; pass {bounds}")


def _lay_out(
    rng: np.random.Generator,
    n: int,
    num_classes: int,
    num_communities: int,
    power: float,
    class_weights: Sequence[int] | None,
) -> _Layout:
    # Community sizes differ by a factor of up to ten; class k gets every C-th community.
    sizes = np.minimum((1 - rng.random(num_communities)) ** -0.7, 10.0)
    size_ends = np.cumsum((sizes * _UNIT).astype(np.int64))
    class_of = np.arange(num_communities) % num_classes
    if class_weights is not None:
        class_of = _assign_classes(np.diff(size_ends, prepend=0), class_weights)
    drawn = _pick(rng, size_ends, np.zeros(n, np.int64), np.full(n, size_ends[-1]))
    drawn[:num_classes] = np.arange(num_classes)  # no class is empty, however small the graph
    counts = np.bincount(drawn, minlength=num_communities)
    order = np.argsort(class_of, kind="stable")
    community = np.repeat(np.arange(num_communities), counts[order])
    node_class = np.repeat(class_of[order], counts[order])

    weights = (1 - rng.random(n)) ** (-1 / (power - 1))
    weights = np.minimum(weights, float(n))  # a degree cannot exceed the number of nodes
    return _Layout(
        ends=np.cumsum((weights * _UNIT).astype(np.int64)),
        community=community,
        community_bounds=np.searchsorted(community, np.arange(num_communities + 1)),
        node_class=node_class,
        class_bounds=np.searchsorted(node_class, np.arange(num_classes + 1)),
    )


def _assign_classes(sizes: NDArray[np.int64], class_weights: Sequence[int]) -> NDArray[np.int64]:
    """Return a class per community so that the sizes of classes are close to their weights."""
    weights = np.asarray(class_weights, dtype=np.int64)
    total = int(weights.sum())
    missing = weights * int(sizes.sum())  # in units of size / total, so that all are integers
    class_of = np.empty(len(sizes), dtype=np.int64)
    for community, size in enumerate(sizes.tolist()):
        # The first communities get one class each, so that no class is empty.
        chosen = community if community < len(weights) else int(missing.argmax())
        class_of[community] = chosen
        missing[chosen] -= size * total
    return class_of


def _check_room(layout: _Layout, within: int, across: int, directed: bool) -> None:
    sizes = np.diff(layout.class_bounds)
    pairs_within = int((sizes * (sizes - 1)).sum()) // (1 if directed else 2)
    n = layout.num_nodes
    pairs_across = n * (n - 1) // (1 if directed else 2) - pairs_within
    for count, room, place in ((within, pairs_within, "within"), (across, pairs_across, "across")):
        if count > room // 2 and count > 0:
            raise GraphError(
                f"{count} edges {place} classes are asked for, but {n} nodes have only {room} such"
                f" pairs and at most half can be drawn; lower {argument('average_degree')} or "
                f"change {argument('homophily')}"
            )


def _pick(
    rng: np.random.Generator, ends: NDArray[np.int64], low: Any, high: Any
) -> NDArray[np.int64]:
    """Return for each pair of bounds the interval that a uniform point between them hits."""
    points: NDArray[np.int64] = low + (rng.random(len(low)) * (high - low)).astype(np.int64)
    return np.searchsorted(ends, points, side="right")


def _draw_edges(
    rng: np.random.Generator, layout: _Layout, num_edges: int, same_class: bool, directed: bool
) -> NDArray[np.int64]:
    """Return `num_edges` distinct edges as source * n + target, ascending."""
    n = layout.num_nodes
    keys = np.empty(0, dtype=np.int64)
    # If hubs leave too few new pairs to draw by weight, the rest is drawn uniformly.
    uniform = replace(layout, ends=np.arange(1, n + 1) * _UNIT)
    for turn in range(_MAX_ROUNDS):
        missing = num_edges - len(keys)
        if missing <= 0:
            break
        current = layout if turn < _ROUNDS_BY_WEIGHT else uniform
        fresh = [keys]
        for start in range(0, missing, _DRAWS):
            count = min(_DRAWS, missing - start)
            u, v = _draw_pairs(rng, current, count, same_class, local=turn < _ROUNDS_BY_WEIGHT)
            u, v = u[u != v], v[u != v]
            if not directed:
                u, v = np.minimum(u, v), np.maximum(u, v)
            fresh.append(u * n + v)
        keys = np.concatenate(fresh)
        keys.sort(kind="stable" if turn else None)  # the stable sort merges sorted runs
        keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys
    if len(keys) < num_edges:
        raise GraphError(
            f"only {len(keys)} of {num_edges} edges could be drawn; "
            f"lower {argument('average_degree')}"
        )
    return keys


def _draw_pairs(
    rng: np.random.Generator, layout: _Layout, count: int, same_class: bool, local: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    ends = layout.ends
    starts = np.concatenate([[0], ends])
    u = _pick(rng, ends, np.zeros(count, np.int64), np.full(count, ends[-1]))
    own_class = layout.node_class[u]
    low = starts[layout.class_bounds[own_class]]
    high = starts[layout.class_bounds[own_class + 1]]
    if same_class:
        if local:
            own = layout.community[u]
            near_low = starts[layout.community_bounds[own]]
            near_high = starts[layout.community_bounds[own + 1]]
            room = near_high - near_low
            weight = ends[u] - starts[u]
            # A hub would soon be linked to its whole community: heavy nodes link outside more.
            stay = rng.random(count) * (room + 3 * weight) < _LOCAL * room
            low, high = np.where(stay, near_low, low), np.where(stay, near_high, high)
        return u, _pick(rng, ends, low, high)
    width = high - low
    points = (rng.random(count) * (ends[-1] - width)).astype(np.int64)
    points += np.where(points >= low, width, 0)  # the line without the own class
    return u, np.searchsorted(ends, points, side="right")


def class_features(
    rng: np.random.Generator,
    labels: NDArray[np.int64],
    num_classes: int,
    num_features: int,
    noise: float,
) -> NDArray[np.float32] | None:
    """Return features around a centre per class; unlabelled nodes have only noise.

    Args:
        rng: The generator.
        labels: Class of each node, -1 if unknown.
        num_classes: Number of classes.
        num_features: Number of features per node; None is returned for 0.
        noise: Standard deviation around the centre.
    """
    if num_features == 0:
        return None
    centres = np.zeros((num_classes + 1, num_features), dtype=np.float32)  # the last for class -1
    centres[:-1] = rng.random((num_classes, num_features)) * 2 - 1
    features = np.empty((len(labels), num_features), dtype=np.float32)
    for start in range(0, len(labels), 65_536):
        part = features[start : start + 65_536]
        # A sum of four uniform numbers has variance 1/3 and is nearly normal; unlike a normal
        # distribution it needs no libm, whose last digits depend on the machine.
        part[:] = -2
        for _ in range(4):
            part += rng.random(part.shape, dtype=np.float32)
        part *= np.float32(noise * 3**0.5)
        part += centres[labels[start : start + 65_536]]
    return features
