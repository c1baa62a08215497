"""Facts about people from Slack: accounts, members of groups, who can read a channel. Kept for 30 seconds at most.

Begin with `directory.py`. `confirmation/authorise.py` decides what follows from these facts.
"""
