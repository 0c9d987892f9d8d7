"""Sessions of the library: how they are kept, how images enter them, and what a run returns."""
