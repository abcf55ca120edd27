"""``python -m flametap``."""

from flametap.cli import main

main()
