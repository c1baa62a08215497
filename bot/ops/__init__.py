"""The command line: each command is a function, with its options, what it does, and what it says.

Modules with click's functions import at their top only what `--help` needs; what a command does is imported when it
runs. Begin with `command.py`, which has what they share, then `changes.py`.
"""
