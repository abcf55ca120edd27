"""One live capture, from the attach to the detach, and what it costs."""
