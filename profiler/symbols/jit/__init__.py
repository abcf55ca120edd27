"""Names and lines of code that a runtime made while it ran."""
