"""Tell where threads wait for locks, who held them, and which waits are for work instead."""
