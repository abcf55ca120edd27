"""What is made of a profile to be looked at: the call tree, and weights of lines, instructions and modules."""
