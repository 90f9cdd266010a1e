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
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="dhr")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)
        running = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        running.add_node(**NODE)
        try:
            yield running
        finally:
            ray.shutdown()
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


@contextlib.contextmanager
def kept_busy(ray):
    """Keeps the nodes that there are busy, so that units go to others."""
    from dhilgt.cluster.nodes import pinned

    sleep = ray.remote(small_units.sleep)
    with tempfile.TemporaryDirectory() as folder:
        marks = [
            (Path(folder, node["NodeID"]), pinned(node["NodeID"]))
            for node in ray.nodes()
            if node["Alive"]
        ]
        refs = [sleep.options(**where).remote(600, mark) for mark, where in marks]
        try:
            limit = time.monotonic() + 60
            while not all(mark.exists() for mark, _ in marks):  # until then a unit may go there
                assert time.monotonic() < limit
                time.sleep(0.02)
            yield
        finally:
            for ref in refs:
                ray.cancel(ref, force=True)
