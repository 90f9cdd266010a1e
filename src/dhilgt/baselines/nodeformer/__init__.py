"""NodeFormer: attention over all pairs of nodes in linear time, guided by the edges."""
