"""The C library through ctypes: loading it, its structs and functions, checks of arguments, errors."""
