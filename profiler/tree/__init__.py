"""Build call trees from a profile, choose what they count and show, and change their shape."""
