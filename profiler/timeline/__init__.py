"""Draw up what threads did over time: the lanes of a timeline, and heat maps."""
