"""Read lines, inlined functions and call sites in another process; keep them on disk."""
