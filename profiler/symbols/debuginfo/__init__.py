"""Lines, inlined functions and call sites of a module, read by another process and kept on disk."""
