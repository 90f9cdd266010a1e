"""PolyFormer: polynomial bases of a graph, and attention over the orders of each node."""
