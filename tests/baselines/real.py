"""Scores of baselines on a real graph, over the splits that come with it."""

import numpy as np

from dhilgt import baselines, datasets


def mean_on_chameleon(name, *, variant="paper", epochs, splits=(0, 1, 2), **settings):
    """The mean test accuracy over some of the ten official splits."""
    scores = []
    for split in splits:
        graph = datasets.load("chameleon", split="official", seed=split, download=False)
        model = baselines.create(name, graph, variant=variant, seed=split, **settings)
        config = model.train_config(variant, epochs=epochs)
        masks = graph.masks
        result = baselines.fit(
            model, masks["train"], masks["val"], config, device="cpu", progress=False
        )
        test = model.inference_batches(masks["test"])
        scores.append(result.trainer.evaluate(test)["accuracy"])
    return float(np.mean(scores))
