"""Compares the library with its alternatives. ../baselines.py is the program."""
