"""What holds for all tests."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    """Keeps the tests, and the processes they start, out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DHILGT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
