"""Send a recording to a profile store, piece by piece, while it is made; see README.md."""
