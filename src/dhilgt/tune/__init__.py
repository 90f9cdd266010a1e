"""Search for settings by validation score: what to choose from, one trial, the search itself."""
