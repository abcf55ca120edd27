"""Read the agent's bytes: their layout, the ring that carries them, and the decoded events."""
