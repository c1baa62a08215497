"""What the demo tells the bot's process, one a line on its input. Apart, so that the demo need not import the bot."""

AHEAD = "ahead"
CRASH_IN_CALL = "crash-in-call"
