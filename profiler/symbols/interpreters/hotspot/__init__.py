"""Find HotSpot in a process, say where its frames lie, and name its methods."""
