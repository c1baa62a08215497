"""Everything that is sent to Slack or read from it: calls, facts about people, and files.

A new Slack method is one more line in `rate_limits.py`. Rates are changed there, errors and how long to wait after each
in `troubles.py`, what is known about people and for how long in `directory.py`. Nothing here decides anything about a
call. Begin with `calls.py`.
"""
