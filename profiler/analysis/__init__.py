"""Call trees, and the weights of lines, instructions and modules, made from a profile."""
