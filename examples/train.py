"""Trains DHIL-GT on a generated graph. Kill it and run it again: it goes on where it was."""

import numpy as np
import torch

import dhilgt

graph = dhilgt.generate(2_000, 10, feature_noise=3.0, seed=0)
sampler = dhilgt.TokenSampler(dhilgt.HubLabels.build(graph), size=16)
train, val, test = np.split(np.random.default_rng(0).permutation(graph.num_nodes), [1_200, 1_600])
batches = {
    name: dhilgt.TokenLoader(sampler, graph.features, graph.labels, nodes=nodes, shuffle=True)
    for name, nodes in (("train", train), ("val", val), ("test", test))
}
torch.manual_seed(0)  # the trainer seeds what follows; the first weights are drawn here
model = dhilgt.DHILGT(graph.features.shape[1], 64, graph.num_classes, num_layers=2, dropout=0.3)
config = dhilgt.TrainConfig(epochs=10, lr=2e-3, warmup_epochs=1)
trainer = dhilgt.Trainer(model, config, "example-run", device="auto", resume=True)
result = trainer.fit(batches["train"], batches["val"])
print(f"epoch {result.best_epoch}: {result.best_score:.3f} on validation nodes")
print(trainer.evaluate(batches["test"]))
