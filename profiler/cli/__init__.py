"""The command line: ``flametap COMMAND …``. Only this package prints.

Nothing heavy is imported before it is needed: ``flametap --help`` loads click and no more.
"""
