"""The C library through ctypes: where it is found, its structs and functions, checks of arguments, errors."""
