"""GOAT: the model, sampled rings, the codebook, positions by random walks."""
