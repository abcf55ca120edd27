"""Where the files of a module and of its debug information are."""
