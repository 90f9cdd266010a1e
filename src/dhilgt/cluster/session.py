"""The connection to a Ray cluster."""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

from dhilgt.errors import ConfigError, DhilgtError, setting

AUTO = "auto"
"""A running cluster if there is one, else one on this machine for the time of the call."""

_CLIENT = "ray://"
_SECONDS_TO_ANSWER = 10


def ray_package() -> Any:
    """Return the package Ray, imported on first use.

    Raises:
        DhilgtError: If it is not installed.
    """
    try:
        import ray
    except ImportError as error:
        missing = error.name or "ray"
        raise DhilgtError(
            f"a cluster needs {missing}; install it with pip install 'dhilgt[cluster]'"
        ) from error
    return ray


@contextlib.contextmanager
def connected(cluster: str) -> Iterator[Any]:
    """Connect to a cluster for the time of a block, and yield the package Ray.

    A connection that exists already is used, and left as it is.

    Args:
        cluster: "auto", or the address of a cluster ("10.0.0.5:6379").

    Raises:
        DhilgtError: If Ray is not installed.
        ConfigError: If there is no cluster at the address, or it is one of Ray's client.
    """
    ray = ray_package()
    if ray.is_initialized():
        yield ray
        return
    with _same_signals_after():
        with _answered(cluster):
            _knock(cluster)
            _start(ray, cluster)
        try:
            # Ray prints notes, as about a worker that died, on standard output, where commands
            # write their results.
            with contextlib.redirect_stdout(sys.stderr):
                yield ray
        finally:
            ray.shutdown()


@contextlib.contextmanager
def _same_signals_after() -> Iterator[None]:
    """Restore the handlers of signals that stop a process when the block ends.

    Ray sets its own when it starts, and none when it ends: a training that follows in this process
    would be ended by SIGTERM before it has saved.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for signum, handler in before.items():
            if handler is not None:  # set by C code, and cannot be restored
                signal.signal(signum, handler)


def check_cluster(cluster: str) -> None:
    """Raise if a cluster cannot be used, before the work that it is needed for.

    Args:
        cluster: As for `connected`.

    Raises:
        DhilgtError: If Ray is not installed.
        ConfigError: If nothing listens at the address.
    """
    ray_package()
    with _answered(cluster):
        _knock(cluster)


@contextlib.contextmanager
def _answered(cluster: str) -> Iterator[None]:
    """Turn an error of the connection into one that says what to do."""
    try:
        yield
    except DhilgtError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"{setting('cluster', cluster)}: no Ray cluster answers there ({reason}); start one "
            "with ray start --head, or pass 'auto'"
        ) from error


def _knock(cluster: str) -> None:
    """Raise at once if nothing listens at an address, where Ray would try for minutes."""
    if cluster.startswith(_CLIENT):
        raise ConfigError(
            f"{setting('cluster', cluster)}: an address of Ray's client, which is not supported; "
            "run this on a machine of the cluster with 'auto' or its address (host:6379), or hand "
            "it in with ray job submit"
        )
    host, colon, port = cluster.rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=_SECONDS_TO_ANSWER).close()


def _start(ray: Any, cluster: str) -> None:
    quiet = {"log_to_driver": False, "logging_level": "error"}
    if cluster != AUTO:
        ray.init(address=cluster, **quiet)
        return
    # Not Ray's own "auto": that takes any cluster on this machine, such as one that another program
    # has started for itself. Without an address it is the one of RAY_ADDRESS or `ray start`.
    ray.init(include_dashboard=False, **quiet)
