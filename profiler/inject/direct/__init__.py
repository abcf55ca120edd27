"""Our own way in: one thread of the target is stopped once, and nothing of the target is called."""
