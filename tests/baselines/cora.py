"""Scores of baselines on cora, on the split that training is compared on."""

from dhilgt import baselines, datasets


def accuracy_on_cora(name, *, variant="paper", epochs, recipe=None, **settings):
    """The test accuracy after a short run on 60 % of the nodes."""
    graph = datasets.load("cora")
    model = baselines.create(name, graph, variant=variant, **settings)
    config = model.train_config(variant, epochs=epochs, **(recipe or {}))
    result = baselines.fit(
        model, graph.masks["train"], graph.masks["val"], config, device="cpu", progress=False
    )
    test = model.inference_batches(graph.masks["test"])
    return result.trainer.evaluate(test)["accuracy"]
