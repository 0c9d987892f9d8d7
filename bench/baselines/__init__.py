"""The library beside what its users would pick instead. ../baselines.py is the program."""
