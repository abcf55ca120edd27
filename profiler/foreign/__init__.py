"""Read the files of other profilers as recordings."""
