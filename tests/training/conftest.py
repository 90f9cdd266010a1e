"""What holds for all tests of trainings."""

import signal

import pytest


@pytest.fixture(autouse=True)
def _own_signals():
    """Tests of this process may have started Ray, which takes SIGTERM over and keeps it."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
