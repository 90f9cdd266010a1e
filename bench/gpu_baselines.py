"""An epoch of a baseline on a GPU, recorded and kernel by kernel: `python -m bench.gpu_baselines`.

Also checks that both end with the same loss where nothing is drawn.
"""

import argparse
from typing import Any

import numpy as np

from bench import graphs
from dhilgt import baselines

EPOCHS = {"auto": 12, "off": 6}
DROPOUTS = ("dropout", "attention_dropout", "input_dropout", "global_dropout", "graph_dropout")


def epoch(system: str, graph_name: str, cuda_graph: str, **changes: Any) -> dict[str, Any]:
    """Return the seconds of preparing, of the shortest epoch and validation, and the first losses.

    Args:
        system: Name of the baseline.
        graph_name: As for `bench.graphs.load`.
        cuda_graph: "auto" to record steps, "off" to launch kernel by kernel.
        changes: Settings of the baseline.
    """
    _, graph = graphs.load(graph_name)
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    train, val, _ = np.split(order, [graph.num_nodes * 6 // 10, graph.num_nodes * 8 // 10])
    model = baselines.create(system, graph, **changes)
    config = model.train_config(epochs=EPOCHS[cuda_graph], cuda_graph=cuda_graph, warmup_epochs=2)
    result = baselines.fit(model, train, val, config, device="cuda", progress=False)
    history = next(iter(result.phases.values())).history
    return {
        "prepare": result.stages.seconds()["precompute"],
        "epoch": min(result.trainer.stages.laps("epoch")),
        "evaluation": min(result.trainer.stages.laps("evaluation")),
        "losses": [line["train_loss"] for line in history[:3]],
    }


def main() -> None:
    """Measure the graphs that are named, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*", default=["cora", "pubmed"])
    parser.add_argument("--systems", nargs="*", default=["ansgt"], help="names of baselines")
    arguments = parser.parse_args()
    differ = []
    for system in arguments.systems:
        for name in arguments.graphs:
            recorded, plain = (epoch(system, name, way) for way in ("auto", "off"))
            ratio = plain["epoch"] / recorded["epoch"]
            print(
                f"{system}, {name}: prepared in {recorded['prepare']:.1f} s; an epoch "
                f"{1000 * recorded['epoch']:.1f} ms, kernel by kernel "
                f"{1000 * plain['epoch']:.1f} ms ({ratio:.1f} x); validation "
                f"{1000 * recorded['evaluation']:.1f} ms, {1000 * plain['evaluation']:.1f} ms",
                flush=True,
            )
        fields = vars(baselines.create(system, graphs.load("cora")[1]).settings)
        none: dict[str, Any] = {part: 0.0 for part in DROPOUTS if part in fields}
        none |= {
            part: off for part, off in (("period", None), ("gumbel_samples", 0)) if part in fields
        }
        first, second = (epoch(system, "cora", way, **none)["losses"] for way in ("auto", "off"))
        print(f"{system}: losses without dropout: recorded {first}, kernel by kernel {second}")
        if not np.allclose(first, second, rtol=1e-2):
            differ.append(system)
    if differ:
        raise SystemExit(f"recorded steps do not end where single kernels do: {differ}")


if __name__ == "__main__":
    main()
