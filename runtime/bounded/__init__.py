"""Runs checks of untrusted input in a process that can be stopped.

`schemas.py` is the check of JSON schemas; that of expressions is in the bot. Begin with `bounded_check.py`.
"""
