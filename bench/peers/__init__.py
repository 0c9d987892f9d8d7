"""The library beside what its users would pick instead. ../peers.py is the program."""
