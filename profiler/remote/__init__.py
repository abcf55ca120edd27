"""Record on another machine, or in a container; see README.md."""
