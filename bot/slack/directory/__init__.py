"""Who people are, as Slack says: accounts, members of groups, who can read a channel. Known for 30 seconds at most.

Begin with `directory.py`. What follows from the facts is decided in `confirmation/authorise.py`.
"""
