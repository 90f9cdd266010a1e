"""GraphGPS: message passing and attention over all nodes, side by side in every layer."""
