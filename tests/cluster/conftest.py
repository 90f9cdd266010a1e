"""A cluster of several nodes on this machine, one for all tests of a process.

Tests may run in several processes at once (pytest-xdist). Each has a cluster of its own, with
temporary files of its own: a short path, as the names of sockets have at most 107 characters.
"""

import contextlib
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from tests.cluster import small_units

ray = pytest.importorskip("ray", reason="needs the extra cluster")

NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}


@pytest.fixture(scope="session")
def cluster():
    """Two nodes of one core; tests may add nodes, and remove those."""
    with a_cluster() as running:
        try:
            yield running
        finally:
            ray.shutdown()


@contextlib.contextmanager
def a_cluster():
    """Two nodes of one core, for the time of a block."""
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="dhr")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)
        running = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        running.add_node(**NODE)
        try:
            yield running
        finally:
            running.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def connection(cluster):
    """The package Ray, connected: once for a module, so that its workers are started once."""
    from dhilgt.cluster.session import connected

    with connected(cluster.address) as connection:
        yield connection


@contextlib.contextmanager
def an_extra_node(cluster, **options):
    """A further node, for the time of a block; yields its id."""
    node = cluster.add_node(**NODE | options)
    cluster.wait_for_nodes()
    try:
        yield node.node_id
    finally:
        cluster.remove_node(node)
        cluster.wait_for_nodes()  # until Ray knows: work for it would wait, as in `kept_busy`


def alive(ray):
    """The ids of the nodes that Ray takes for alive: also one that has just died."""
    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}


@contextlib.contextmanager
def kept_busy(ray):
    """Keeps the nodes that there are busy, so that units go to others."""
    from dhilgt.cluster.nodes import pinned

    sleep = ray.remote(small_units.sleep)
    with tempfile.TemporaryDirectory() as folder:
        marks = {node: Path(folder, node) for node in alive(ray)}
        refs = [sleep.options(**pinned(node)).remote(600, mark) for node, mark in marks.items()]
        try:
            limit = time.monotonic() + 120
            # Until then a unit may go there. A node that a test has removed is seen as dead late.
            while idle := {node for node, mark in marks.items() if not mark.exists()} & alive(ray):
                assert time.monotonic() < limit, f"{idle} of {ray.nodes()}"
                time.sleep(0.05)
            yield
        finally:
            for ref in refs:
                ray.cancel(ref, force=True)
