"""An epoch of ANS-GT on a GPU, recorded and kernel by kernel: `python -m bench.gpu_baselines`.

Also checks that both end with the same loss where nothing is drawn.
"""

import argparse
from typing import Any

import numpy as np

from bench import graphs
from dhilgt import baselines

EPOCHS = {"auto": 8, "off": 3}
DROPOUTS = ("dropout", "attention_dropout", "input_dropout")


def epoch(graph_name: str, cuda_graph: str, **changes: Any) -> dict[str, Any]:
    """Return the seconds of preparing, of the shortest epoch and validation, and the first losses.

    Args:
        graph_name: As for `bench.graphs.load`.
        cuda_graph: "auto" to record steps, "off" to launch kernel by kernel.
        changes: Settings of ANS-GT.
    """
    _, graph = graphs.load(graph_name)
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    train, val, _ = np.split(order, [graph.num_nodes * 6 // 10, graph.num_nodes * 8 // 10])
    model = baselines.create("ansgt", graph, **changes)
    config = model.train_config(epochs=EPOCHS[cuda_graph], cuda_graph=cuda_graph, warmup_epochs=2)
    result = baselines.fit(model, train, val, config, device="cuda", progress=False)
    history = result.phases["train"].history
    return {
        "prepare": result.stages.seconds()["precompute"],
        "epoch": min(result.trainer.stages.laps("epoch")),
        "evaluation": min(result.trainer.stages.laps("evaluation")),
        "losses": [line["train_loss"] for line in history[:2]],
    }


def main() -> None:
    """Measure the graphs that are named, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*", default=["cora", "pubmed"])
    for name in parser.parse_args().graphs:
        recorded, plain = (epoch(name, way) for way in ("auto", "off"))
        ratio = plain["epoch"] / recorded["epoch"]
        print(
            f"{name}: prepared in {recorded['prepare']:.1f} s; an epoch {recorded['epoch']:.3f} s, "
            f"kernel by kernel {plain['epoch']:.3f} s ({ratio:.1f} x); validation "
            f"{recorded['evaluation']:.3f} s, {plain['evaluation']:.3f} s",
            flush=True,
        )
    none = dict.fromkeys(DROPOUTS, 0.0)
    first, second = (epoch("cora", way, period=None, **none)["losses"] for way in ("auto", "off"))
    print(f"losses without dropout: recorded {first}, kernel by kernel {second}")
    if not np.allclose(first, second, rtol=1e-2):
        raise SystemExit("recorded steps do not end where single kernels do")


if __name__ == "__main__":
    main()
