"""Random graphs by name, so that every process of a comparison means the same one."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from dhilgt import generate
from dhilgt.cache import Cache
from dhilgt.errors import ArtifactError, DatasetError, warn
from dhilgt.graph import Graph

PREFIX = "generated:"
_LEAST_NODES = 20
_KEPT_EDGES = 1_000_000  # from here on making a graph anew takes longer than reading it
_NODES = re.compile(r"[1-9]\d{0,8}")
_VALUE = re.compile(r"\d{1,9}")


@dataclass(frozen=True)
class Generated:
    """A graph of `dhilgt.generate`, all of it given by a few whole numbers.

    Attributes:
        nodes: Number of nodes.
        degree: Neighbours of a node on average: there are nodes * degree directed edges.
        features: Numbers per node.
        classes: Number of classes.
        seed: Of the graph.

    Example:
        >>> Generated(1000, degree=20).name
        'generated:1000:degree=20'
        >>> Generated.from_name("generated:1000:features=16:degree=20")
        Generated(nodes=1000, degree=20, features=16, classes=3, seed=0)
    """

    nodes: int
    degree: int = 4
    features: int = 8
    classes: int = 3
    seed: int = 0

    @property
    def name(self) -> str:
        """The shortest name that `from_name` reads as this graph."""
        options = [field for field in fields(self) if field.name != "nodes"]
        more = (
            f":{option.name}={getattr(self, option.name)}"
            for option in options
            if getattr(self, option.name) != option.default
        )
        return f"{PREFIX}{self.nodes}{''.join(more)}"

    @property
    def edges(self) -> int:
        """Edges, counted in both directions."""
        return self.nodes * self.degree

    @classmethod
    def from_name(cls, name: str) -> Generated:
        """Reads a name like "generated:1000" or "generated:1000:degree=20:features=64".

        Raises:
            DatasetError: If it is none.
        """
        nodes, *options = name.removeprefix(PREFIX).split(":")
        known = {field.name for field in fields(cls)} - {"nodes"}
        values: dict[str, int] = {}
        good = name.startswith(PREFIX) and bool(_NODES.fullmatch(nodes))
        for option in options:
            key, _, value = option.partition("=")
            good = good and key in known and key not in values and bool(_VALUE.fullmatch(value))
            if good:
                values[key] = int(value)
        if not good or int(nodes) < _LEAST_NODES:
            raise DatasetError(
                f"{name!r} is not a generated graph; write generated:NODES with at least "
                f"{_LEAST_NODES} nodes, and after it what is wanted of "
                f"{', '.join(f':{key}=NUMBER' for key in sorted(known))}"
            )
        return cls(int(nodes), **values)

    def graph(self) -> Graph:
        """Gives the graph, without a split; a large one is made once and kept in the cache.

        Raises:
            DatasetError: If there is no graph like that.
        """
        if self.edges < _KEPT_EDGES:
            return self._made()
        try:
            return Cache().graph(self.name, self._made, progress=False)
        except (ArtifactError, OSError) as error:
            warn(f"{self.name} cannot be kept for the next time ({error})")
            return self._made()

    def make_ready(self) -> None:
        """Makes a large graph and keeps it, so that `graph` need not."""
        if self.edges >= _KEPT_EDGES:
            self.graph()

    def _made(self) -> Graph:
        try:
            return generate(
                self.nodes,
                self.degree,
                num_classes=self.classes,
                num_features=self.features,
                seed=self.seed,
            )
        except ValueError as error:  # more edges than there is room for, no features, ...
            raise DatasetError(f"{self.name}: {error}") from error
