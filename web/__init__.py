"""The Flask server and the page. Reads a profile through ``flametap.web.source.ProfileSource``."""
