"""What every layer may use; knows nothing of graphs."""
