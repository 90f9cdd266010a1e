"""`NodeClassifier`: from a graph to predictions in two calls, `fit` and `predict`."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray

from dhilgt import metrics
from dhilgt.classifier import store
from dhilgt.classifier.auto.record import SearchRecord
from dhilgt.classifier.cache import Cache
from dhilgt.classifier.graph_inputs import as_graph, is_graph, same_nodes, scored_split
from dhilgt.classifier.inputs import (
    FitInputs,
    array_graph,
    graph_classes,
    is_array,
    matched_features,
    prepare,
)
from dhilgt.classifier.majority import majority_note
from dhilgt.classifier.members import Member, mean
from dhilgt.classifier.origin import (
    SETTINGS,
    check_origin,
    check_recipe,
    origin,
    with_radius_of_run,
)
from dhilgt.classifier.parameters import AUTO, Parameters
from dhilgt.classifier.pipeline import Pipeline
from dhilgt.classifier.planning import long_run
from dhilgt.classifier.projection_file import projection_of_run, write_projection
from dhilgt.classifier.sharing import share
from dhilgt.classifier.store import scale_of_run
from dhilgt.errors import GraphError, TrainingWarning, argument, warn
from dhilgt.features.known_classes import carried_over
from dhilgt.graph.feature_columns import FeatureColumns
from dhilgt.graph.graph import Graph
from dhilgt.labels.grow import quick_labels
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.loader.loader import TokenLoader
from dhilgt.model.dhilgt import DHILGT
from dhilgt.readers.new_nodes import graph_with_new_nodes
from dhilgt.settings.settings import Settings
from dhilgt.store.files import hash_file
from dhilgt.tokens.single import TokenSource
from dhilgt.training.batch_size import CPU_BATCH, auto_batch_size
from dhilgt.training.clock import StageClock
from dhilgt.training.distributed import Group, warnings_of_main
from dhilgt.training.run_folder import BUNDLE, RunFolder
from dhilgt.training.state import TrainResult
from dhilgt.training.trainer import Trainer
from dhilgt.utils.checks import as_array
from dhilgt.utils.devices import choose_device
from dhilgt.utils.memory import memory_for
from dhilgt.utils.progress import progress_note

if TYPE_CHECKING:
    from dhilgt.classifier.explanation import Explanation

_BEFORE_SEARCH = ("seed", "validation", "device", "metric")


class NodeClassifier(Parameters):
    """A classifier of a graph's nodes: labels, tokens, model and training in one object.

    With `recipe="auto"` a portfolio of settings is tried: candidates are trained rung by rung, the
    validation nodes decide which of them go on, and the best models are averaged. All of it is
    counted in epochs, so that a seed has one result; `budget` is a number of seconds after which no
    other training begins. `recipe="paper"` trains one model with the defaults of `Settings`.

    The other arguments are those of `Settings`, by name: one that is given holds in all candidates.
    `cache=False` keeps labels and tokens out of the cache, `progress=False` shows nothing. It
    follows scikit-learn's conventions (`get_params`, `set_params`, `clone`) and does not need it.

    Attributes:
        classes_: The user's classes, in ascending order.
        n_features_in_: Features per node.
        graph_: The graph it was trained on. Its labels are places in ``classes_`` (-1: unknown),
            its masks are the split.
        split_: Node indices of "train" and, where there are any, "val" and "test".
        members_: The models whose probabilities are averaged, with their settings; often one.
        search_: What `recipe="auto"` tried and why it chose what it did; None for "paper".
        model_: The model with the weights of the best epoch, in evaluation mode. This and the
            following are of the first member where there are several.
        result_: How training ended.
        scores_: Loss and metric by part of the split, of the average.
        settings_: The settings it was trained with.
        batch_size_: Nodes per step; the number chosen for "auto".

    Example:
        >>> import dhilgt
        >>> graph = dhilgt.generate(200, 8, seed=1, num_features=8, num_classes=3)
        >>> clf = NodeClassifier(recipe="paper", hidden_channels=16, epochs=3, progress=False)
        >>> clf.fit(graph).predict([0, 1, 2]).shape
        (3,)
        >>> clf.predict_proba().shape
        (200, 3)
    """

    classes_: NDArray[Any]
    n_features_in_: int
    graph_: Graph
    split_: dict[str, NDArray[np.int64]]
    members_: tuple[Member, ...]
    search_: SearchRecord | None
    model_: DHILGT
    result_: TrainResult
    scores_: dict[str, dict[str, float]]
    settings_: Settings
    batch_size_: int
    _pipeline: Pipeline
    # Of the last other graph, by "last": one pipeline for each member.
    _others: dict[str, tuple[Graph, bool, tuple[Pipeline, ...]]]
    _from_array: bool
    _resume_command: str | None = None  # set by the command line, for the message of a stop
    _resume_call: str = "fit(graph, run_dir={run_dir!r}, resume=True)"
    _cache_folder: Path | None = None  # of a worker of a cluster; None for the user's
    # Where another process can load it from, and the checksum of the bundle there.
    _saved_in: tuple[Path, str] | None = None

    # ---- training ------------------------------------------------------------------------------

    def fit(
        self,
        graph: Any,
        y: Any = None,
        *,
        train: Any = None,
        val: Any = None,
        run_dir: str | PathLike[str] | None = None,
        resume: bool = False,
        cluster: str | None = None,
    ) -> Self:
        """Train on a graph.

        Args:
            graph: A `Graph` with features, a PyG `Data`, or a 2-D array, sparse matrix or pandas
                frame of features, one row per node of a graph without edges.
            y: One class per node, or a dict from id to class; -1, NaN, None and "" stand for "not
                known". None takes the graph's own labels. With an array every row needs a class.
            train: Training nodes: a mask, ids, or (where ids are strings) indices. None takes the
                graph's mask, else all labelled nodes that are in no other part.
            val: Validation nodes, likewise. None takes the graph's mask where ``train`` is None
                too, else holds out a fraction of the training nodes, the same in every class.
            run_dir: Folder for checkpoints, scores and the trained classifier. None writes nothing.
            resume: Go on with the run in ``run_dir``; start one if there is none.
            cluster: Train on a Ray cluster: "auto", or its address. ``run_dir`` must then be in a
                folder that all machines see. None trains here.

        Raises:
            GraphError: If the data does not fit together.
            ConfigError: If a setting is wrong, or ``resume`` is asked for with other inputs or
                settings than the run began with.
            TrainingInterrupted: On Ctrl-C or SIGTERM; with ``run_dir`` the state is saved, and
                the message says how to go on.
        """
        settings = self._settings_before()
        metrics.metric(settings.metric)  # an unknown name is refused before any work

        def inputs() -> FitInputs:
            return prepare(
                graph, y, train=train, val=val, validation=settings.validation, seed=settings.seed
            )

        if cluster is not None:
            from dhilgt.cluster.training import fit_on_cluster

            fit_on_cluster(self, inputs, cluster=cluster, run_dir=run_dir, resume=resume)
            return self
        return self._fit_here(inputs, run_dir, resume)

    def _settings_before(self) -> Settings:
        """Return the settings; before a search, those that it does not choose."""
        searches = self._checked_recipe() == AUTO
        return self._settings(_BEFORE_SEARCH if searches else None)

    def _fit_here(
        self,
        make_inputs: Callable[[], FitInputs],
        run_dir: str | PathLike[str] | None,
        resume: bool,
    ) -> Self:
        """Train in this process, or in those that were started together."""
        searches, settings = self.recipe == AUTO, self._settings_before()
        group = Group()
        device = choose_device(settings.device)
        progress = self.progress if group.is_main else False
        with group.agreed(), warnings_of_main(group):
            if run_dir is not None and group.is_main:
                folder = RunFolder(run_dir)
                folder.open(resume=resume)  # as is a folder that cannot be used
                folder.close()
            inputs = make_inputs()
            if run_dir is not None:
                check_recipe(run_dir, searches)
            if resume and run_dir is not None and not searches:
                settings = with_radius_of_run(run_dir, settings)
            began: dict[str, Any] = {}
            if run_dir is not None and group.is_main and not searches:
                began = origin(inputs.graph, inputs.classes, settings)
                if resume:
                    check_origin(run_dir, began)
            scale = projection = None
            if resume and run_dir and not searches:
                scale = scale_of_run(run_dir, settings.feature_scale, inputs.graph.features)
                width = int(inputs.graph.features.shape[1])
                projection = projection_of_run(run_dir, width, settings.hop_channels)
        self._note_split(inputs, settings, device, progress)
        if searches:
            self._search(inputs, device, progress, run_dir, resume)
            return self
        if progress and not resume:
            announcement = long_run(inputs.graph, settings)
            if announcement is not None:
                warn(announcement, TrainingWarning)
        pipeline = Pipeline(
            inputs.graph,
            settings,
            cache=self._cache(),
            progress=progress,
            scale=scale,
            projection=projection,
        )
        if pipeline.scale_summary:
            progress_note(f"features: {pipeline.scale_summary}", enabled=progress)
        if pipeline.vocabulary is not None and pipeline.vocabulary.num_channels:
            progress_note(f"inputs: {pipeline.vocabulary.summary()}", enabled=progress)
        model = new_model(pipeline, len(inputs.classes)).to(device)
        settings = pipeline.settled
        if began:
            began[SETTINGS] = settings.to_dict()
        trainer = Trainer(
            model,
            settings.train_config(),
            run_dir,
            device,
            resume,
            progress=progress,
            resume_command=self._resume_command,
            resume_call=self._resume_call,
            origin=began,
        )
        loaders, batch_size = training_loaders(inputs, pipeline, model, trainer, run_dir, resume)
        for name, stage in pipeline.clock.to_dict().items():
            trainer.stages.add(name, stage["seconds"], stage["host_peak_bytes"])
        result = trainer.fit(loaders["train"], loaders.get("val"))
        pipeline.hold_statistics(model, device)
        del loaders["train"]  # it shuffles, and may draw fresh rows; scores need neither
        scores = {}
        for part, nodes in inputs.split.items():
            loader = loaders.get(part) or pipeline.loader(
                nodes, inputs.graph.labels, device=device, batch_size=batch_size
            )
            scores[part] = {name: float(value) for name, value in trainer.evaluate(loader).items()}
        pipeline.clock = trainer.stages
        member = Member(settings, pipeline, model.eval(), batch_size)
        self._set_fitted(inputs, (member,), result, scores)
        self._end_fit(group, run_dir)
        return self

    def _search(
        self,
        inputs: FitInputs,
        device: torch.device,
        progress: bool | Literal["auto"],
        run_dir: str | PathLike[str] | None,
        resume: bool,
    ) -> None:
        """Train by `recipe="auto"`."""
        from dhilgt.classifier.auto.start import begin

        search = begin(
            inputs,
            self._given(),
            device,
            cache=self._cache(),
            progress=progress,
            budget=self.budget,
            run_dir=None if run_dir is None else RunFolder(run_dir).path,
            resume=resume,
            goes_on=(self._resume_command, self._resume_call),
        )
        if search is None:  # it has ended already
            assert run_dir is not None, "it ended there"
            loaded = type(self).load(run_dir, device=self._given().get("device"))
            self._set_fitted(
                inputs, loaded.members_, loaded.result_, loaded.scores_, loaded.search_
            )
            self._saved_in = loaded._saved_in
            return
        folder = None if run_dir is None else RunFolder(run_dir)
        if folder is not None and search.is_main:
            folder.open(resume=True)  # no other process may train in it
        try:
            outcome = search.run()
        finally:
            if folder is not None:
                folder.close()
        outcome.members[0].pipeline.clock = outcome.clock
        self._set_fitted(inputs, outcome.members, outcome.result, outcome.scores, outcome.record)
        progress_note(outcome.record.sentence, enabled=progress)
        self._end_fit(Group(), run_dir)

    def _end_fit(self, group: Group, run_dir: str | PathLike[str] | None) -> None:
        """Warn of a result that is worth nothing, and write the classifier."""
        with group.agreed(), warnings_of_main(group):
            note = majority_note(self)
            if note:
                warn(note, TrainingWarning)
        with group.agreed():
            if run_dir is not None and group.is_main:
                store.write(self, run_dir, overwrite=True)
                self._note_saved(run_dir)

    def _set_fitted(
        self,
        inputs: FitInputs,
        members: tuple[Member, ...],
        result: TrainResult,
        scores: dict[str, dict[str, float]],
        search: SearchRecord | None = None,
    ) -> None:
        first = members[0]
        self.classes_ = inputs.classes
        self.n_features_in_ = int(inputs.graph.features.shape[1])
        self.graph_ = inputs.graph
        self.split_ = inputs.split
        self.members_ = members
        self.search_ = search
        self.model_ = first.model
        self.result_ = result
        self.scores_ = scores
        self.settings_ = first.settings
        self.batch_size_ = first.batch_size
        self._pipeline = first.pipeline
        self._others = {}
        self._saved_in = None
        self._from_array = inputs.from_array

    def _note_split(
        self,
        inputs: FitInputs,
        settings: Settings,
        device: torch.device,
        progress: bool | Literal["auto"],
    ) -> None:
        parts = ", ".join(f"{len(nodes):,} {name}" for name, nodes in inputs.split.items())
        held_out = " (val held out of train)" if inputs.held_out else ""
        progress_note(f"split: {parts}{held_out}", enabled=progress)
        if settings.device == "auto" and device.type == "cpu":
            progress_note("device: cpu, as no GPU was found", enabled=progress)

    def _cache(self) -> Cache | None:
        return Cache(self._cache_folder) if self.cache or self._cache_folder else None

    def _use_cache(self, folder: Path) -> None:
        """Keep labels and tokens in a folder, also where the user wants no cache."""
        self._cache_folder = folder
        for member in self.members_:
            member.pipeline.use_cache(self._cache())

    # ---- predicting ----------------------------------------------------------------------------

    def predict(
        self,
        nodes: Any = None,
        *,
        graph: Any = None,
        quick: bool = False,
        cluster: str | None = None,
    ) -> NDArray[Any]:
        """Return the most likely class of each node, as the user names classes.

        Args:
            nodes: Ids, in any order, or a mask; None for all nodes. A graph or a PyG `Data` here
                is ``graph``, all of its nodes. A classifier that was trained on an array takes
                rows of features here.
            graph: Another graph with the same features: grown since, or a new one. None is the
                one it was trained on. Columns of features are matched by name.
            quick: Reuse the hub labels of known nodes instead of building all of them; faster, and
                an approximation. For a ``graph`` that has grown.
            cluster: Predict on a Ray cluster: "auto", or its address. The classifier must have
                been saved in a folder that all machines see, as `fit` does in its ``run_dir``.
        """
        probabilities = self.predict_proba(nodes, graph=graph, quick=quick, cluster=cluster)
        predicted: NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return predicted

    def predict_proba(
        self,
        nodes: Any = None,
        *,
        graph: Any = None,
        quick: bool = False,
        cluster: str | None = None,
    ) -> NDArray[np.float32]:
        """Return the probability of each class, (nodes, classes) in the order of ``classes_``.

        Args:
            nodes: As for `predict`.
            graph: As for `predict`.
            quick: As for `predict`.
            cluster: As for `predict`.
        """
        self._check_fitted("predictions")
        pipelines, indices = self._nodes_to_predict(nodes, graph, quick)
        if not len(indices):
            return np.zeros((0, len(self.classes_)), np.float32)
        distinct, places = np.unique(indices, return_inverse=True)
        if cluster is not None:
            from dhilgt.cluster.prediction import member_probabilities

            shares = member_probabilities(self, distinct, pipelines, quick, cluster)
        else:
            shares = [
                member.probabilities(distinct, pipeline)
                for member, pipeline in zip(self.members_, pipelines, strict=True)
            ]
        of_distinct = mean(shares)
        probabilities: NDArray[np.float32] = of_distinct[places]
        return probabilities

    def score(self, nodes: Any = None, y: Any = None) -> float:
        """Return the score by the metric of the settings, accuracy by default.

        Args:
            nodes: As for `predict`. None takes the test nodes, where there are none those of
                validation, else of training. Of a graph or a PyG `Data`: the nodes of its test
                mask; without one, as for None on the graph of the training, and else all nodes
                with a class.
            y: Their classes; for a graph, one per node of it. None takes the graph's.
        """
        self._check_fitted("score")
        if nodes is not None and is_graph(nodes):
            return self._score_graph(nodes, y)
        if nodes is None and y is None:
            nodes = self.graph_.ids_of(self._held_out())
        probabilities = self.predict_proba(nodes)
        truth = self._known_classes(nodes) if y is None else self._places(as_array(y))
        return self._metric_of(truth, probabilities)

    def _score_graph(self, data: Any, y: Any) -> float:
        split = scored_split(data, self.split_.get("test"), self.graph_.num_nodes)
        graph = as_graph(data, directed=self.graph_.directed, split=split)
        codes, classes = graph_classes(graph, y)
        nodes = np.flatnonzero(codes >= 0)
        if "test" in (graph.masks or {}):
            nodes = np.flatnonzero(graph.masks["test"])  # type: ignore[index]
        elif graph.features is not None and same_nodes(graph, self.graph_):
            nodes = self._held_out()
        bare = nodes[codes[nodes] < 0]
        if bare.size:
            raise GraphError(
                f"node {graph.ids_of(int(bare[0]))!r} of the test mask has no class in y "
                f"({bare.size} such nodes); leave them out of the mask"
            )
        probabilities = self.predict_proba(graph.ids_of(nodes), graph=graph)
        return self._metric_of(self._places(classes[codes[nodes]]), probabilities)

    def _held_out(self) -> NDArray[np.int64]:
        """Return the nodes to score: of the test, else of validation, else of training."""
        return next(self.split_[name] for name in ("test", "val", "train") if name in self.split_)

    def _metric_of(self, truth: NDArray[np.int64], probabilities: NDArray[np.float32]) -> float:
        logits = np.log(np.maximum(probabilities, np.finfo(np.float32).tiny))
        return float(metrics.metric(self.settings_.metric)(truth, logits))

    def _known_classes(self, nodes: Any) -> NDArray[np.int64]:
        _, indices = self._nodes_to_predict(nodes, None, False)
        labels = self.graph_.labels
        if self._is_rows(nodes) or labels is None:
            raise GraphError("score needs y, the classes of these rows")
        bare = np.flatnonzero(labels[indices] < 0)
        if bare.size:
            raise GraphError(
                f"node {self.graph_.ids_of(int(indices[bare[0]]))!r} has no label "
                f"({bare.size} such nodes); leave them out, or pass y"
            )
        classes: NDArray[np.int64] = labels[indices]
        return classes

    def _places(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """Return the places of classes in ``classes_``."""
        y = y.reshape(-1)
        at = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        wrong = np.flatnonzero(self.classes_[at] != y)
        if wrong.size:
            raise GraphError(
                f"y[{wrong[0]}] = {y[wrong[0]]!r} is not among the {len(self.classes_)} classes "
                "this classifier knows"
            )
        return np.asarray(at, np.int64)

    def _is_rows(self, nodes: Any) -> bool:
        return hasattr(nodes, "tocsr") or (nodes is not None and as_array(nodes).ndim == 2)

    def _nodes_to_predict(
        self, nodes: Any, graph: Any, quick: bool
    ) -> tuple[tuple[Pipeline, ...], NDArray[np.int64]]:
        """Return each member's pipeline of the nodes' graph, and their indices in order."""
        if nodes is not None and is_graph(nodes):
            if graph is not None:
                raise GraphError(
                    f"nodes is a {type(nodes).__name__}, and graph is passed too; pass ids of "
                    "nodes, and one graph as graph="
                )
            nodes, graph = None, nodes
        if self._is_rows(nodes):
            if not self._from_array or graph is not None:
                raise GraphError(
                    f"nodes has shape {np.shape(nodes)}; pass ids of nodes, and new nodes with "
                    "their edges and features as graph="
                )
            rows = array_graph(nodes, self.n_features_in_, self.feature_columns_)
            nodes, graph = None, rows
        pipelines = self._own_pipelines() if graph is None else self._pipelines_of(graph, quick)
        known = pipelines[0].graph
        if nodes is None:
            return pipelines, np.arange(known.num_nodes)
        ids = as_array(nodes).reshape(-1)
        if ids.dtype == np.bool_:
            if len(ids) != known.num_nodes:
                raise GraphError(
                    f"the mask covers {len(ids)} nodes, the graph has {known.num_nodes}"
                )
            return pipelines, np.flatnonzero(ids)
        if not ids.size:
            return pipelines, np.empty(0, np.int64)
        if self._from_array and ids.dtype.kind not in "iu":
            array_graph(ids)  # raises, with what is wrong
        return pipelines, np.asarray(known.index_of(ids), np.int64)

    def _own_pipelines(self) -> tuple[Pipeline, ...]:
        pipelines = tuple(member.pipeline for member in self.members_)
        for at, pipeline in enumerate(pipelines):
            share(pipeline, pipelines[:at])
        return pipelines

    def _pipelines_of(self, data: Any, quick: bool) -> tuple[Pipeline, ...]:
        columns = self.feature_columns_
        if is_array(data):
            graph = array_graph(data, self.n_features_in_, columns)
        else:
            graph = as_graph(data, directed=self.graph_.directed, classes=False)
        if graph.features is None:
            raise GraphError("graph has no features; pass features= when you make it")
        graph = matched_features(graph, columns, self.n_features_in_)
        if same_nodes(graph, self.graph_):
            return self._own_pipelines()
        last = self._others.get("last")
        if last is not None and last[1] == quick and same_nodes(last[0], graph):
            return last[2]
        pipelines: list[Pipeline] = []
        for own in self._own_pipelines():
            settings, vocabulary = own.settled, own.vocabulary
            labels = None
            if quick and (settings.num_layers or settings.hub_inputs):
                labels = quick_labels(own.labels, self.graph_, graph)
            sees_classes = settings.label_inputs or settings.class_inputs
            pipeline = Pipeline(
                graph,
                settings,
                cache=self._cache(),
                progress=self.progress,
                clock=self._pipeline.clock,
                labels=labels,
                scale=own.scale,
                projection=own.projection,
                known=carried_over(self.graph_, graph) if sees_classes else None,
                vocabulary=vocabulary and vocabulary.carried_over(self.graph_, graph),
            )
            share(pipeline, pipelines)
            pipelines.append(pipeline)
        if graph.num_edges:
            self._others["last"] = graph, quick, tuple(pipelines)
        return tuple(pipelines)

    def graph_with(self, edges: Any = None, features: Any = None, *, nodes: Any = None) -> Graph:
        """Return the graph it was trained on with new nodes, to predict with ``graph=``.

        Args:
            edges: The edges of the new nodes: two arrays of ids, or a file. They join new nodes to
                old ones and to each other; a new node without an edge is allowed.
            features: Their features: a table with a column of ids, or an array or its file.
            nodes: Ids of the rows of an array; by default those that follow 0 to n - 1.

        Raises:
            GraphError: If a new node exists already, an end of an edge is neither an old node nor
                a new one, or the features do not fit.

        Example:
            >>> import dhilgt
            >>> graph = dhilgt.generate(200, 8, seed=1, num_features=8, num_classes=3)
            >>> clf = NodeClassifier(recipe="paper", hidden_channels=16, epochs=3, progress=False)
            >>> grown = clf.fit(graph).graph_with(([200, 201], [5, 200]), graph.features[:2])
            >>> clf.predict([200, 201], graph=grown).shape
            (2,)
        """
        self._check_fitted("graph to add nodes to")
        if features is None:
            raise GraphError("new nodes need features; pass a row for each")
        return graph_with_new_nodes(
            self.graph_, edges, features, nodes=nodes, threads=self.settings_.threads
        )

    def explain(self, node: Any) -> Explanation:
        """Return what the model saw of a node, and the effect of each member on the prediction.

        Args:
            node: Id of a node of the graph.

        Raises:
            GraphError: If there is no such node; the message names the nearest ids.
        """
        from dhilgt.classifier.explaining import explain

        self._check_fitted("prediction to explain")
        if len(self.members_) > 1:
            warn(
                f"the predictions are the average of {len(self.members_)} models; explained is the "
                "first of them"
            )
        return explain(self, node)

    # ---- parts of a fitted classifier ----------------------------------------------------------

    @property
    def feature_columns_(self) -> FeatureColumns | None:
        """The columns of features: names, kinds and codes; None where it learned from an array."""
        self._check_fitted("feature_columns_")
        return self.graph_.feature_columns

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns of features; there is no such attribute for an array."""
        columns = self.feature_columns_
        if columns is None:
            raise AttributeError("feature_names_in_: it was trained on features without names")
        return np.array([column.name for column in columns.columns], dtype=object)

    @property
    def hub_labels_(self) -> HubLabels:
        """The hub labels of the graph; after `load` they are built when first used."""
        self._check_fitted("hub_labels_")
        return self._pipeline.labels

    @property
    def tokens_(self) -> TokenSource:
        """The token rows of the graph; likewise."""
        self._check_fitted("tokens_")
        return self._pipeline.tokens

    @property
    def features_(self) -> Any:
        """The input features of the model: the graph's features with their hops, scaled."""
        self._check_fitted("features_")
        return self._pipeline.features

    @property
    def stages_(self) -> dict[str, dict[str, Any]]:
        """Seconds and peak memory of labels, tokens, epochs, evaluation and inference."""
        self._check_fitted("stages_")
        return self._pipeline.clock.to_dict()

    # ---- on disk -------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write the classifier to a folder: settings, model, graph and scores.

        Args:
            path: The folder; a run's folder or a new one.
            overwrite: Replace a classifier that is there.

        Raises:
            ArtifactError: If the folder holds something else or cannot be written.
        """
        self._check_fitted("model to save")
        store.write(self, path, overwrite=overwrite)
        self._note_saved(path)

    def _note_saved(self, path: str | PathLike[str]) -> None:
        folder = RunFolder(path).path
        self._saved_in = folder, hash_file(folder / BUNDLE)

    @classmethod
    def load(cls, path: str | PathLike[str], *, device: str | None = None) -> Self:
        """Read a classifier that `save` or `fit(run_dir=...)` wrote; nothing in it is executed.

        Args:
            path: The folder.
            device: Where to predict; None for the device in the saved settings.

        Raises:
            ArtifactError: If the folder does not hold a whole classifier of a known format.
        """
        saved = store.read(path)
        on_device = {} if device is None else {"device": device}
        clf = cls(**{**saved.given, **on_device}, cache=saved.cache)
        clock = StageClock(saved.stages)
        members: list[Member] = []
        for one in (saved, *saved.others):
            settings = Settings.from_dict({**one.settings, **on_device})
            pipeline = Pipeline(
                saved.inputs.graph,
                settings,
                cache=clf._cache(),
                progress=clf.progress,
                clock=clock,
                scale=one.scale,
                projection=one.projection,
                vocabulary_digest=one.vocabulary_digest,
            )
            members.append(Member(settings, pipeline, one.model, one.batch_size))
        clf._set_fitted(saved.inputs, tuple(members), saved.result, saved.scores, saved.search)
        clf._note_saved(path)
        return clf

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy, without what can be made again."""
        return self.__dict__ | ({"_others": {}} if "_others" in self.__dict__ else {})


# ---- parts of training that the search for settings uses too -----------------------------------


def training_loaders(
    inputs: FitInputs,
    pipeline: Pipeline,
    model: DHILGT,
    trainer: Trainer,
    run_dir: str | PathLike[str] | None,
    resume: bool,
    batch_size: int | None = None,
) -> tuple[dict[str, TokenLoader], int]:
    """Return the loaders of training and validation, and the batch size.

    The scale and the projection of the features are written to the folder of the run.
    """
    settings, device, classes = pipeline.settings, trainer.device, inputs.graph.labels
    wanted = settings.batch_size if batch_size is None else batch_size
    size = wanted if isinstance(wanted, int) else CPU_BATCH
    train = pipeline.loader(
        inputs.split["train"], classes, device=device, batch_size=size, training=True
    )
    train.class_names = tuple(map(str, inputs.classes.tolist()))  # for warnings
    if wanted == "auto":
        earlier = size_of_run(run_dir) if resume else None
        size = earlier or auto_batch_size(model, train, trainer.config, device)
        train = train.with_batch_size(size)
    with trainer.group.agreed():
        if run_dir is not None and trainer.group.is_main:
            store.write_scale(RunFolder(run_dir).path, pipeline.scale)
            write_projection(RunFolder(run_dir).path, pipeline.projection)
    loaders = {"train": train}
    if "val" in inputs.split:
        loaders["val"] = pipeline.loader(
            inputs.split["val"], classes, device=device, batch_size=size
        )
    return loaders, size


def new_model(pipeline: Pipeline, num_classes: int, seed: int | None = None) -> DHILGT:
    """Return a model with initial weights from a seed; the global random state is untouched.

    Args:
        pipeline: Makes its inputs.
        num_classes: Number of classes.
        seed: None for that of the settings.
    """
    settings = pipeline.settings
    vocabulary = pipeline.vocabulary
    columns = 0 if vocabulary is None else vocabulary.num_channels
    groups = len(vocabulary.groups) if vocabulary is not None and columns else 0
    config = settings.model_config(pipeline.num_channels, num_classes, columns, groups)
    with (
        torch.random.fork_rng(devices=[]),
        memory_for(
            f"a model with {columns:,} learned vectors of {settings.hidden_channels} numbers",
            f"lower {argument('hidden_channels')}"
            + (f" or {argument('table_rows')}" if columns else ""),
        ),
    ):
        torch.manual_seed(settings.seed if seed is None else seed)
        return DHILGT(**config.to_dict())


def size_of_run(run_dir: str | PathLike[str] | None) -> int | None:
    """Return the batch size that the run in a folder began with."""
    if run_dir is None:
        return None
    values = RunFolder(run_dir).checkpoints.values()
    size = None if values is None else values.get("batch_size")
    return size if isinstance(size, int) else None
