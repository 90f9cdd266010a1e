"""The commands: each parses its arguments, calls the library and prints."""
