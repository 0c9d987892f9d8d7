"""Describes arrays of any library for the compiled core, and runs the ops on arrays that are not PyTorch's."""
