"""The demo's orders to the bot's process, one a line on its input. In a module of its own: the demo need not import
the bot."""

AHEAD = "ahead"
CRASH_IN_CALL = "crash-in-call"
