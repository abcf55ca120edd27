"""Find the files of a module, of its debug information and of its source text."""
