"""Parts that several systems are built from."""
