"""An epoch on the CPU, validation included, for small models: against every part done plainly.

`make bench-train` prints the table and writes `epoch.jsonl`. Done plainly means: all slots in the
last layer, PyTorch's own gradient of sparse products, and a new batch in every epoch.
"""

from contextlib import ExitStack
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from bench import graphs
from bench.measure import Bench
from dhilgt import DHILGT, Settings, TokenLoader, TrainConfig, Trainer
from dhilgt.classifier.pipeline import Pipeline

EPOCHS = {"features": 30, "layer": 10, "paper": 2}
PLAIN_EPOCHS = {"features": 8, "layer": 4, "paper": 2}
BATCH = {"features": 1 << 14, "layer": 1 << 14, "paper": 256}
CASES: dict[str, dict[str, Any]] = {
    "features": {"num_layers": 0, "size": 1, "hops": 3, "hop_kind": "stack"},
    "layer": {"num_layers": 1, "size": 16, "num_virtual": 0, "readout": "ego"},
    "paper": {},
}
SHOWN = {
    "features": "no layers, features and three averages of them",
    "layer": "one layer, 16 slots, the ego read out",
    "paper": "the paper's four layers, 32 slots",
}


class PlainDHILGT(DHILGT):
    """The model with every slot in every layer."""

    def _encode_egos(self, *inputs: Any) -> Tensor:
        return self._encode(*inputs)[:, 0]


def epoch(graph_name: str, case: str, threads: int) -> dict[str, Any]:
    """Return the seconds of the shortest epoch and validation, ours and done plainly."""
    torch.set_num_threads(threads)
    shown, graph = graphs.load(graph_name)
    settings = Settings(hidden_channels=128, **CASES[case])
    pipeline = Pipeline(graph, settings, cache=None, progress=False)
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    train, val, _ = np.split(order, [graph.num_nodes * 6 // 10, graph.num_nodes * 8 // 10])

    def taken(kind: type[DHILGT], epochs: int) -> float:
        loaders = [
            pipeline.loader(
                np.sort(nodes),
                graph.labels,
                device=torch.device("cpu"),
                batch_size=BATCH[case],
                training=training,
            )
            for nodes, training in ((train, True), (val, False))
        ]
        torch.manual_seed(0)
        config = settings.model_config(pipeline.num_channels, int(graph.labels.max()) + 1)
        plan = TrainConfig(epochs=epochs, lr=1e-2, warmup_epochs=0, patience=None)
        trainer = Trainer(kind(**config.to_dict()), plan, device="cpu", progress=False)
        trainer.fit(*loaders)
        return min(trainer.stages.laps("epoch")) + min(trainer.stages.laps("evaluation"))

    ours = taken(DHILGT, EPOCHS[case])
    with ExitStack() as plain:
        plain.enter_context(mock.patch("dhilgt.model.sparse_product._on_host", return_value=False))
        plain.enter_context(mock.patch.object(TokenLoader, "_is_kept", return_value=False))
        plainly = taken(PlainDHILGT, PLAIN_EPOCHS[case])
    return {
        "measure": "epoch",
        "graph": shown,
        "case": case,
        "seconds": ours,
        "seconds_plain": plainly,
        "ratio": plainly / ours,
    }


def main() -> None:
    """Measure everything and print the table."""
    bench = Bench("epoch", [epoch], __doc__ or "")
    for graph in ("cora", "pubmed"):
        for case, shown in SHOWN.items():
            if (graph, case) == ("pubmed", "paper"):
                continue  # minutes an epoch
            found = bench.measured(epoch, graph, case, bench.threads)
            ours, plainly = (1000 * found[name] for name in ("seconds", "seconds_plain"))
            bench.row(
                f"{found['graph']}: {shown}",
                f"{ours:.0f} ms; plainly {plainly:.0f} ms, {found['ratio']:.1f} x",
            )
    bench.finish()


if __name__ == "__main__":
    main()
