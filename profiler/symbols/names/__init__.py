"""Make names readable, and keep them in a table."""
