"""Programs that make pages of docs/results from recorded lines, and the searches behind them."""
