"""The subcommands of `adk-confirm`, one module each; `bot.cli` has the table of them.

How a command is called and what it prints is changed here alone. What it does is in `operations`. Begin with
`common.py`, then `pending.py` for a command that reads and `changes.py` for those that change something.
"""
