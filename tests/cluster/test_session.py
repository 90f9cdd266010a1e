"""What a connection to a cluster changes in the process, and what it does not."""

import subprocess
import sys

from dhilgt.cluster import machines
from dhilgt.cluster.session import connected
from tests.cluster.conftest import an_extra_node

CODE = """
import signal, sys
from dhilgt.cluster.session import connected

for signum in (signal.SIGTERM, signal.SIGINT):
    signal.signal(signum, lambda signum, _: print(f"own {signum}", file=sys.stderr))
with connected(sys.argv[1]):
    pass
signal.raise_signal(signal.SIGTERM)
signal.raise_signal(signal.SIGINT)
"""


def test_signals_do_after_a_connection_what_they_did_before(cluster):
    # In a process of its own: the signal would end this one.
    done = subprocess.run(
        [sys.executable, "-c", CODE, cluster.address],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = [line for line in done.stderr.splitlines() if line.startswith("own")]
    assert (done.returncode, said) == (0, ["own 15", "own 2"]), done.stderr


def test_a_machine_that_has_left_is_not_asked(cluster, tmp_path, monkeypatch):
    with connected(cluster.address) as ray:
        with an_extra_node(cluster) as node_id:
            listed = machines._alive(ray)
        assert node_id in {node["NodeID"] for node in listed}
        answers = iter([listed])  # the list of before, then what Ray says
        alive = machines._alive
        monkeypatch.setattr(machines, "_alive", lambda ray: next(answers, None) or alive(ray))
        assert machines.unseen(ray, tmp_path) == {}
