"""The command line: each command is a function with its options, its work and its words, in one file.

Begin with `command.py`, which has what they share, then `changes.py`.
"""
