"""From a graph and settings to batches: labels, tokens, features, each made when first used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from dhilgt.classifier.cache import Cache
from dhilgt.errors import ArtifactError, GraphError, MemoryLimitError, argument, warn
from dhilgt.features.adjacency import adjacency
from dhilgt.features.ego_rows import ego_rows
from dhilgt.features.ego_vocabulary import EgoVocabulary
from dhilgt.features.from_graph import num_copies, with_hops
from dhilgt.features.known_classes import training_classes
from dhilgt.features.projection import Projection, is_projected, projected_width
from dhilgt.features.scale import AUTO, NONE, FeatureScale, check_scalable
from dhilgt.graph.graph import Graph
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.labels.orders import node_order
from dhilgt.labels.radius import AUTO as RADIUS_AUTO
from dhilgt.labels.radius import radius_choices
from dhilgt.loader.copies import probabilities
from dhilgt.loader.feature_rows import Features, is_mapped, open_features
from dhilgt.loader.loader import TokenLoader
from dhilgt.model.dhilgt import DHILGT
from dhilgt.settings.settings import Settings
from dhilgt.tokens.sampler import TokenSampler
from dhilgt.tokens.single import SingleRows, TokenSource
from dhilgt.tokens.tokens import Tokens
from dhilgt.training.clock import StageClock
from dhilgt.training.distributed import Group
from dhilgt.training.scoring import collect, run_model
from dhilgt.utils.memory import memory_for, memory_limit

_FEW_ENTRIES = 64  # entries of a sparse row up to which it stays sparse on a GPU
_WIDE = 256  # columns above which a CPU multiplies rows that are mostly zeros as sparse ones
_MOST_FILLED = 0.1  # fraction of entries up to which rows are mostly zeros
_MOST_DENSE_BYTES = 1 << 30
_MOST_AT_ONCE = 1 << 20  # nodes of a batch whose model passes messages between all nodes first


class Pipeline:
    """The stages between a graph and the model, for one set of settings.

    Args:
        graph: With features.
        settings: All settings.
        cache: Keeps labels and tokens between runs; None keeps them in memory only.
        progress: False for no display.
        clock: Measures the seconds of each stage; None for a new one.
        labels: Hub labels of the graph, if they exist already.
        tokens: Its token rows, made with these settings, if they exist already.
        features: Its features with their hops, scaled, if they exist already.
        scale: With a `feature_scale`, the statistics of the graph that a model was trained on.
            None: those of this graph.
        projection: With `hop_channels`, the main directions of the features that a model was
            trained on. None: those of this graph.
        known: With `label_inputs` or `class_inputs`, the class of each node that the model may see,
            -1 = it may not. None: those of the graph's training nodes.
        vocabulary: With inputs from neighbours, hubs or classes, the columns of a model that was
            trained on another graph, carried over to this one. None: those of this graph.
        vocabulary_digest: `EgoVocabulary.digest` of a model that was trained on this graph before.
        ego: The rows of these inputs, if they exist already.

    Example:
        >>> import dhilgt
        >>> graph = dhilgt.generate(100, 6, seed=1, num_features=8)
        >>> pipeline = Pipeline(graph, Settings(size=4, hops=1), cache=None, progress=False)
        >>> loader = pipeline.loader(np.arange(10), device=torch.device("cpu"), batch_size=10)
        >>> [tuple(part.shape) for part in next(iter(loader)).inputs[1:]], pipeline.num_channels
        ([(10, 4), (10, 4, 4)], 16)
    """

    def __init__(
        self,
        graph: Graph,
        settings: Settings,
        *,
        cache: Cache | None,
        progress: bool | Literal["auto"] = "auto",
        clock: StageClock | None = None,
        labels: HubLabels | None = None,
        tokens: TokenSource | None = None,
        features: Any = None,
        scale: FeatureScale | None = None,
        projection: Projection | None = None,
        known: NDArray[np.int64] | None = None,
        vocabulary: EgoVocabulary | None = None,
        vocabulary_digest: str | None = None,
        ego: Any = None,
    ) -> None:
        if graph.features is None:
            raise GraphError("the graph has no features; pass features= when you make it")
        check_scalable(graph.features, settings.feature_scale)  # before the long work
        for name, given in (("labels", labels), ("tokens", tokens)):
            if given is not None and given.graph_fingerprint != graph.fingerprint:
                raise GraphError(f"these {name} were made from another graph; pass its own")
        self.graph = graph
        self.settings = settings
        self.clock = StageClock() if clock is None else clock
        self._cache: Cache | None = None
        self.use_cache(cache)
        self._progress = progress
        self._labels = labels
        self._labels_passed = labels is not None
        self._tokens = tokens
        self._features = features
        self._open_features: dict[str, Features] | None = None
        self._scale = scale
        self._projection = projection
        self._known = known
        self._vocabulary = vocabulary
        self._vocabulary_digest = vocabulary_digest
        self._ego = ego
        self._adjacency: Features | None = None

    def use_cache(self, cache: Cache | None) -> None:
        """Keep labels and tokens in a cache from now on, or nowhere.

        Args:
            cache: The cache; None keeps them in memory only.
        """
        # Labels of a graph without edges are built faster than loaded.
        self._cache = cache if self.graph.num_edges else None

    # ---- the stages ----------------------------------------------------------------------------

    @property
    def labels(self) -> HubLabels:
        """The hub labels."""
        if self._labels is None:
            with (
                self.clock.measure("labels"),
                memory_for(
                    f"the hub labels of {self.graph.num_nodes:,} nodes",
                    "use a machine with more memory",
                ),
            ):
                self._labels = self._cached("labels") or HubLabels.build(
                    self.graph,
                    threads=self.settings.threads,
                    order=self.settings.order,
                    seed=self.settings.seed,
                    radius=self._radius_of_all(),
                    progress=bool(self._progress),
                )
        return self._labels

    @property
    def settled(self) -> Settings:
        """The settings, with the radius that "auto" chose in its place; makes the labels.

        A model that is used again, maybe with more memory, keeps its radius.
        """
        settings = self.settings
        if settings.radius != RADIUS_AUTO or not (settings.num_layers or settings.hub_inputs):
            return settings
        radius = self.labels.radius
        return settings if radius is None else replace(settings, radius=radius)

    def _radius_of_all(self) -> int | str | None:
        """Return a radius that is the same in all processes, which each build their labels."""
        group, radius = Group(), self.settings.radius
        if radius != RADIUS_AUTO or group.size == 1:
            return radius
        chosen: int | None = None
        with group.agreed():
            if group.is_main:
                order = node_order(self.graph, self.settings.order, self.settings.seed)
                limit = memory_limit(None) // group.size
                chosen = radius_choices(self.graph, order, limit)[0].radius
        return group.from_main(chosen)

    @property
    def tokens(self) -> TokenSource:
        """The token rows: stored, or drawn per batch where they are fresh or too large.

        A model without layers reads the node alone, in rows that need no labels.
        """
        if self._tokens is None and self.settings.num_layers == 0:
            self._tokens = SingleRows(self.graph)
        if self._tokens is None:
            labels = self.labels
            with (
                self.clock.measure("tokens"),
                memory_for(
                    f"the token rows of {self.graph.num_nodes:,} nodes",
                    f"lower {argument('size')} or {argument('copies')}",
                ),
            ):
                self._tokens = self._make_tokens(labels)
        return self._tokens

    @property
    def copies(self) -> int:
        """Rows per node; a model without layers needs no second one."""
        return self.settings.copies if self.settings.num_layers else 1

    @property
    def features(self) -> Any:
        """The features with their hops, scaled; the graph's own where nothing changes them."""
        if self._features is None:
            kind, features = self.settings.feature_scale, self.graph.features
            if kind == AUTO:
                scale = self.scale
                assert scale is not None, "there is one of this kind"
                with self.clock.measure("features"):
                    self._features = self._with_hops(scale.apply(features))
            elif self.settings.hops == 0 and kind == NONE and not self._is_projected:
                self._features = features
            else:
                with (
                    self.clock.measure("features"),
                    memory_for(
                        f"{self.num_channels:,} features of {self.graph.num_nodes:,} nodes",
                        f"lower {argument('hops')} or {argument('hop_channels')}, or use fewer "
                        "columns",
                    ),
                ):
                    features = self._with_hops(features)
                    if kind != NONE:
                        features = self._scale_of(features).apply(features)
                    self._features = features
        return self._features

    @property
    def scale(self) -> FeatureScale | None:
        """The statistics that features are scaled by; None without `feature_scale`."""
        kind = self.settings.feature_scale
        if self._scale is None and kind != NONE:
            with self.clock.measure("features"):
                features = self.graph.features
                self._scale_of(features if kind == AUTO else self._with_hops(features))
        return self._scale

    @property
    def scale_summary(self) -> str:
        """Which columns "auto" scales, in words; "" for none, and for other settings."""
        scale = self.scale if self.settings.feature_scale == AUTO else None
        columns = getattr(self.graph, "feature_columns", None)  # a table's; arrays have no names
        return "" if scale is None else scale.summary(columns and columns.names)

    def _with_hops(self, features: Any) -> Any:
        settings = self.settings
        return with_hops(
            self.graph,
            self._projected(features),
            settings.hops,
            settings.hop_kind,
            settings.hop_restart,
        )

    @property
    def projection(self) -> Projection | None:
        """The main directions of the features; None where `hop_channels` asks for none."""
        if self._projection is None and self._is_projected:
            scale = self.scale if self.settings.feature_scale == AUTO else None
            features = self.graph.features
            with self.clock.measure("features"):
                self._projected(features if scale is None else scale.apply(features))
        return self._projection

    @property
    def _is_projected(self) -> bool:
        return is_projected(self.graph.features, self.settings.hop_channels)

    def _projected(self, features: Any) -> Any:
        channels = self.settings.hop_channels
        if channels is None or not self._is_projected:
            return features
        if self._projection is None:
            group, fitted = Group(), None
            with group.agreed():
                if group.is_main:
                    fitted = Projection.fit(features, channels)
            self._projection = group.from_main(fitted)  # equal in all processes, to the last bit
        assert self._projection is not None, "the main process has it"
        return self._projection.apply(features)

    def _scale_of(self, features: Any) -> FeatureScale:
        if self._scale is None:
            self._scale = FeatureScale.fit(features, self.settings.feature_scale)
        return self._scale

    @property
    def known(self) -> NDArray[np.int64] | None:
        """The classes that the model may see, -1 = it may not; None without `label_inputs`."""
        return self._known_classes() if self.settings.label_inputs else None

    def _known_classes(self) -> NDArray[np.int64]:
        if self._known is None:
            self._known = training_classes(self.graph)
        return self._known

    @property
    def vocabulary(self) -> EgoVocabulary | None:
        """The neighbours, hubs and classes that are inputs; None without such settings."""
        settings = self.settings
        inputs = (settings.neighbor_inputs, settings.hub_inputs, settings.class_inputs)
        if self._vocabulary is None and any(inputs):
            labels = self.labels if settings.hub_inputs else None
            with self.clock.measure("features"):
                self._vocabulary = EgoVocabulary.of(
                    self.graph,
                    labels,
                    neighbors=settings.neighbor_inputs,
                    hubs=settings.hub_inputs,
                    num_classes=self.graph.num_classes if settings.class_inputs else 0,
                    table_rows=settings.table_rows,
                )
            if self._vocabulary_digest not in (None, self._vocabulary.digest):
                raise ArtifactError(
                    "the neighbours and hubs that the model learned are not those of its graph: "
                    "they were ranked in another way; train again, or use the version of dhilgt "
                    "that trained it"
                )
        return self._vocabulary

    @property
    def ego(self) -> Any:
        """The rows of these inputs (see `ego_rows`); None where there are none.

        A graph without edges has none, whatever the settings.
        """
        vocabulary = self.vocabulary
        if self._ego is None and vocabulary is not None and vocabulary.num_channels:
            labels = self.labels if self.settings.hub_inputs else None
            known = self._known_classes() if self.settings.class_inputs else None
            with (
                self.clock.measure("features"),
                memory_for(
                    f"the neighbours and hubs of {self.graph.num_nodes:,} nodes as inputs",
                    f"lower {argument('table_rows')}, or leave out {argument('hub_inputs')} or "
                    f"{argument('neighbor_inputs')}",
                ),
            ):
                self._ego = ego_rows(vocabulary, self.graph, labels, known)
        return self._ego

    @property
    def adjacency(self) -> Features | None:
        """The weights of the edges, opened once for all loaders; None without `message_layers`."""
        if self._adjacency is None and self.settings.message_layers:
            with (
                self.clock.measure("features"),
                memory_for(
                    f"the {self.graph.num_edges:,} edges of the graph as inputs",
                    f"leave out {argument('message_layers')}",
                ),
            ):
                self._adjacency = open_features(adjacency(self.graph), self.graph.num_nodes)
        return self._adjacency

    @property
    def num_channels(self) -> int:
        """Width of the features with their hops."""
        copies = num_copies(self.settings.hops, self.settings.hop_kind)
        return projected_width(self.graph.features.shape[1], self.settings.hop_channels) * copies

    def _make_tokens(self, labels: HubLabels) -> Tokens | TokenSampler:
        settings, options = self.settings, self.settings.token_options()
        if not settings.fresh:
            # Labels that were not made from the graph alone are no key for the cache.
            cached = None if self._labels_passed else self._cached("tokens")
            if cached is not None:
                return cached  # type: ignore[no-any-return]
            try:
                return Tokens.build(
                    labels,
                    copies=settings.copies,
                    threads=settings.threads,
                    progress=bool(self._progress),
                    **options,
                )
            except MemoryLimitError:
                pass  # a sampler draws the same rows, a batch at a time
        return TokenSampler(
            labels, threads=settings.threads, progress=bool(self._progress), **options
        )

    def _cached(self, kind: str) -> Any:
        """Return labels or tokens from the cache, None where there is no usable cache.

        The main process builds what is missing while the others wait; these then load it.
        """
        if self._cache is None:
            return None
        group, content, problem = Group(), None, ""
        radius: int | str | None = self.settings.radius
        with group.agreed():
            if group.is_main:
                content, problem = self._from_cache(kind, radius)
        chosen = content.radius if content is not None else None
        problem, chosen = group.from_main((problem, chosen))
        if not problem and not group.is_main:
            radius = chosen if radius == RADIUS_AUTO else radius
            content, problem = self._from_cache(kind, radius, verify=False)  # the main process did
        if problem:
            if group.is_main:
                warn(f"the cache is not used, {kind} are kept in memory ({problem})")
            return None
        return content

    def _from_cache(
        self, kind: str, radius: int | str | None, *, verify: bool = True
    ) -> tuple[Any, str]:
        """Return labels or tokens and "", or None and why the cache cannot be used."""
        assert self._cache is not None, "called only where there is one"
        settings = self.settings
        try:
            if kind == "labels":
                content: Any = self._cache.labels(
                    self.graph,
                    settings.order,
                    seed=settings.seed,
                    radius=radius,
                    threads=settings.threads,
                    progress=self._progress,
                    verify=verify,
                )
            else:
                content = self._cache.tokens(
                    self.labels,
                    settings.token_options(),
                    copies=settings.copies,
                    threads=settings.threads,
                    progress=self._progress,
                    verify=verify,
                )
        except (ArtifactError, OSError) as error:
            # A full or read-only disk is no reason not to train.
            return None, str(error) or type(error).__name__
        return content, ""

    # ---- batches -------------------------------------------------------------------------------

    def loader(
        self,
        nodes: NDArray[np.int64],
        classes: NDArray[np.int64] | None = None,
        *,
        device: torch.device,
        batch_size: int,
        training: bool = False,
    ) -> TokenLoader:
        """Return batches of some nodes.

        Args:
            nodes: Node indices, ascending and each once.
            classes: Class numbers of all nodes; None to predict.
            device: Where batches are put.
            batch_size: Nodes per batch and process.
            training: Shuffle and, with the setting `fresh`, draw new rows each epoch.
        """
        settings = self.settings
        all_nodes = len(nodes) == self.graph.num_nodes
        if not training:
            batch_size = self.scoring_batch_size(batch_size, len(nodes))
        return TokenLoader(
            self.tokens,
            self._features_for(device),
            classes,
            # None: the indices 0 and 1 of a small graph would read as a mask.
            nodes=None if all_nodes else nodes,
            batch_size=batch_size,
            shuffle=training,
            seed=settings.seed,
            device=device,
            fresh=training and settings.fresh and settings.num_layers > 0,
            copies=self.copies,
            known=self.known,
            ego=self.ego,
            adjacency=self.adjacency,
        )

    def scoring_batch_size(self, batch_size: int, num_nodes: int) -> int:
        """Return how many nodes are scored at a time.

        Args:
            batch_size: That of the training.
            num_nodes: How many are scored in all.
        """
        if not self.settings.message_layers or self.settings.num_layers:
            return batch_size
        # Every batch computes the messages of all nodes.
        return max(batch_size, min(num_nodes, _MOST_AT_ONCE))

    def _features_for(self, device: torch.device) -> Features:
        """Return the features as batches on a device take them, opened once for all loaders."""
        if self._open_features is None:
            self._open_features = {}
        if device.type not in self._open_features:
            features = _fast_form(self.features, device)
            self._open_features[device.type] = open_features(features, self.graph.num_nodes)
        return self._open_features[device.type]

    def hold_statistics(self, model: DHILGT, device: torch.device) -> None:
        """Let the norms of a trained model use the statistics of this graph from now on.

        Args:
            model: On the device, in evaluation mode.
            device: Where the model is.
        """
        adjacency = self.adjacency
        if adjacency is not None:
            x = self._features_for(device).to(device).whole()
            model.hold_statistics(x, adjacency.to(device).whole())

    def probabilities(
        self, model: torch.nn.Module, nodes: NDArray[np.int64], device: torch.device, batch: int
    ) -> NDArray[np.float32]:
        """Return a row of class probabilities for each of some distinct, ascending nodes.

        Args:
            model: On the device.
            nodes: Node indices.
            device: Where the model is.
            batch: Nodes per batch and process.
        """
        loader = self.loader(nodes, device=device, batch_size=batch)
        settings = self.settings
        with (
            self.clock.measure("inference", device),
            memory_for(
                f"a batch of {batch:,} nodes on {device}",
                f"use a machine with more memory, or train with a smaller {argument('size')}",
            ),
        ):
            part = run_model(model, loader, device, precision=settings.precision)
            collected = collect(part, Group(), everywhere=True)
        assert collected is not None, "every process has them"
        return probabilities(collected.logits).astype(np.float32)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy for another process, without what can be made again."""
        made = ("_tokens", "_features", "_ego", "_adjacency", "_labels", "_open_features")
        return self.__dict__ | dict.fromkeys(made) | {"_labels_passed": False}


def _fast_form(features: Any, device: torch.device) -> Any:
    """Return features in the form whose rows a device multiplies fastest: dense or sparse.

    A GPU multiplies dense rows several times as fast as sparse ones with many entries. A CPU takes
    the zeros of wide features for work to do, and draws dropout for each of them.
    """
    rows, columns = features.shape
    if hasattr(features, "tocsr"):
        few = features.nnz < _FEW_ENTRIES * rows or 4 * rows * columns > _MOST_DENSE_BYTES
        return features if device.type != "cuda" or few else features.toarray()
    if device.type == "cuda" or columns < _WIDE or is_mapped(features):
        return features
    if np.count_nonzero(features) > _MOST_FILLED * rows * columns:
        return features
    import scipy.sparse

    return scipy.sparse.csr_array(features)
