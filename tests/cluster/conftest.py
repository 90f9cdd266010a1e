"""A cluster of several nodes on this machine, one for all tests of a process.

Tests may run in several processes at once (pytest-xdist). Each has a cluster of its own, with
temporary files of its own: a short path, as the names of sockets have at most 107 characters.
"""

import shutil
import tempfile

import pytest

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


@pytest.fixture(scope="session")
def connection(cluster):
    """The package Ray, connected to the cluster: once, so that its workers are started once."""
    from dhilgt.cluster.session import connected

    with connected(cluster.address) as connection:
        yield connection
