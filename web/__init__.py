"""The Flask server and the page. Reads a recording through ``flametap.analysis.views``."""
