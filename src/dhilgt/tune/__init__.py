"""Search for settings by validation score: the space, one trial, the search itself."""
