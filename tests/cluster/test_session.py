"""What a connection to a cluster leaves behind."""

import os
import signal

from dhilgt.cluster.session import connected


def test_signals_are_as_before(cluster):
    calls = []

    def mine(*_):
        calls.append("mine")

    before = signal.signal(signal.SIGTERM, mine)
    try:
        with connected(cluster.address):
            pass
        assert signal.getsignal(signal.SIGTERM) is mine
        os.kill(os.getpid(), signal.SIGTERM)  # Ray resets it behind the back of Python, too
        assert calls == ["mine"]
    finally:
        signal.signal(signal.SIGTERM, before)
