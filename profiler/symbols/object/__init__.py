"""Object files: ELF, Mach-O, the table of Go, what a loaded image tells."""
