"""The commands that the demo sends to the bot's process, one in each line of its standard input.

They have a module of their own, so that the demo does not have to import the bot.
"""

AHEAD = "ahead"
CRASH_IN_CALL = "crash-in-call"

FRAGILE = "fragile"
"""The bot says so beside its address, if it can crash in the middle of a call."""
