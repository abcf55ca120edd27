"""Find names and lines of code that a runtime generated while it ran."""
