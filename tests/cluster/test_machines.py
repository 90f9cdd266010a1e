"""Machines of a cluster that come and go."""

from dhilgt.cluster import machines
from dhilgt.cluster.session import connected
from tests.cluster.conftest import an_extra_node


def test_a_machine_that_has_left_is_not_asked(cluster, tmp_path, monkeypatch):
    with connected(cluster.address) as ray:
        with an_extra_node(cluster) as node_id:
            listed = machines._alive(ray)
        assert node_id in {node["NodeID"] for node in listed}
        answers = iter([listed])  # the list of before, then what Ray says
        alive = machines._alive
        monkeypatch.setattr(machines, "_alive", lambda ray: next(answers, None) or alive(ray))
        assert machines.unseen(ray, tmp_path) == {}
