"""Find the interpreters in a process, describe them to the agent, and name what they run."""
