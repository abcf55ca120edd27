"""Store a recording: its stacks, its intervals of time, and their totals."""
