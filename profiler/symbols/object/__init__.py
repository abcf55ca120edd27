"""Read object files: ELF, Mach-O, Go's function table, and the contents of a loaded image."""
