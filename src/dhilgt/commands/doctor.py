"""`dhilgt doctor`: is this installation sound, and what does it have to work with?"""

import importlib.metadata
import platform
import time
from typing import Annotated, Any

import numpy as np
import typer

from dhilgt import _native, memory, validate
from dhilgt._version import __version__
from dhilgt.commands import searches, shell
from dhilgt.generate import generate
from dhilgt.labels import ALGORITHMS, HubLabels

_NEEDED = ("numpy", "rich", "typer")
_OPTIONAL = {
    "pyarrow": "Parquet files",
    "scipy": "sparse matrices and datasets",
    "pooch": "fetching datasets",
    "networkx": "NetworkX graphs",
    "torch": "torch tensors",
    "torch_geometric": "PyG data",
}
_TEST_NODES = 300


def run(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check the installation: versions, processor, memory, and a short self-test.

    The exit code is 1 if the self-test fails.

    \b
    Example:
      dhilgt doctor
    """  # noqa: D301 - \b keeps the example's lines apart
    facts: dict[str, Any] = {
        "dhilgt": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: _version(name) for name in (*_NEEDED, *_OPTIONAL)},
        "threads": validate.num_threads(None),
        "simd": _native.simd_level(),
        "simd_supported": _native.simd_supported(),
        "memory_available_bytes": memory.available_bytes(),
        "self_test": _self_test(),
    }
    if as_json:
        shell.print_json(facts)
    else:
        shell.print_table(_rows(facts))
    if facts["self_test"]["problem"] is not None:
        raise typer.Exit(shell.FAILED)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _self_test() -> dict[str, Any]:
    """Compares all distances of small graphs with searches, for every algorithm."""
    started = time.perf_counter()
    problem = None
    for directed in (False, True):
        graph = generate(_TEST_NODES, 3, seed=1, directed=directed)
        truth = np.stack([searches.distances_from(graph, v) for v in range(_TEST_NODES)])
        for algorithm in ALGORITHMS:
            labels = HubLabels.build(graph, algorithm=algorithm, progress=False)
            if not np.array_equal(labels.distance_matrix(np.arange(_TEST_NODES)), truth):
                kind = "a directed" if directed else "an undirected"
                problem = problem or f"{algorithm} is wrong on {kind} graph"
    return {"problem": problem, "seconds": round(time.perf_counter() - started, 3)}


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    packages: dict[str, str | None] = facts["packages"]
    free = facts["memory_available_bytes"]
    test = facts["self_test"]
    result = "passed" if test["problem"] is None else f"FAILED: {test['problem']}; reinstall dhilgt"
    rows = [
        ("dhilgt", facts["dhilgt"]),
        ("python", f"{facts['python']}, {facts['system']}"),
        *((name, packages[name] or "missing") for name in _NEEDED),
        ("threads", str(facts["threads"])),
        ("simd", f"{facts['simd']} in use, {facts['simd_supported']} supported"),
        ("memory", "unknown" if free is None else f"{memory.format_bytes(free)} available"),
    ]
    for name, purpose in _OPTIONAL.items():
        rows.append((name, packages[name] or f"not installed (only for {purpose})"))
    rows.append(("self-test", f"{result} ({test['seconds']:.2f} s)"))
    return rows
