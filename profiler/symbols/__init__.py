"""Find the functions, files and lines of addresses, from object files and generated code."""
