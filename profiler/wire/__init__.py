"""The agent's bytes: their layout, the ring they come through, and their events."""
