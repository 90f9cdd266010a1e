"""Batches that the model's tests share."""

import torch

from dhilgt import DHILGT

NO_PATH = 255


def batch_of(
    rows=5, slots=6, nodes=9, channels=7, seed=0, padding=0.3, dtype=torch.float32, high=12
):
    """Features, index and distances; distances are symmetric, some pairs have no path."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(nodes, channels, generator=draw, dtype=dtype)
    index = torch.randint(0, nodes, (rows, slots), generator=draw)
    hidden = torch.rand(rows, slots, generator=draw) < padding
    hidden[:, 0] = False
    index[hidden] = -1
    spd = torch.randint(1, high, (rows, slots, slots), generator=draw)
    spd[torch.rand(spd.shape, generator=draw) < 0.1] = NO_PATH
    upper = spd.triu(1)
    spd = (upper + upper.transpose(1, 2)).to(torch.uint8)
    spd[hidden[:, None, :] | hidden[:, :, None]] = NO_PATH
    return x, index, spd


def model_of(seed=0, dtype=torch.float32, train=False, **settings):
    """A small model whose biases are not all 0 and whose norms are not all alike."""
    settings = {
        "in_channels": 7,
        "hidden_channels": 16,
        "out_channels": 3,
        "num_layers": 2,
        "heads": 4,
        "num_virtual": 2,
        **settings,
    }
    torch.manual_seed(seed)
    model = DHILGT(**settings).to(dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("_bias"):
                parameter.normal_()
            elif "norm." in name:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model.train(train)


def gradients(model, batch, seed=5, **keywords):
    """The gradients of a random mix of the logits, by name."""
    model.zero_grad()
    out = model(*batch, **keywords)
    mix = torch.randn(out.shape, generator=torch.Generator().manual_seed(seed), dtype=out.dtype)
    (out * mix.to(out.device)).sum().backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def sparse_batch(dtype=torch.float64):
    x, index, spd = batch_of(dtype=dtype)
    x[torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.6] = 0
    x[3] = 0  # a node without features
    return x, index, spd
