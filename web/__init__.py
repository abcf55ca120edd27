"""The Flask server and the page. Sees a profile through ``flametap.web.source.ProfileSource``."""
