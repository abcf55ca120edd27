"""Names for people, and the table they are kept in."""
