"""The store of a recording: stacks, intervals of time, totals."""
