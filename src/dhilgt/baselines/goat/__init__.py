"""Parts of GOAT: sampled rings, the codebook, positions by random walks."""
