"""What holds for all tests."""

import os
import signal
from pathlib import Path

import pytest

from tests.browser_cases import browser  # noqa: F401 - a fixture of those who look at pages

# Several processes share the cores: threads that wait for each other would make all of them slow.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# cluster="auto" starts a cluster, and takes none that another process runs for its tests.
os.environ.setdefault("RAY_ADDRESS", "local")

# Tests that a shell starts in the background ignore Ctrl-C, and so would all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Without a GPU the fused kernels run in Triton's interpreter; Triton reads this as it is imported.
if not Path("/proc/driver/nvidia").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    """Keeps the tests, and the processes they start, out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DHILGT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
