"""HSGT: clusters of nodes, and a Transformer over their hierarchy."""
