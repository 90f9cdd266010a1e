"""Scores of baselines on a real graph, over the splits that come with it."""

import numpy as np

import dhilgt
from dhilgt import baselines
from tests.real_data import FOLDER


def mean_on_chameleon(name, *, variant="paper", epochs, splits=(0, 1, 2), **settings):
    """The mean test accuracy over some of the ten official splits."""
    with np.load(FOLDER / "chameleon" / "raw" / "chameleon_filtered.npz") as data:
        graph = dhilgt.Graph.from_edges(
            *data["edges"].T, features=data["node_features"], labels=data["node_labels"]
        )
        masks = {part: data[f"{part}_masks"] for part in ("train", "val", "test")}
    scores = []
    for split in splits:
        model = baselines.create(name, graph, variant=variant, seed=split, **settings)
        result = baselines.fit(
            model,
            masks["train"][split],
            masks["val"][split],
            model.train_config(variant, epochs=epochs),
            device="cpu",
            progress=False,
        )
        test = model.inference_batches(masks["test"][split])
        scores.append(result.trainer.evaluate(test)["accuracy"])
    return float(np.mean(scores))
