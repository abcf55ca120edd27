"""Ruby: where its virtual machine is, how its frames are read, and the names of its methods."""
