"""`dhilgt doctor`: check the installation, and list what it has to work with."""

import importlib.metadata
import platform
import time
from typing import Annotated, Any

import numpy as np
import typer

from dhilgt import _native
from dhilgt._version import __version__
from dhilgt.cli import demo, shell
from dhilgt.graph.random_graphs import generate
from dhilgt.labels.build import ALGORITHMS
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.utils import checks, memory

_NEEDED = ("numpy", "rich", "typer")
_OPTIONAL = {
    "pyarrow": "Parquet files",
    "scipy": "sparse matrices and datasets",
    "pooch": "fetching datasets",
    "networkx": "NetworkX graphs",
    "torch": "training",
    "safetensors": "training",
    "yaml": "files of settings",
    "torch_geometric": "PyG data",
}
_DISTRIBUTIONS = {"yaml": "PyYAML"}
_TEST_NODES = 300


def run(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: bool = False,
) -> None:
    """Check the installation: versions, processor, memory, GPUs, and short self-tests.

    The exit code is 1 if a self-test fails.

    \b
    Example:
      dhilgt doctor
    """  # noqa: D301 - \b keeps the example's lines apart
    facts: dict[str, Any] = {
        "dhilgt": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: _version(name) for name in (*_NEEDED, *_OPTIONAL)},
        "threads": checks.num_threads(None),
        "simd": _native.simd_level(),
        "simd_supported": _native.simd_supported(),
        "memory_available_bytes": memory.available_bytes(),
        "gpus": _gpus(),
        "self_test": _self_test(),
        "model_test": _model_test(),
    }
    if as_json:
        shell.print_json(facts)
    tests = (facts["self_test"], facts["model_test"])
    failed = any(test is not None and test["problem"] is not None for test in tests)
    if not as_json and (failed or not quiet):
        shell.print_table(_rows(facts))
    if failed:
        raise typer.Exit(shell.FAILED)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(_DISTRIBUTIONS.get(package, package))
    except importlib.metadata.PackageNotFoundError:
        return None


def _self_test() -> dict[str, Any]:
    """Compare all distances of small graphs with breadth-first searches, for every algorithm."""
    started = time.perf_counter()
    problem = None
    for directed in (False, True):
        graph = generate(_TEST_NODES, 3, seed=1, directed=directed)
        truth = np.stack([demo.distances_from(graph, v) for v in range(_TEST_NODES)])
        for algorithm in ALGORITHMS:
            labels = HubLabels.build(graph, algorithm=algorithm, progress=False)
            if not np.array_equal(labels.distance_matrix(np.arange(_TEST_NODES)), truth):
                kind = "a directed" if directed else "an undirected"
                problem = problem or f"{algorithm} is wrong on {kind} graph"
    return {"problem": problem, "seconds": round(time.perf_counter() - started, 3)}


def _gpus() -> list[dict[str, Any]] | None:
    """Return name and memory of each GPU; None without torch."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return []
    gpus = []
    for at in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(at)
        name = torch.cuda.get_device_name(at)
        gpus.append({"name": name, "free_bytes": free, "total_bytes": total})
    return gpus


def _model_test() -> dict[str, Any] | None:
    """Train a tiny model for a few epochs, on the GPU if there is one; None without torch."""
    try:
        import dhilgt

        classifier = dhilgt.NodeClassifier
    except ImportError:
        return None
    started = time.perf_counter()
    problem, device = None, "cpu"
    try:
        graph = generate(_TEST_NODES, 6, seed=1, num_features=8, num_classes=3, homophily=0.9)
        clf = classifier(
            size=8, hidden_channels=16, num_layers=1, heads=2, epochs=8, lr=0.02, warmup_epochs=0,
            recipe="paper",
            dropout=0.1, cache=False, progress=False,
        ).fit(graph)  # fmt: skip
        device = str(next(clf.model_.parameters()).device)
        losses = [line["train_loss"] for line in clf.result_.history]
        if not losses[-1] < losses[0]:
            problem = f"the loss of a tiny model did not fall ({losses[0]:.3f} to {losses[-1]:.3f})"
    except Exception as error:  # whatever it is, it is what this command is to report
        problem = f"{type(error).__name__}: {error}"
    return {
        "problem": problem,
        "device": device,
        "seconds": round(time.perf_counter() - started, 3),
    }


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
    if facts["gpus"] is not None:
        rows += [
            (
                f"gpu {at}",
                f"{gpu['name']}, {memory.format_bytes(gpu['free_bytes'])} free of "
                f"{memory.format_bytes(gpu['total_bytes'])}",
            )
            for at, gpu in enumerate(facts["gpus"])
        ] or [("gpu", "none that torch can use; training runs on the processor")]
    rows.append(("self-test", f"{result} ({test['seconds']:.2f} s)"))
    model = facts["model_test"]
    if model is not None:
        outcome = "passed" if model["problem"] is None else f"FAILED: {model['problem']}"
        rows.append(("model test", f"{outcome} on {model['device']} ({model['seconds']:.2f} s)"))
    return rows
