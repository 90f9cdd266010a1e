"""Programs that make pages of docs/results and tables of settings, and the searches behind them."""
