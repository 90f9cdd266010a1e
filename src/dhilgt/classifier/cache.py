"""The cache of labels, tokens and graphs, keyed by what they were made from."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from dhilgt._version import __version__
from dhilgt.errors import ArtifactError, warn
from dhilgt.graph import store as graph_store
from dhilgt.graph.graph import Graph
from dhilgt.labels import store as labels_store
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.labels.orders import BY_ID, DRAWN, ORDERS, node_order, tie_breakers
from dhilgt.labels.radius import (
    AUTO,
    RadiusChoice,
    checked_radius,
    first_that_fits,
    may_not_fit,
    radius_choices,
)
from dhilgt.store.artifact import Artifact
from dhilgt.store.files import canonical_json, hash_file, write_file
from dhilgt.store.manifest import MANIFEST
from dhilgt.store.target import BuildLock
from dhilgt.tokens import store as tokens_store
from dhilgt.tokens.spec import TokenSpec
from dhilgt.tokens.tokens import Tokens
from dhilgt.utils.memory import format_bytes, memory_limit
from dhilgt.utils.progress import progress_bar, progress_note

KINDS = ("labels", "tokens", "graphs")
VARIABLE = "DHILGT_CACHE"
_SECONDS_BETWEEN_LOOKS = 0.2

_T = TypeVar("_T")


@dataclass(frozen=True)
class CacheEntry:
    """An entry of the cache.

    Attributes:
        kind: "labels", "tokens" or "graphs".
        key: Its name: a hash of what it was made from.
        num_bytes: Its size on disk.
        made: When it was made, in seconds since 1970.
        last_used: When it was last used.
        path: Its folder.
        whole: False for the remains of an interrupted build.
    """

    kind: str
    key: str
    num_bytes: int
    made: float
    last_used: float
    path: Path
    whole: bool


class Cache:
    """A folder of labels, tokens and generated graphs, keyed by content and never by path.

    The key is a hash of the graph's fingerprint, the parameters and the version of the format:
    the same graph under another name is found again, and a graph that changed by one edge is not.
    Several processes may use one cache; one builds, the others wait for it. Every byte of an entry
    is checked before it is handed out; a damaged entry is made again, with a warning.

    Args:
        root: The folder. None takes $DHILGT_CACHE, else the user's cache folder.
        cluster: A Ray cluster on which labels and tokens are made ("auto" or an address), all of
            whose machines see the folder; None for this machine.

    Example:
        >>> import tempfile
        >>> cache = Cache(tempfile.mkdtemp())
        >>> graph = Graph.from_edges([0, 1, 2], [1, 2, 3])
        >>> labels = cache.labels(graph)
        >>> cache.labels(graph).distance(0, 3)
        3
        >>> [entry.kind for entry in cache.entries()]
        ['labels']
        >>> len(cache.clear())
        1
    """

    def __init__(
        self, root: str | os.PathLike[str] | None = None, *, cluster: str | None = None
    ) -> None:
        self.root = cache_folder() if root is None else Path(root).expanduser().resolve()
        self.cluster = cluster

    # ---- labels, tokens, graphs ----------------------------------------------------------------

    def labels(
        self,
        graph: Graph,
        order: str = "degree",
        *,
        seed: int = 0,
        radius: int | str | None = None,
        threads: int | None = None,
        progress: bool | Literal["auto"] = "auto",
        verify: bool = True,
    ) -> HubLabels:
        """Return the labels of a graph, built now or from the cache; on disk and mapped.

        Args:
            graph: The graph.
            order: Ranking of the nodes by name, one of `dhilgt.labels.orders.ORDERS`.
            seed: Of the orders that are random.
            radius: As for `HubLabels.build`. With "auto" the radius that is chosen belongs to the
                key, not the word.
            threads: Threads to use; None for every core.
            progress: False for no display.
            verify: False where another process has just checked the entry.
        """
        if order not in ORDERS:
            raise ValueError(f"order = {order!r}; choose {' or '.join(map(repr, ORDERS))}")
        facts: dict[str, Any] = {
            "graph": graph.fingerprint,
            "order": order,
            "format": labels_store.FORMAT,
        }
        if order.endswith(BY_ID):
            facts["order"] = order.removesuffix(BY_ID)  # as earlier versions called it
        elif order != "random":
            # The fingerprint of a graph does not depend on ids, but ties are broken by them.
            facts["ties"] = hashlib.sha256(tie_breakers(graph.ids).tobytes()).hexdigest()
        if order in DRAWN:
            facts["seed"] = seed

        def load(path: Path) -> HubLabels:
            labels = HubLabels.load(path)
            Artifact.open(path).check_fingerprint(graph.fingerprint)
            return labels

        def make(choice: RadiusChoice) -> HubLabels:
            def build(path: Path) -> HubLabels:
                made = HubLabels.build(
                    graph,
                    threads=None if self.cluster else threads,
                    order=order,
                    seed=seed,
                    radius=choice.radius,
                    progress=bool(progress),
                    cluster=self.cluster,
                    path=path if self.cluster else None,
                )
                if self.cluster is None:
                    made.save(path, threads=threads)
                return made

            key = facts if choice.radius is None else {**facts, "radius": choice.radius}
            return self._get("labels", key, load, build, progress, verify)

        wanted = checked_radius(radius)
        choices = [RadiusChoice(None if wanted == AUTO else wanted)]
        if wanted == AUTO and not self.path_of("labels", facts).exists():
            limit = memory_limit(None)
            if may_not_fit(graph.num_nodes, limit):
                choices = radius_choices(graph, node_order(graph, order, seed), limit)
        return first_that_fits(choices, make).with_ids(graph.ids)

    def tokens(
        self,
        labels: HubLabels,
        options: Mapping[str, Any],
        *,
        copies: int = 1,
        threads: int | None = None,
        progress: bool | Literal["auto"] = "auto",
        verify: bool = True,
    ) -> Tokens:
        """Return the token rows of all nodes, built now or from the cache.

        An interrupted build is continued.

        Args:
            labels: The labels of the graph.
            options: Fields of `TokenSpec`.
            copies: Rows per node.
            threads: Threads to use; None for every core.
            progress: False for no display.
            verify: False where another process has just checked the entry.
        """
        spec = TokenSpec(**options).to_dict()
        facts = {
            "graph": labels.graph_fingerprint,
            "labels": labels.fingerprint,
            "spec": spec,
            "copies": copies,
            "format": tokens_store.FORMAT,
        }

        def build(path: Path) -> Tokens:
            cluster = self.cluster if labels.is_sharded else None
            return Tokens.build(
                labels,
                copies=copies,
                threads=threads if cluster is None else None,
                path=path,
                resume=True,
                progress=bool(progress),
                cluster=cluster,
                **spec,
            )

        def load(path: Path) -> Tokens:
            return Tokens.load(path, labels=labels)

        return self._get("tokens", facts, load, build, progress, verify)

    def graph(
        self,
        name: str,
        make: Callable[[], Graph],
        *,
        progress: bool | Literal["auto"] = "auto",
    ) -> Graph:
        """Return a graph determined by its name, made now or from the cache; features are mapped.

        Args:
            name: All that determines the graph, such as the arguments of a generator.
            make: Returns the graph.
            progress: False for no display.

        Example:
            >>> import tempfile
            >>> cache = Cache(tempfile.mkdtemp())
            >>> cache.graph("a line", lambda: Graph.from_edges([0, 1], [1, 2]))
            Graph(nodes=3, edges=2, undirected)
        """
        facts = {"name": name, "version": __version__, "format": graph_store.FORMAT}

        def build(path: Path) -> Graph:
            graph_store.save_graph(make(), path)
            return graph_store.load_graph(path)

        return self._get("graphs", facts, graph_store.load_graph, build, progress)

    def _get(
        self,
        kind: str,
        facts: Mapping[str, Any],
        load: Callable[[Path], _T],
        build: Callable[[Path], _T],
        progress: bool | Literal["auto"],
        verify: bool = True,
    ) -> _T:
        path = self.path_of(kind, facts)
        with self._locked(path, f"{kind}: waiting for another process that makes them", progress):
            content = self._loaded(path, load, progress, verify)
            if content is not None:
                progress_note(f"{kind}: reused from the cache", enabled=progress)
            else:
                content = build(path)
            self._mark_used(path)
        return content

    def path_of(self, kind: str, facts: Mapping[str, Any]) -> Path:
        """Return the folder of the entry with these facts, whether it exists or not.

        Args:
            kind: "labels", "tokens" or "graphs".
            facts: Everything that determines its bytes, as plain values.
        """
        digest = hashlib.sha256(canonical_json({"kind": kind, **facts})).hexdigest()
        return self.root / kind / digest[:32]

    @contextlib.contextmanager
    def _locked(self, path: Path, note: str, progress: bool | Literal["auto"]) -> Iterator[None]:
        """Let one process at a time load or build an entry; the others wait."""
        path.parent.mkdir(parents=True, exist_ok=True)
        gate = _gate_of(path)
        lock: BuildLock | None = None
        while lock is None:
            try:
                lock = BuildLock(gate)
            except ArtifactError:  # held by another
                progress_note(note, enabled=progress)
                note, progress = "", False  # shown once
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        try:
            yield
        finally:
            lock.release()

    def _loaded(
        self,
        path: Path,
        load: Callable[[Path], _T],
        progress: bool | Literal["auto"],
        verify: bool,
    ) -> _T | None:
        if not path.exists():
            return None
        try:
            _check_seal(path)
            artifact = Artifact.open(path)
            if artifact.is_large and verify:  # what is not is checked whole as it is loaded
                with progress_bar(f"checking {path.parent.name}", unit="bytes") as update:
                    artifact.verify(update if progress else None)
            return load(path)
        except ArtifactError as error:
            warn(f"a damaged entry of the cache is made again ({error})")
            remove(path)
            return None

    def _mark_used(self, path: Path) -> None:
        """Note that an entry was used, and the checksum of its manifest."""
        stamp = _stamp_of(path)
        with contextlib.suppress(OSError):
            if _sealed_with(path):
                stamp.touch()
            else:
                write_file(stamp, iter((memoryview(hash_file(path / MANIFEST).encode()),)))

    # ---- entries -------------------------------------------------------------------------------

    def entries(self) -> list[CacheEntry]:
        """Return all entries, the last used first."""
        entries = []
        for kind in KINDS:
            folder = self.root / kind
            if not folder.is_dir():
                continue
            for path in folder.iterdir():
                if path.is_dir() and not path.name.startswith("."):
                    with contextlib.suppress(OSError):  # removed meanwhile by another process
                        entries.append(_entry(kind, path))
        return sorted(entries, key=lambda entry: (-entry.last_used, entry.kind, entry.key))

    def clear(self, *, older_than: float | None = None) -> list[CacheEntry]:
        """Remove entries and return them; an entry that is being built stays.

        Args:
            older_than: Remove only those not used for this many seconds. None: all.
        """
        now, removed = time.time(), []
        for entry in self.entries():
            if older_than is not None and now - entry.last_used <= older_than:
                continue
            try:
                gate = BuildLock(_gate_of(entry.path))
            except ArtifactError:  # held by its maker
                continue
            remove(entry.path)
            gate.release()
            removed.append(entry)
        return removed

    def __repr__(self) -> str:
        entries = self.entries()
        size = format_bytes(sum(entry.num_bytes for entry in entries))
        return f"Cache({str(self.root)!r}, {len(entries)} entries, {size})"


def cache_folder() -> Path:
    """Return the folder of the cache: $DHILGT_CACHE, else one in the user's cache folder."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser().resolve()
    home = Path.home()
    if sys.platform == "darwin":
        base = home / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "dhilgt"


def remove(path: Path) -> None:
    """Remove one entry: first hide it by a rename, then delete it."""
    hidden = path.with_name(f".{path.name}.removed-{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        path.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)
    with contextlib.suppress(OSError):
        _stamp_of(path).unlink(missing_ok=True)


def _gate_of(path: Path) -> Path:
    return path.with_name(f"{path.name.removesuffix('.partial')}.gate")


def _stamp_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.used")


def _sealed_with(path: Path) -> str:
    """Return the checksum of the manifest that an entry was made with; "" in older caches."""
    try:
        return _stamp_of(path).read_text("ascii", errors="replace")
    except OSError:
        return ""


def _check_seal(path: Path) -> None:
    """Raise if an entry is not the one made under this key, such as the folder of another one."""
    expected = _sealed_with(path)
    manifest = path / MANIFEST
    if not manifest.exists():
        raise ArtifactError(f"{manifest} is missing")
    if expected and hash_file(manifest) != expected:
        raise ArtifactError(f"{manifest} is not the one this entry was made with")


def _entry(kind: str, path: Path) -> CacheEntry:
    files = [file.stat() for file in path.iterdir() if file.is_file()]
    whole = (path / MANIFEST).exists()
    made = (path / MANIFEST).stat().st_mtime if whole else path.stat().st_mtime
    stamp = _stamp_of(path)
    return CacheEntry(
        kind=kind,
        key=path.name,
        num_bytes=sum(status.st_size for status in files),
        made=made,
        last_used=max(made, stamp.stat().st_mtime) if stamp.exists() else made,
        path=path,
        whole=whole,
    )
