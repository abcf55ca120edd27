"""``python -m flametap``."""

from .cli import main

main()
