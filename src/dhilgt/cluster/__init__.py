"""Labels, tokens, training and prediction on a Ray cluster, with the bytes of one machine."""
