"""Find V8 in a process, describe it to the agent, and name the JavaScript functions it runs."""
