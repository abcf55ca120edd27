"""Merge DWARF that is spread over several files (dwz, .dwo, .dwp) into one file."""
