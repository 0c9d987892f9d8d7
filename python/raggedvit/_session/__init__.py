"""Sessions of the library: their cache, their inputs and their results."""
