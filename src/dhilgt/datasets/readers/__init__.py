"""One module per file format of public datasets."""
