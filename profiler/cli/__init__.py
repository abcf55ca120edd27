"""The command line: ``flametap COMMAND …``. Only this package prints.

Heavy modules are imported where they are first needed: ``flametap --help`` loads only click.
"""
