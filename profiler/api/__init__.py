"""The Python API: ``import flametap``. What is imported is imported when it is used."""
