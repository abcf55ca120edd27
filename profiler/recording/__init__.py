"""The recording: what was recorded, in memory and as a stream of chunks."""
