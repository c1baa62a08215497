"""Facts about people from Slack: accounts, members of groups, who can read a channel. Kept for 30 seconds at most.

How they are asked for and how long they are kept is changed here alone. `confirmation/authorise.py` decides what
follows from them. Begin with `directory.py`.
"""
