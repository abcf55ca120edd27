"""What the host and the agent in the target say to each other, however the agent came in."""
